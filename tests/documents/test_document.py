"""Whole documents: the identity gives them byte for byte, and other translations leave the markup as it is."""

import itertools
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from translate.decoding import Translation
from translate.documents.document import (
    FORMATS,
    DocumentFormat,
    DocumentTranslation,
    format_of_file,
    translate_documents,
)
from translate.documents.segments import markup_of
from translate.errors import InputError

# Words, and what has a meaning in one of the formats.
PARTS = st.sampled_from(
    ["Ein Hund", "läuft", "Straße. ", "Haus! Und", "x", "12", " ", "  ", "\t", "\n", "\n\n", "\r\n", "\x0b", "\x85",
     "\u2028", "\u00ad", "\ufeff", "\x00", "*", "**", "_", "~~", "`", "```", "[", "]", "](x)", "[a](b)", "![b](c)",
     "\\", "<http://a.b>", "\\*", "|", "| a | b |\n|---|---|\n", "# ", "- ", "1. ", "> ", "    ", "---\n", "=", "[^1]",
     "[^1]: ", "[a]: b\n", "<b>", "</b>", "<i>", "</i>", "<br>", "<p>", "</p>", "<a href='x'>", "</a>", "<!-- c -->",
     "<![", "<code>", "</code>", "<sub>", "</sub>", "<script>", "</script>", "<span translate=no>", "</span>", "&amp;",
     "&nbsp;", "&lt;", "<", "&", "{name}", "%s", "https://a.b/c?d=1&amp;e", "a@b.de", "{\\an8}", "- a\n- b\n",
     "1\n00:00:01,000 --> 00:00:02,000\n", "WEBVTT\n\n", "00:01.000 --> 00:02.000\n", "<v Anna>", "H<sub>2", "m<sup>",
     "A\n<sub", "</sup>", "{x}:", "%s,", "{n, plural, one {", "} other {# ", "}}", "<message>",
     "<![CDATA[ > ", "]]>", "&amp;lt;", "<ruby>", "<rt>"]
)  # fmt: skip
DOCUMENTS = st.text(st.characters(codec="utf-8"), max_size=60) | st.lists(PARTS, max_size=25).map("".join)
CUES = DOCUMENTS.map(lambda text: f"00:00:01.000 --> 00:00:02.000\n{text}")
TITLED = st.lists(PARTS | st.sampled_from(["<img alt='a b'", '<p title="c">', '[a](b "c d")'])).map("".join)
MONOLINGUAL = [name for name, known in FORMATS.items() if not known.is_bilingual]
few = settings(
    max_examples=300, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


def translate_document(text: str, document_format: DocumentFormat, *how: Any) -> DocumentTranslation:
    return translate_documents([text], document_format, *how)[0]


def by(function: Callable[[str], str]) -> Callable[[Sequence[str]], list[Translation]]:
    """The argument `translate` of `translate_documents` from a function of one sentence."""
    return lambda texts: [Translation(text, function(text), [], 0.0, 0.0, False, False) for text in texts]


@few
@given(DOCUMENTS | CUES | TITLED, st.sampled_from(MONOLINGUAL))
def test_the_identity_gives_the_document_byte_for_byte(text: str, document_format: DocumentFormat) -> None:
    translation = translate_document(text, document_format, by(str))
    assert translation.text == text and not translation.problems


@few
@given(
    DOCUMENTS | CUES,
    st.sampled_from(MONOLINGUAL),
    st.sampled_from(
        [
            str.upper,
            lambda text: " ".join(reversed(text.split())),
            lambda text: "",
            lambda text: "* _#<&|>` - 1.",
            lambda text: re.sub(r"\d", "", text),  # without the placeholders
        ]
    ),
)
def test_all_markup_is_in_any_translation(
    text: str, document_format: DocumentFormat, function: Callable[[str], str]
) -> None:
    translated = translate_document(text, document_format, by(function)).text
    for segment in FORMATS[document_format].open(text).segments:
        assert segment.raw in translated or all(raw in translated for raw, _ in markup_of(segment))


DOCUMENT = {
    "markdown": (
        "\ufeff---\ntitle: T\n---\n# Ein **Hund** da\n\n> Siehe [den\n> Hund](u \"t\") &amp; `code`. {0}\n> ist da.\n\n"
        "| a | b c |\n|---|---|\n| x \\| y | *z* |\n\n```\ncode\n```\n\n<p>Ein <b>Hund</b></p>\n",
        "\ufeff---\ntitle: T\n---\n# EIN **HUND** DA\n\n> SIEHE [DEN\n> HUND](u \"t\") & `code`. {0}\n> IST DA.\n\n"
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
def test_only_words_are_translated(document_format: DocumentFormat) -> None:
    text, expected = DOCUMENT[document_format]
    translation = translate_document(text, document_format, by(str.upper))
    assert translation.text == expected and not translation.problems


def test_the_report() -> None:
    text = "<h1>Eins</h1> <p>Ein <b>Hund</b> {x}. Zwei<!--1-->.</p><p>5 {x}</p>"
    translation = translate_document(text, "html", by(str.upper))
    assert translation.counts == {"segments": 2, "sentences": 3, "tags": 3, "placeholders": 2}
    assert str(translation) == ("2 segments, 3 sentences, 3 tags, 2 placeholders; 0 empty, 0 cut at the maximum length")
    empty = translate_document("Eins zwei.", "text", by(lambda text: ""))
    assert empty.conditions["empty"] == 1 and empty.text == ""


def test_lost_and_doubled_markup_is_reported() -> None:
    text = "Eins.\n\nEin {x} Hund.\n"
    translation = translate_document(text, "text", by(lambda text: f"{text} %s" if "Ein " in text else text))
    assert translation.text == "Eins.\n\nEin {x} Hund. %s\n"
    assert translation.problems == ["line 3: '%s' is doubled"]
    assert "1 placeholder (1 lost or doubled)" in str(translation)
    moved = translate_document("Hund</b> da", "html", by(lambda text: "da Hund"), lambda _: [[{1: 1.0}, {0: 1.0}]])
    assert moved.text == "da Hund</b>" and moved.problems == []
    gone = translate_document("<p>Ein {x}</p><p>b</p>", "html", by(lambda text: "" if text == "b" else "da {y} da"))
    assert gone.problems == ["the document: '{y}' is doubled"]


@pytest.mark.parametrize(
    "made, expected",
    [
        ("Now I call {}.", "Now I call {}."),
        ("Now I call.", "I go {} now."),
        ("Now I call {} {}.", "I go {} now."),
    ],
)
def test_a_placeholder_that_is_copied_once_stays(made: str, expected: str) -> None:
    """What loses it is translated again without it. For the model, markup for a word is a number."""
    for written, read, document_format in (("{x}", "{x}", "text"), ("<code>x</code>", "11", "html")):
        answers = {f"Ich rufe {read} jetzt.": made.replace("{}", read), "Ich rufe jetzt.": "I go now."}
        found = translate_document(f"Ich rufe {written} jetzt.", document_format, by(answers.__getitem__))  # type: ignore[arg-type]
        assert found.text == expected.replace("{}", written) and not found.problems


@pytest.mark.parametrize(
    ("text", "answers", "expected", "num_calls"),
    [
        ("<b>%s</b> löschen?", {"<b>%s</b> löschen?": "Delete <b>%s</b>?"}, "Delete <b>%s</b>?", 1),
        ("%s und %s. Hund.", {"%s und %s.": "%s, %s.", "Hund.": "Dog."}, "%s, %s. Dog.", 1),
        ("%s: %d Tage", {"11 Tage": "11 days"}, "%s: %d days", 1),  # one number
        ("Bei %s elf", {"Bei %s elf": "11 at %s", "Bei elf": "At 11"}, "At %s 11", 2),
        ("%s in %d", {"%s in %d": "%d in %s", "in": "in"}, "%s in %d", 2),
        ("%s. Hund %d.", {"Hund %d.": "", "Hund.": "Dog."}, "%s. Dog %d.", 2),
    ],
)
def test_the_text_as_it_is_comes_first(text: str, answers: dict[str, str], expected: str, num_calls: int) -> None:
    """Only sentences that lose their placeholders are translated again, without them."""
    asked: list[list[str]] = []

    def translate(lines: Sequence[str]) -> list[Translation]:
        asked.append([*lines])
        return list(by(answers.__getitem__)(lines))

    found = translate_document(text, "text", translate)
    assert found.text == expected and not found.problems
    assert len(asked) == num_calls and {*itertools.chain(*asked)} == answers.keys()


def test_other_numbers_stay() -> None:
    """A spelled-out number may be written with the digits of a placeholder's."""
    answers = {
        "Es ist elf Uhr.": "It is 11 o'clock.", "Hallo {x}.": "Hello 11.", "Hallo.": "Hello.",
        "Um elf kommt {x}.": "At 11 comes.", "Um elf kommt.": "At 11 comes.",
    }  # fmt: skip
    for text, expected in (
        ("Es ist elf Uhr. Hallo {x}.", "It is 11 o'clock. Hello {x}."),
        ("Hallo {x}. Es ist elf Uhr.", "Hello {x}. It is 11 o'clock."),
        ("Um elf kommt {x}.", "At 11 comes {x}."),
    ):
        assert translate_document(text, "text", by(answers.__getitem__)).text == expected


@pytest.mark.parametrize(
    "document_format, text",
    [
        ("html", "<b>a</b> " * 2000),
        ("text", "%s " * 100_000),
    ],
)
def test_the_time_is_linear(document_format: DocumentFormat, text: str) -> None:
    started = time.process_time()
    translate_document(text, document_format, by(str.upper))
    assert time.process_time() - started < 4


def test_the_alignment_is_asked_for_sentences_with_markup() -> None:
    asked: list[str] = []

    def align(translations: Sequence[Translation]) -> list[list[dict[int, float]]]:
        asked.extend(each.source for each in translations)
        return [[{1: 1.0}, {0: 1.0}] for _ in translations]

    text = "<p>Eins zwei</p><p>Ein <b>Hund</b></p>"
    assert translate_document(text, "html", by(str.upper), align).text == "<p>EINS ZWEI</p><p><b>EIN</b> HUND</p>"
    assert asked == ["Ein Hund"]


@pytest.mark.parametrize(
    ("text", "expected", "sentences"),
    [
        ("{n, plural, one {# Datei} other {# Dateien}}", "{n, plural, one {# DATEI} other {# DATEIEN}}", 2),
        (
            "Du hast {n, plural, =0 {keine} other {<b>{n}</b> da}}.",
            "DU HAST {n, plural, =0 {KEINE} other {<b>{n}</b> DA}}.",
            3,
        ),
        ("{a, select, m {Er {b, plural, other {x}}} other {Sie}}", None, 3),
        ("{n, plural, one {# Datei} other {", "{n, plural, one {# DATEI} other {", 1),
    ],
)
def test_each_branch_of_a_message_is_translated_by_itself(text: str, expected: str | None, sentences: int) -> None:
    translation = translate_document(text, "html", by(str.upper))
    assert translation.text == (expected or "{a, select, m {ER {b, plural, other {X}}} other {SIE}}")
    assert translation.counts["sentences"] == sentences and not translation.problems


def test_a_title_gets_no_full_stop() -> None:
    text = "Ein Titel\nEin Satz.\nWas?\nयह एक कुत्ता है।\n"
    assert translate_document(text, "text", by(lambda text: "Dog.")).text == "Dog\nDog.\nDog.\nDog.\n"


@pytest.mark.parametrize(
    "name, expected", [("a.MD", "markdown"), ("a.PO.gz", "po"), ("a.b.htm", "html"), ("a.vtt", "vtt")]
)
def test_a_file_extension_gives_the_format(name: str, expected: str) -> None:
    assert format_of_file(Path(name)) == expected
    with pytest.raises(InputError, match="a.docy: .*choose a document format: "):
        format_of_file(Path("a.docy"))
    with pytest.raises(InputError, match="standard input: "):
        format_of_file(None)
