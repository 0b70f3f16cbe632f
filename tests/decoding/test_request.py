"""Conditions of translations, counted as they pass: by hand."""

import math
from collections import Counter

import pytest

from translate.decoding import ConditionCounts, Translation, count_conditions


def given(source: str, text: str, *, truncated: bool = False, is_cut: bool = False, unmet: int = 0) -> Translation:
    """A translation with a subword for each character."""
    ids = [100 + ord(character) for character in text]
    source_ids = [100 + ord(character) for character in source]
    return Translation(
        source, text, ids, -1.0, -1.0, truncated, is_cut, source_ids=source_ids, unmet=("house",) * unmet
    )


def test_a_translation_is_shown_as_text() -> None:
    plain = given("Hund", "dog")
    assert (str(plain), repr(plain)) == ("dog", "<Translation 'dog', score -1.000>")
    others = given("Hund", "dog's", truncated=True, is_cut=True)._replace(alternatives=(plain, plain))
    assert f"{others}" == "dog's"
    assert repr(others) == '<Translation "dog\'s", score -1.000, 2 alternatives, source_truncated, truncated>'


def test_words_have_the_probabilities_of_their_tokens() -> None:
    tokens = {"tokens": ["▁do", "g", "▁runs"]}
    dog, runs = (
        given("Hund", "dog runs")._replace(**tokens, token_log_probs=[math.log(0.5), math.log(0.125), 0.0, -1.0]).words
    )
    assert dog == ("dog", pytest.approx(0.0625), pytest.approx(0.25)) and runs == ("runs", 1.0, 1.0)
    assert given("Hund", "dog runs")._replace(**tokens).words == []  # an engine may give no log-probabilities
    piece = given("Hund", "dog")._replace(tokens=["▁dog"], token_log_probs=[0.0, -1.0])
    split = given("Hund", "dog")._replace(tokens=["▁dog"] * 2, token_log_probs=[0.0, -1.0] * 2, pieces=(piece, piece))
    assert [word.text for word in split.words] == ["dog", "dog"]


def test_conditions_are_counted_and_said() -> None:
    translations = [
        given("Hund", "dog"),
        given("", ""),
        given("Hund", ""),
        given("Hund", "dog", truncated=True, unmet=2),  # one line that lacks something
        given("Hund", "dog", is_cut=True),
        given("Hund", "dog dog dog dog dog"),
    ]
    counts = count_conditions(translations)
    assert counts == Counter(lines=6, empty=2, truncated=1, source_truncated=1, repetitive=1, length_ratio=1, unmet=1)
    assert str(counts) == (
        "6 lines, 2 empty, 1 cut at the maximum length, 1 repeat themselves, 1 far longer or shorter than their source,"
        " 1 without a required phrase, 1 too long and cut"
    )
    assert str(count_conditions(translations[:1])) == "1 line, 0 empty, 0 cut at the maximum length"


def test_watching_passes_translations_on_one_by_one() -> None:
    counts = ConditionCounts()
    translations = [given("Hund", "dog"), given("Hund", "")]
    stream = counts.watch(iter(translations))
    assert next(stream) is translations[0] and (counts["lines"], counts["empty"]) == (1, 0)
    assert next(stream) is translations[1] and (counts["lines"], counts["empty"]) == (2, 1)
