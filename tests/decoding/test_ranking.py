"""Minimum Bayes risk: utilities against sacreBLEU's own, expected utilities by hand."""

import random

import pytest
from sacrebleu.metrics.chrf import CHRF

from translate.decoding.ranking import expected_utilities, pairwise_chrf

ODD_TEXTS = [
    "",
    " ",
    "a",
    "?!",
    "The dog, 3.5 m long, ran.",
    "the dog , 3.5 m long , ran .",
    "a a a a a a a",
    "a a a a",
    "Größe 中文 🦄\u2028ab",
    "  The   dog ran.  ",
    "&quot;x&quot; <skipped> x",
]


def random_texts(number: int, *, seed: int) -> list[str]:
    """Texts of few different words, so that all have something in common and n-grams come more than once."""
    generator = random.Random(seed)
    words = ["a", "man", "woman", "in", "the", "snow", "snow,", "playing", "with", "dogs."]
    return [" ".join(generator.choices(words, k=generator.randint(1, 13))) for _ in range(number)]


def test_utilities_are_those_of_sacrebleu() -> None:
    texts = [*ODD_TEXTS, "狗在雪地里跑。", "狗在雪里跑"] + random_texts(29, seed=5)
    expected = [[CHRF().sentence_score(text, [reference]).score for reference in texts] for text in texts]
    for text, row, expected_row in zip(texts, pairwise_chrf(texts).tolist(), expected, strict=True):
        assert row == pytest.approx(expected_row, rel=1e-9, abs=0.0), text
    scores = sorted(score for row in expected for score in row)
    assert 0.0 < scores[len(scores) // 2] < 100.0  # most pairs are neither alike nor without anything in common


def test_duplicates_count_as_weight() -> None:
    # sacreBLEU gives "ab" 63.64 where "abc" is right, and "abc" 87.5 where "ab" is: (4 · 100 + 63.64) / 5 and
    # (4 · 87.5 + 100) / 5.
    utilities = expected_utilities(["abc", "ab", "ab", "ab", "ab"])
    assert utilities == pytest.approx([90.0, *[92.727273] * 4])


def test_ties_and_order() -> None:
    utilities = expected_utilities(["two dogs", "many fish"] * 2)
    assert utilities[:2] == utilities[2:]  # to the last bit, so that the first of equals is chosen
    assert expected_utilities(["", " ", ""]) == [0.0, 0.0, 0.0]
    texts = random_texts(17, seed=3)
    assert expected_utilities(texts[::-1]) == expected_utilities(texts)[::-1]  # to the last bit
