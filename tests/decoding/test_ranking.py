"""Minimum Bayes risk: utilities against sacreBLEU's own, expected utilities by hand. Placeholders: orders by hand."""

import random

import pytest
from harness import tiny_config
from sacrebleu.metrics.chrf import CHRF

from translate.config.decoding import DecodingConfig
from translate.data.tokenizer import Tokenizers, prepare_tokenizers
from translate.decoding.ranking import choose_translation, expected_utilities, pairwise_chrf
from translate.decoding.request import SearchInput
from translate.decoding.search.beam import Hypothesis

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


BEAM = ["open file", "open <b>%d</b>", "open the file %s", "open <b>%s</b>", "open the <b>%s</b>", "open <b>%s</b>"]


@pytest.fixture(scope="module")
def tokenizers() -> Tokenizers:
    lines = [*BEAM, "Datei <b>%s</b> öffnen"] * 3
    return prepare_tokenizers(tiny_config(tokenizer={"vocab_size": 300}).tokenizer, lines, lines)


@pytest.mark.parametrize(
    ("source", "settings", "phrases", "order"),
    [
        ("Datei <b>%s</b> öffnen", {}, (), [3]),
        ("Datei <b>%s</b> öffnen", {"n_best": 4}, (), [3, 4, 0, 1]),  # texts are distinct
        ("Datei <b>%s</b> öffnen", {"n_best": 5}, ("the",), [4, 2, 3, 0, 1]),  # required phrases count more
        ("Datei <b>%s</b> öffnen", {"keep_placeholders": "off", "n_best": 3}, (), [0, 1, 2]),
        ("Datei <b>%s</b> öffnen", {"search": "sample", "n_best": 6}, (), [0, 1, 2, 3, 4, 5]),
        ("Datei <b>%s</b> öffnen", {"mbr": "chrf"}, (), [3]),  # of the two that occur as one
        ("Datei %s öffnen", {"n_best": 2}, (), [2, 0]),
        ("Datei öffnen", {"n_best": 2}, (), [0, 1]),
        ("Datei %u öffnen", {"n_best": 2}, (), [0, 1]),  # none keeps it
    ],
)
def test_hypotheses_that_keep_the_placeholders_come_first(
    tokenizers: Tokenizers, source: str, settings: dict[str, object], phrases: tuple[str, ...], order: list[int]
) -> None:
    """In the order of their own scores, which do not change."""
    config = DecodingConfig.model_validate({"beam_size": 6, **settings})
    beam = [
        Hypothesis(tokenizers.target.encode(text), [], -1.0 - number, truncated=False)
        for number, text in enumerate(BEAM)
    ]
    given = SearchInput(0, 0, source, [5], False, phrases=phrases)
    best = choose_translation(given, beam, tokenizers, config)
    found = [best, *best.alternatives]
    assert [each.text for each in found] == [BEAM[number] for number in order]
    assert [each.score for each in found] == [-1.0 - number for number in order]
