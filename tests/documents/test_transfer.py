"""Where markup comes to in a translation: hand-written alignments, and the places that a reader would choose."""

import re
from collections.abc import Sequence

import pytest

from translate.documents.html import read_html
from translate.documents.segments import Layout, lay_out
from translate.documents.transfer import Sentence, SourceWord, Weights, diagonal, without_names, write_translation


def sentence_of(layout: Layout, start: int, end: int, target: str, weights: Weights) -> Sentence:
    words = [
        SourceWord(match[0], start + match.start(), start + match.end())
        for match in re.finditer(r"\S+", layout.text[start:end])
    ]
    return Sentence(layout, words, [name for name in layout.names if start <= name.start < end], end, target, weights)


def carry(source: str, target: str, links: Sequence[int]) -> str:
    """The translation of one sentence of HTML; `links` has the source word of each word of the translation."""
    (segment,) = read_html(source)
    layout = lay_out(segment)
    weights = [{link: 1.0} for link in links]
    sentence = sentence_of(layout, 0, len(layout.text), target, weights)
    return write_translation(segment, layout, [sentence])


@pytest.mark.parametrize(
    "source, target, links, expected",
    [
        ("Ein <b>Hund</b> bellt.", "A dog barks.", [0, 1, 2], "A <b>dog</b> barks."),
        ("Gestern <b>lief</b> er.", "He ran yesterday.", [2, 1, 0], "He <b>ran</b> yesterday."),
        ("Er <b>rief</b> sie an.", "He called her up.", [0, 1, 2, 1], "He <b>called</b> her up."),
        ("Der <b>rote Hut</b>, ja.", "The hat red, yes.", [0, 2, 1, 3], "The <b>hat red</b>, yes."),
        ("<b>Halt!</b> Nein.", "Stop! No.", [0, 1], "<b>Stop!</b> No."),
        ("(<b>Hund</b>)", "(dog)", [0], "(<b>dog</b>)"),
        ("Ein Hund (<b>groß</b>).", "A big dog.", [0, 2, 1], "A <b>big</b> dog."),
        ("<a>Ein <b>Hund</b> da</a> ist", "there a dog is", [2, 0, 1, 3], "<a>there a <b>dog</b></a> is"),
        ("<b>Haus</b> <i>Tür</i>", "door", [0], "<b><i>door</i></b>"),  # no word is left for the second
        ("<b>eins</b> <i>zwei</i>", "two one", [1, 0], "<i>two</i> <b>one</b>"),
        ("Ein Hund<!--1--> bellt.", "A dog barks.", [0, 1, 2], "A dog<!--1--> barks."),
        ("Ein Hund<!--1-->.", "A dog.", [0, 1], "A dog<!--1-->."),
        ("Ein <!--1-->Hund da", "there a dog", [2, 0, 1], "there a <!--1-->dog"),
        ("Ein Hund.<!--1--> da", "A dog there", [0, 1, 2], "A dog <!--1--> there"),
        ("a <b>Hund<!--1--></b> da", "there a dog", [2, 0, 1], "there a <b>dog<!--1--></b>"),
        ("Ein Wort<b>teil</b>", "A part", [0, 1], "A <b>part</b>"),
        ("Eins zwei<br/>", "One two", [0, 1], "One two"),
    ],
)
def test_markup_comes_to_the_aligned_words(source: str, target: str, links: list[int], expected: str) -> None:
    assert carry(source, target, links) == expected


def test_characters_of_the_translation_are_encoded() -> None:
    assert carry("Ein <b>Hund</b>", "<A> & dog", [0, 0, 1]) == "&lt;A&gt; &amp; <b>dog</b>"


def test_a_name_is_written_where_its_number_stands() -> None:
    assert carry("Rufe <code>f()</code> laut!", "Loudly call 11!", [2, 0, 1]) == "Loudly call <code>f()</code>!"


def test_lines_are_divided_as_in_the_source() -> None:
    source = "Ein Mann geht mit\n  einem Hund spazieren"
    assert carry(source, "A man walks his very own dog", [0] * 7) == "A man walks\n  his very own dog"
    assert carry(source, "Walk", [0]) == "Walk", "no empty line"


def test_a_line_break_between_sentences_stays_there() -> None:
    (segment,) = read_html("Ja.\nEr geht <b>heute</b> nicht.")
    layout = lay_out(segment)
    sentences = [
        sentence_of(layout, 0, 3, "Oh yes indeed.", [{0: 1.0}] * 3),
        sentence_of(layout, 3, len(layout.text), "No.", [{2: 1.0}]),
    ]
    assert write_translation(segment, layout, sentences) == "Oh yes indeed.\n<b>No</b>."


def test_an_empty_translation_keeps_the_markup() -> None:
    assert carry(" Ein <b>Hund</b> {x} ", "", []) == " <b></b>{x} "


def test_an_empty_sentence_beside_another() -> None:
    (segment,) = read_html("Eins. Zwei<!--1--> drei.")
    layout = lay_out(segment)
    sentences = [
        sentence_of(layout, 0, 5, "One.", [{0: 1.0}]),
        sentence_of(layout, 5, len(layout.text), "", []),
    ]
    assert write_translation(segment, layout, sentences) == "One<!--1-->."


@pytest.mark.parametrize(
    "source, expected",
    [
        ("Der Hund heißt {x}.", "Der Hund heißt."),
        ("Hallo {x}, hier", "Hallo, hier"),
        ("{x} geht mit {y} weg", "geht mit weg"),
        ("Siehe ({x})", "Siehe ()"),
        ("Auf {x}", "Auf"),
    ],
)
def test_a_sentence_without_its_names(source: str, expected: str) -> None:
    (segment,) = read_html(source)
    layout = lay_out(segment)
    words = without_names(sentence_of(layout, 0, len(layout.text), "", []))
    assert " ".join(word.text for word in words) == expected
    assert [word.start for word in words] == sorted(word.start for word in words)


@pytest.mark.parametrize(
    "source, target, links, expected",
    [
        ("Der Hund heißt {x}.", "The dog is.", [0, 1, 2], "The dog is {x}."),
        ("Er gibt {x} einen Hund", "He gives a dog", [0, 1, 2, 3], "He gives {x} a dog"),
        ("{x} geht weg", "Goes away", [0, 1], "{x} Goes away"),
        ("Hallo {x}, hier.", "Here, hello.", [1, 0], "Here, hello {x}."),
    ],
)
def test_a_name_that_was_left_out_comes_behind_the_word_before(
    source: str, target: str, links: list[int], expected: str
) -> None:
    (segment,) = read_html(source)
    layout = lay_out(segment)
    sentence = sentence_of(layout, 0, len(layout.text), target, [{link: 1.0} for link in links])
    sentence.words = without_names(sentence)
    assert write_translation(segment, layout, [sentence]) == expected


def test_the_diagonal() -> None:
    assert diagonal("a b c d", "x y") == [{0: 1.0}, {0: 1.0}, {1: 1.0}, {1: 1.0}]
    assert diagonal("a", "") == [{}]
