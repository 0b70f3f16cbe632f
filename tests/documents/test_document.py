"""Whole documents: the identity gives them byte for byte, and other translations leave the markup as it is."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from translate.decoding import Translation
from translate.documents.document import READERS, DocumentFormat, format_of_file, translate_document
from translate.documents.segments import lay_out
from translate.errors import InputError

By = Callable[[Callable[[str], str]], Callable[[Sequence[str]], list[Translation]]]

FORMATS = get_args(DocumentFormat)
# Words, and what has a meaning in one of the formats.
PARTS = st.sampled_from(
    ["Ein Hund", "läuft", "Straße. ", "Haus! Und", "x", "12", " ", "  ", "\t", "\n", "\n\n", "\r\n", "\x0b", "\x85",
     "\u2028", "\u00ad", "\ufeff", "\x00", "*", "**", "_", "~~", "`", "```", "[", "]", "](x)", "[a](b)", "![b](c)",
     "\\", "<http://a.b>", "\\*", "|", "| a | b |\n|---|---|\n", "# ", "- ", "1. ", "> ", "    ", "---\n", "=", "[^1]",
     "[^1]: ", "[a]: b\n", "<b>", "</b>", "<i>", "</i>", "<br>", "<p>", "</p>", "<a href='x'>", "</a>", "<!-- c -->",
     "<![", "<code>", "</code>", "<sub>", "</sub>", "<script>", "</script>", "<span translate=no>", "</span>", "&amp;",
     "&nbsp;", "&lt;", "<", "&", "{name}", "%s", "https://a.b/c?d=1&amp;e", "a@b.de", "{\\an8}", "- a\n- b\n",
     "1\n00:00:01,000 --> 00:00:02,000\n", "WEBVTT\n\n", "00:01.000 --> 00:02.000\n", "<v Anna>"]
)  # fmt: skip
DOCUMENTS = st.text(st.characters(codec="utf-8"), max_size=60) | st.lists(PARTS, max_size=25).map("".join)
few = settings(
    max_examples=300, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


def markup(text: str, document_format: DocumentFormat) -> Counter[str]:
    return Counter(raw for each in READERS[document_format](text) for raw, _ in lay_out(each).written)


@few
@given(DOCUMENTS, st.sampled_from(FORMATS))
def test_the_identity_gives_the_document_byte_for_byte(by: By, text: str, document_format: DocumentFormat) -> None:
    translation = translate_document(text, document_format, by(str))
    assert translation.text == text and not translation.problems


@few
@given(DOCUMENTS, st.sampled_from(FORMATS), st.booleans())
def test_all_markup_is_in_the_translation(
    by: By, text: str, document_format: DocumentFormat, is_reversed: bool
) -> None:
    def shout(sentence: str) -> str:
        words = sentence.upper().split()
        return " ".join(reversed(words) if is_reversed else words)

    translated = translate_document(text, document_format, by(shout)).text
    for raw in markup(text, document_format):
        assert raw in translated


@few
@given(DOCUMENTS, st.sampled_from(FORMATS), st.sampled_from(["", "x", "a b c d e f g", "* _#<&|>` - 1."]))
def test_any_translation_can_be_written(by: By, text: str, document_format: DocumentFormat, constant: str) -> None:
    outside = translate_document(text, document_format, by(lambda sentence: constant)).text
    assert isinstance(outside, str)


DOCUMENT = {
    "markdown": (
        "\ufeff---\ntitle: T\n---\n# Ein **Hund** da\n\n> Siehe [den\n> Hund](u \"t\") &amp; `code`. {x}\n> ist da.\n\n"
        "| a | b c |\n|---|---|\n| x \\| y | *z* |\n\n```\ncode\n```\n\n<p>Ein <b>Hund</b></p>\n",
        "\ufeff---\ntitle: T\n---\n# EIN **HUND** DA\n\n> SIEHE [DEN\n> HUND](u \"t\") & `code`. {x}\n> IST DA.\n\n"
        "| A | B C |\n|---|---|\n| X \\| Y | *Z* |\n\n```\ncode\n```\n\n<p>EIN <b>HUND</b></p>\n",
    ),
    "html": (
        '<!DOCTYPE html><title>Hund</title><p id="x">Ein <b>Hund</b> f&uuml;r\n <i>da</i><br>ja<script>a</script></p>',
        '<!DOCTYPE html><title>HUND</title><p id="x">EIN <b>HUND</b> FÜR\n <i>DA</i><br>JA<script>a</script></p>',
    ),
    "srt": (
        "1\r\n00:00:01,000 --> 00:00:02,000\r\n<i>Ein Hund\r\nist da</i>\r\n\r\n2\r\n",
        "1\r\n00:00:01,000 --> 00:00:02,000\r\n<i>EIN HUND\r\nIST DA</i>\r\n\r\n2\r\n",
    ),
    "text": ("\ufeffEins %s.\n\n  - zwei\nDrei", "\ufeffEINS %s.\n\n  - ZWEI\nDREI"),
}  # fmt: skip


@pytest.mark.parametrize("document_format", DOCUMENT)
def test_only_words_are_translated(by: By, document_format: DocumentFormat) -> None:
    text, expected = DOCUMENT[document_format]
    translation = translate_document(text, document_format, by(str.upper))
    assert translation.text == expected and not translation.problems


def test_what_passed_is_counted(by: By) -> None:
    text = "<h1>Eins</h1> <p>Ein <b>Hund</b> {x}. Zwei<!--1-->.</p><p>5 {x}</p>"
    translation = translate_document(text, "html", by(str.upper))
    assert translation[1:6] == (2, 3, 3, 2, [])
    assert str(translation) == ("2 segments, 3 sentences, 3 tags, 2 placeholders; 0 empty, 0 cut at the maximum length")
    assert str(translate_document("Eins", "text", by(str))).startswith("1 segment, 1 sentence, 0 tags, 0 placeholders;")
    empty = translate_document("Eins zwei.", "text", by(lambda text: ""))
    assert empty.conditions["empty"] == 1 and empty.text == ""


def test_markup_that_is_lost_or_doubled_is_reported(by: By) -> None:
    text = "Eins.\n\nEin {x} Hund.\n"
    translation = translate_document(text, "text", by(lambda text: f"{text} %s" if "Ein " in text else text))
    assert translation.text == "Eins.\n\nEin {x} Hund. %s\n"
    assert translation.problems == ["line 3: '%s' is there once more"]
    assert "2 placeholders" not in str(translation) and "1 placeholder (1 lost or doubled)" in str(translation)
    broken = translate_document("**Hund** da", "markdown", by(lambda text: "Hund da" if "**" in text else "1) a\n\nb"))
    assert broken.problems == []
    moved = translate_document("Hund</b> da", "html", by(lambda text: "da Hund"), lambda _: [[{1: 1.0}, {0: 1.0}]])
    assert moved.text == "da Hund</b>" and moved.problems == []
    gone = translate_document("<p>Ein {x}</p><p>b</p>", "html", by(lambda text: "" if text == "b" else "da {y} da"))
    assert gone.problems == ["the document: '{y}' is there once more"]


def test_a_number_that_is_copied_places_its_name(by: By) -> None:
    """A model that copies numbers places names by itself; for another one the sentence is translated without them."""
    seen: list[str] = []

    def copying(text: str) -> str:
        seen.append(text)
        return {"Ich rufe 11 jetzt.": "Now I call 11.", "Ich rufe jetzt.": "Now I call."}[text]

    assert translate_document("Ich rufe {x} jetzt.", "text", by(copying)).text == "Now I call {x}."
    assert seen == ["Ich rufe 11 jetzt.", "Ich rufe jetzt."]


@pytest.mark.parametrize("answer", ["Now I call.", "Now I call 11 11.", "Now I call 1 1."])
def test_a_number_that_is_not_copied_once(by: By, answer: str) -> None:
    translate = by(lambda text: answer if "1" in text else "I go now.")
    found = translate_document("Ich rufe {x} jetzt.", "text", translate)
    assert found.text == "I go {x} now." and not found.problems


def test_the_alignment_is_asked_for_sentences_with_markup(by: By) -> None:
    asked: list[str] = []

    def align(translations: Sequence[Translation]) -> list[list[dict[int, float]]]:
        asked.extend(each.source for each in translations)
        return [[{1: 1.0}, {0: 1.0}] for _ in translations]

    text = "<p>Eins zwei</p><p>Ein <b>Hund</b></p>"
    assert translate_document(text, "html", by(str.upper), align).text == "<p>EINS ZWEI</p><p><b>EIN</b> HUND</p>"
    assert asked == ["Ein Hund"]


def test_a_title_gets_no_full_stop(by: By) -> None:
    text = "Ein Titel\nEin Satz.\nWas?\n"
    assert translate_document(text, "text", by(lambda text: "Dog.")).text == "Dog\nDog.\nDog.\n"


@pytest.mark.parametrize(
    "name, expected", [("a.MD", "markdown"), ("a.b.htm", "html"), ("a.vtt", "vtt"), ("a.txt", "text")]
)
def test_the_extension_tells_the_format(name: str, expected: str) -> None:
    assert format_of_file(Path(name)) == expected


@pytest.mark.parametrize("name", [None, "-", "a.docx"])
def test_an_extension_that_tells_none(name: str | None) -> None:
    with pytest.raises(
        InputError, match=r"(standard input|a\.docx): no format .* give --document-format with one of text,"
    ):
        format_of_file(None if name is None else Path(name))
