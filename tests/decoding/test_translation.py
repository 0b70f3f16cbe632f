"""Translations in a notebook, as an XML reader finds them, and their conditions, counted as they pass: by hand."""

import math
from collections import Counter
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
        "6 lines, 2 empty, 1 cut at the maximum length, 1 repetitive, 1 far longer or shorter than the source,"
        " 1 without a required phrase, 1 too long and cut"
    )
    assert str(count_conditions(translations[:1])) == "1 line, 0 empty, 0 cut at the maximum length"


def made(**fields: object) -> Translation:
    translation = Translation(
        source="Der Hund",
        text="a <dog>",
        ids=[7, 8, 9],
        log_prob=-1.5,
        score=-1.25,
        truncated=False,
        source_truncated=False,
        token_log_probs=[0.0, -3.0, -1.0, -0.1],
        source_ids=[5, 6],
        tokens=["▁a", "▁<do", "g>"],
        source_tokens=["▁Der", "▁Hund"],
    )
    return translation._replace(**fields)


def read(translation: Translation) -> ElementTree.Element:
    """What is not escaped is an error, since the HTML is XML too."""
    return ElementTree.fromstring(translation._repr_html_().replace("&nbsp;", ""))


def words_of(html: ElementTree.Element) -> list[str]:
    """The texts of each word: the source word that it aligns to, itself, its probability."""
    return [" ".join(span.itertext()) for span in html.iter("span")]


def test_words_with_their_probabilities_and_source_words() -> None:
    html = read(made(alignment="0-1 1-0", alternatives=(made(text="A&B", score=-2.5),)))
    assert "".join(html.itertext()).startswith("Der Hund → a <dog>score -1.250, log-probability -1.500 nats")
    # e^0, and e^((-3 - 1) / 2)
    assert words_of(html) == ["Hund a 1.00", "Der <dog> 0.14"]
    bars = [bar.get("style", "") for span in html.iter("span") for bar in span.iter("div")]
    assert ["width:100%" in bars[0], "currentColor" in bars[0]] == [True, True]
    assert ["width:14%" in bars[1], "currentColor" in bars[1]] == [True, False]
    assert [each.text for each in html.iter("li")] == ["A&B (-2.500)"]


def test_without_alignment_or_probabilities() -> None:
    assert words_of(read(made())) == ["a 1.00", "<dog> 0.14"]
    assert words_of(read(made(alignment="1-0"))) == ["Hund a 1.00", "<dog> 0.14"]
    assert words_of(read(made(token_log_probs=()))) == []
    empty = read(made(text="", ids=[], tokens=[], token_log_probs=[], source_truncated=True))
    assert FLAGS["source_truncated"].phrase in "".join(empty.itertext()) and words_of(empty) == []


def test_the_pieces_of_a_line_that_was_split() -> None:
    """The alignment counts the words of the whole line, and here are those of its pieces."""
    html = read(made(alignment="0-0 3-3", pieces=(made(), made())))
    assert words_of(html) == ["a 1.00", "<dog> 0.14"] * 2 and FLAGS["split"].phrase in "".join(html.itertext())


def test_characters_that_html_forbids() -> None:
    html = read(made(text="\x01", tokens=["▁\x01犬", "▁b"], token_log_probs=[0.0, 0.0]))
    assert words_of(html) == ["\N{REPLACEMENT CHARACTER}犬 1.00", "b 1.00"]
