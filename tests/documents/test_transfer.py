"""Where markup goes in a translation: with hand-written alignments, to the places that a reader would choose."""

import re
from collections.abc import Sequence

import pytest

from translate.documents.html import read_html
from translate.documents.segments import Layout, lay_out
from translate.documents.transfer import (
    Sentence,
    SourceWord,
    Weights,
    diagonal,
    without_placeholders,
    write_translation,
)


def sentence_of(layout: Layout, start: int, end: int, target: str, weights: Weights) -> Sentence:
    found = re.finditer(r"\S+", layout.text[start:end])
    words = [SourceWord(match[0], start + match.start(), start + match.end()) for match in found]
    placeholders = [each for each in layout.markup if each.kind == "placeholder" and start <= each.start < end]
    return Sentence(layout, words, placeholders, end, target, weights)


def carry(source: str, *targets: tuple[str, Sequence[int]], ends: Sequence[int] = (), without: bool = False) -> str:
    """The translation of a segment of HTML.

    Args:
        targets: For each sentence its translation, and the source word of each of its words.
        ends: Where the sentences before the last one end.
        without: Whether the model was given the sentences without their placeholders.
    """
    (segment,) = read_html(source)
    layout = lay_out(segment)
    sentences, start = [], 0
    for (target, links), end in zip(targets, [*ends, len(layout.text)], strict=True):
        sentences.append(sentence_of(layout, start, end, target, [{link: 1.0} for link in links]))
        start = end
        if without:
            sentences[-1].words, sentences[-1].placeholders = without_placeholders(sentences[-1]), []
    return write_translation(segment, layout, sentences)


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
        ("Ein <img> Hund da", "there a dog", [2, 0, 1], "there a <img> dog"),
        ("Ein Hund.<!--1--> da", "A dog there", [0, 1, 2], "A dog <!--1--> there"),
        ("a <b>Hund<!--1--></b> da", "there a dog", [2, 0, 1], "there a <b>dog<!--1--></b>"),
        ("Ein Wort<b>teil</b>", "A part", [0, 1], "A <b>part</b>"),
        ("Eins zwei<br/>", "One two", [0, 1], "One two"),
        ("Ein <b>Hund</b>", "<A> & dog", [0, 0, 1], "&lt;A&gt; &amp; <b>dog</b>"),  # text is encoded
        ("Rufe <code>f()</code> laut!", "Loudly call 11!", [2, 0, 1], "Loudly call <code>f()</code>!"),
        # Placeholders without a word between them keep their order and spacing, and stay out of the links beside them.
        ("Hallo {name} %s.", "Hello 11.", [0, 1], "Hello {name} %s."),
        ("Hallo <code>a</code>, %s da", "There 11 hello", [2, 1, 0], "There <code>a</code>, %s hello"),
        ("<a>rote Tür</a> http://a.b", "red 11 door", [0, 2, 1], "<a>red</a> http://a.b door"),
        # Lines are divided as in the source, and none is empty.
        ("Ein Mann geht mit\n  einem Hund", "A man walks his own dog", [0] * 6, "A man walks his\n  own dog"),
        ("Ein Mann geht mit\n  einem Hund", "Walk", [0], "Walk"),
        (" Ein <b>Hund</b> {x} ", "", [], " <b></b>{x} "),
    ],
)
def test_markup_goes_to_the_aligned_words(source: str, target: str, links: list[int], expected: str) -> None:
    assert carry(source, (target, links)) == expected


def test_several_sentences() -> None:
    sentences = ("Oh yes indeed.", [0] * 3), ("No.", [2])  # the line break stays between them
    assert carry("Ja.\nEr geht <b>heute</b> nicht.", *sentences, ends=[3]) == "Oh yes indeed.\n<b>No</b>."
    assert carry("Eins. Zwei<!--1--> drei.", ("One.", [0]), ("", []), ends=[5]) == "One<!--1-->."


@pytest.mark.parametrize(
    "source, expected",
    [
        ("Der Hund heißt {x}.", "Der Hund heißt."),
        ("Hallo {x}, hier", "Hallo, hier"),
        ("{x} geht mit {y} weg", "geht mit weg"),
        ("Siehe ({x})", "Siehe ()"),
        ("Auf {x}", "Auf"),
        ("Hund {x}:<b>Haus</b>", "Hund: Haus"),
        ("Hund {x}...?!", "Hund...?!"),
    ],
)
def test_a_sentence_without_its_placeholders(source: str, expected: str) -> None:
    (segment,) = read_html(source)
    layout = lay_out(segment)
    words = without_placeholders(sentence_of(layout, 0, len(layout.text), "", []))
    assert " ".join(word.text for word in words) == expected
    assert [word.start for word in words] == sorted(word.start for word in words)


@pytest.mark.parametrize(
    "source, target, links, expected",
    [
        ("Der Hund heißt {x}.", "The dog is.", [0, 1, 2], "The dog is {x}."),
        ("Er gibt {x} einen Hund", "He gives a dog", [0, 1, 2, 3], "He gives {x} a dog"),
        ("Hallo {name} %s.", "Hello.", [0], "Hello {name} %s."),
        ("<a>rote Tür</a> {x}", "red old door", [0, 1, 1], "<a>red old door</a> {x}"),
        ("{x} geht weg", "Goes away", [0, 1], "{x} Goes away"),
        ("Hallo {x}, hier.", "Here, hello.", [1, 0], "Here, hello {x}."),
        ("Hund {x}:<b>Haus</b> da", "Dog: house there", [0, 1, 2], "Dog {x}: <b>house</b> there"),
    ],
)
def test_a_placeholder_that_was_left_out_follows_the_word_before(
    source: str, target: str, links: list[int], expected: str
) -> None:
    assert carry(source, (target, links), without=True) == expected


def test_the_diagonal() -> None:
    assert diagonal("a b c d", "x y") == [{0: 1.0}, {0: 1.0}, {1: 1.0}, {1: 1.0}]
    assert diagonal("a", "") == [{}]
