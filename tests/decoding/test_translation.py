"""Translations in a notebook, as an XML reader finds them, and their conditions, counted as they pass: by hand."""

import math
from collections import Counter
from typing import Any
from xml.etree import ElementTree

import pytest

from translate.decoding import Translation, count_conditions
from translate.decoding.output.flags import FLAGS


def given(source: str, text: str, *, truncated: bool = False, is_cut: bool = False, unmet: int = 0) -> Translation:
    """A translation with a subword for each character."""
    ids = [100 + ord(character) for character in text]
    source_ids = [100 + ord(character) for character in source]
    return Translation(
        source, text, ids, -1.0, -1.0, truncated, is_cut, source_ids=source_ids, unmet=("house",) * unmet
    )


PLAIN = Translation(
    "Der Hund",
    "a <dog>",
    [7, 8, 9],
    log_prob=-1.5,
    score=-1.25,
    truncated=False,
    source_truncated=False,
    token_log_probs=[0.0, -3.0, -1.0, -0.1],
    source_ids=[5, 6],
    tokens=["▁a", "▁<do", "g>"],
    source_tokens=["▁Der", "▁Hund"],
)


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


@pytest.mark.parametrize(
    ("source", "text", "is_flagged"),
    [
        ("%s löschen?", "Delete %s?", False),
        ("%s löschen?", "Delete it?", True),
        ("Löschen?", "Delete %s?", True),
        ("%s und %d", "%d and %s", True),
        ("%s löschen?", "", False),  # which is empty
    ],
)
def test_other_placeholders_are_flagged(source: str, text: str, is_flagged: bool) -> None:
    """Of a whole line, also if it was translated in pieces, of which the second has what the first has lost."""
    whole = given(source, text)
    assert ("placeholders" in whole.flags) == is_flagged
    pieces = given("%s löschen?", "Delete?"), given("Ja", f"Yes {text}")
    joined = given("%s löschen? Ja", f"Delete? Yes {text}")._replace(pieces=pieces)
    assert ("placeholders" in joined.flags) == (text.count("%s") != 1 or "%d" in text)


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
        "6 lines, 2 empty, 1 cut at the maximum length, 1 repetitive, 1 far longer or shorter than the source,"
        " 1 without a required phrase, 1 too long and cut"
    )
    assert str(count_conditions(translations[:1])) == "1 line, 0 empty, 0 cut at the maximum length"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"alignment": "0-1 1-0"}, ["Hund a 1.00", "Der <dog> 0.14"]),  # e^0, and e^((-3 - 1) / 2)
        ({"alignment": "1-0"}, ["Hund a 1.00", "<dog> 0.14"]),
        ({}, ["a 1.00", "<dog> 0.14"]),
        ({"token_log_probs": ()}, []),
        # The alignment of a line that was split counts the words of the whole line; these are the words of its pieces.
        ({"alignment": "0-0 3-3", "pieces": (PLAIN, PLAIN)}, ["a 1.00", "<dog> 0.14"] * 2),
        ({"tokens": ["\x01犬", "▁b"], "token_log_probs": [0.0, 0.0]}, ["\N{REPLACEMENT CHARACTER}犬 1.00", "b 1.00"]),
    ],
)
def test_a_notebook_shows_words_with_their_probabilities_and_source_words(
    fields: dict[str, Any], words: list[str]
) -> None:
    """As an XML reader finds them, which does not read what is not escaped."""
    translation = PLAIN._replace(alternatives=(PLAIN._replace(text="A&B", score=-2.5),), **fields)
    html = ElementTree.fromstring(translation._repr_html_())
    assert "".join(html.itertext()).startswith("Der Hund → a <dog>score -1.250, log-probability -1.500 nats")
    assert (FLAGS["split"].phrase in "".join(html.itertext())) is ("pieces" in fields)
    columns = zip(*([cell.text or "" for cell in row] for row in html.iter("tr")), strict=True)
    assert [" ".join(filter(None, column)) for column in columns] == words
    assert [other.text for other in html.iter("li")] == ["A&B (-2.500)"]
