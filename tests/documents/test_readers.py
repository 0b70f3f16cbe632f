"""The readers of all formats: which text is a segment, its markup, and how a translation is written."""

import sys
from typing import Any

import html5lib
import pytest

from translate.decoding import Translation
from translate.documents.document import FORMATS, DocumentFormat, translate_documents
from translate.documents.html import read_attributes
from translate.documents.segments import Segment, lay_out, markup_of
from translate.errors import InputError

CUE = "1\n00:00:01,000 --> 00:00:02,000"


def read(document_format: DocumentFormat, text: str) -> list[Segment]:
    segments = list(FORMATS[document_format].open(text).segments)
    assert all(text.startswith(segment.raw, segment.start) for segment in segments)
    return segments


def written(document_format: DocumentFormat, text: str) -> list[str]:
    return [raw for segment in read(document_format, text) for raw, _ in markup_of(segment)]


@pytest.mark.parametrize(
    "document_format, text, expected",
    [
        ("html", "<!DOCTYPE html><?pi?><title>Eins</title><p>Zwei<p>Drei", ["Eins", "Zwei", "Drei"]),
        ("html", "<p>a <b>b</b>\n <i>c</i><br>d</p>", ["a b c", "d"]),
        ("html", "<p>Ü\r\n<b>a\rb</b>\u2028c</p>\n\n<p>d</p>", ["Ü a b c", "d"]),
        ("html", "<script>nein</script>ja<style>nein</style><pre>nein <b>x</b></pre>", ["ja"]),
        ("html", "<div translate=no>nein <div>nein</div> nein</div>ja", ["ja"]),
        ("html", "<ul><li translate=no>nein<ul><li>nein</ul>nein<li>ja<li translate=no>nein</ul>ja", ["ja", "ja"]),
        ("html", "<table><tr><td translate=no>nein<table><tr><td>nein</table><td>ja<tr><td>ja</table>", ["ja", "ja"]),
        ("html", "<p><span translate=no>nein</p><p>ja<div translate=no>nein</p>nein</div>", ["11", "ja"]),
        ("html", "<p translate=no>nein<p>ja<div>ja</div>", ["ja", "ja"]),
        ("html", "ja <b class='x notranslate'>nein</b> ja <code>x <b>y</b></code>", ["ja 11 ja 12"]),
        ("html", "<p data-translate='no'>a<p title=\"class='notranslate'\">b<p class=notranslate>c", ["a", "b"]),
        ("html", "Gr&ouml;&szlig;e&nbsp;&#38; &lt;b&gt;", ["Größe & <b>"]),
        ("html", "a<!-- nein -->b <img alt='nein'>c <![CDATA[nein]]>d <![ nein>e", ["ab c d e"]),
        ("html", "<a title='nein'>a</a><input value=nein>b<li>c", ["a", "b", "c"]),
        ("html", "a <![CDATA[nein > nein]]>b <![CDATA[nein > <b>nein", ["a b"]),
        ("html", "a <b c='>d", ["a"]),
        ("html", "Rot<x id='1'/> und <my-card>blau</my-card><g>grün</g>", ["Rot und", "blau", "grün"]),
        ("html", "<button><svg><text>nein</text></svg> Los</button> <sub>", ["Los"]),
        ("html", "nur &amp", ["nur &"]),
        ("markdown", "# Über *uns*\n\nAbsatz\nzwei\n", ["Über uns", "Absatz zwei"]),
        ("markdown", "- a\n  - b\n    c\n- [x] d\n", ["a", "b c", "d"]),
        ("markdown", "> Ein **Satz\n> mit** Zeilen\n", ["Ein Satz mit Zeilen"]),
        ("markdown", "| a | b |\n|---|:-:|\n| x \\| y | `c` |\n", ["a", "b", "x | y", "11"]),
        ("markdown", "Eins  \nzwei\\\ndrei<br>vier\n", ["Eins", "zwei", "drei", "vier"]),
        ("markdown", "---\ntitle: Nein\n---\nJa\n\n```\nnein\n```\n\n    nein\n", ["Ja"]),
        ("markdown", "Eins[^1].\n\n[^1]: Zwei\n", ["Eins.", "Zwei"]),
        ("markdown", "> a\n> \\*b\\* &amp; c\n", ["a *b* & c"]),
        ("markdown", "<div>Eins <b>zwei</b></div>\n\nDrei <b>vier</b>\n", ["Eins zwei", "Drei vier"]),
        ("markdown", "> <div>nein</div>\n", []),
        ("markdown", "Siehe <https://a.b> und <kbd>Strg</kbd>.\n", ["Siehe 11 und 12."]),
        ("markdown", "~~a~~ ~b~ Ü ![Bild *da*](x.png) ß\n", ["a b Ü Bild da ß"]),
        ("text", "  - Eins\n\n\t1. a) Zwei\n> Drei\nVier", ["Eins", "Zwei", "Drei", "Vier"]),
        ("paragraphs", "Eins\n  zwei\n \n- drei\nvier\n- fünf\n\n", ["Eins zwei", "drei vier", "fünf"]),
        ("srt", f"{CUE} X1:0\nEins\nzwei\n\nkein Text", ["Eins zwei"]),
        ("srt", f"{CUE}\r\nEins\r\nzwei\r\n\r\nnein", ["Eins zwei"]),
        ("srt", "00:00:03.000 --> 00:00:04.000\n<i>Drei</i> &amp;", ["Drei &amp;"]),
        ("srt", f"{CUE}\n- Eins\nzwei\n- <i>Drei</i>\n", ["Eins zwei", "Drei"]),  # a dialogue
        ("srt", f"{CUE}\n{{\\an8}}- Wo ist er?\n<i>– Hier.</i>\n", ["Wo ist er?", "Hier."]),
        ("srt", f"{CUE}\n<i>— Eins\n{{\\an8}}- Zwei</i>\n", ["Eins", "Zwei"]),
        # No blank line between cues.
        ("srt", f"{CUE}\n17 Hunde\n2\n00:00:03,000 --> 00:00:04,000\nzwei\n3\n", ["17 Hunde", "zwei 3"]),
        ("vtt", "WEBVTT\n\n00:01.000 --> 00:02.000\nEins\n00:02.000 --> 00:03.000\n- a\n- b", ["Eins", "a", "b"]),
        ("vtt", "00:01.000 --> 00:02.000\nDas <ruby>Wort<rt>wort</rt></ruby> da", ["Das Wort da"]),
        ("html", "Das <ruby>Wort<rp>(<rt>wort<rp>)</ruby> da", ["Das Wort da"]),
        ("vtt", "WEBVTT\n00:01.000 --> 00:02.000\n\nNOTE\n00:01.000 --> 00:02.000\nnein\n\nSTYLE\na", []),
        ("vtt", "id\n01.000 --> 00:02.000\nnein\n\n00:01.000 --> 00:02.000\n<v Anna>Er &amp; sie\n", ["Er & sie"]),
    ],
)
def test_segments(document_format: DocumentFormat, text: str, expected: list[str]) -> None:
    assert [layout.text for layout in map(lay_out, read(document_format, text)) if layout.text] == expected


@pytest.mark.parametrize(
    "document_format, text, expected",
    [
        ("vtt", "00:01.000 --> 00:02.000\nEr <00:01.500>sie {\\an8}da\n", ["<00:01.500>", "{\\an8}"]),
        ("markdown", 'Ä *b* __c__ ~~d~~ [e *f*](g "h")', ["*", "*", "__", "__", "~~", "~~", "[", "*", "*", '](g "h")']),
        ("markdown", "Ä `i` ![j](k) <u>l</u>[^1] m\n\n[^1]: n", ["`i`", "![", "](k)", "<u>", "</u>", "[^1]"]),
        # A link by its text keeps its key.
        ("markdown", "Ein [Hund] da\n\n[Hund]: u\n", ["[", "][Hund]"]),
        ("markdown", "Ein [Hund][] da\n\n[Hund]: u\n", ["[", "][Hund]"]),
        ("markdown", "Ein [Hund][x] da\n\n[x]: u\n", ["[", "][x]"]),
        # Units and formulas are not translated; a note belongs to the word before it.
        ("html", "5 km<sup>2</sup> groß", ["km<sup>2</sup>"]),
        ("html", "H<sub>2</sub>SO<sub>4</sub>-Säure", ["H<sub>2</sub>", "SO<sub>4</sub>"]),
        ("html", "Der Hund<sup>1</sup> ist<sup>2</sup> da", ["<sup>1</sup>", "<sup>2</sup>"]),
        ("html", "Rufe <kbd>a <b>b</b></kbd>", ["<kbd>a <b>b</b></kbd>"]),
    ],
)
def test_markup(document_format: DocumentFormat, text: str, expected: list[str]) -> None:
    assert written(document_format, text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('<img alt="ein Hund" ALT="zwei" class="c"><p title=\'a "b"\'>x</p>', ["ein Hund", 'a "b"']),
        ('<meta name=description content="d"><meta name=x content="e">', ["d"]),
        ('<meta property="og:title" content="t"><option label="l" value="v"><p label="n">', ["t", "l"]),
        ('<div translate="no"><img alt="a"></div><img class="notranslate" alt="b"><code title="c">', ["c"]),
        ('<textarea placeholder="p">alt="no"</textarea><svg aria-label="s"><a title="n">', ["p", "s"]),
        ('<svg><image alt="a"/></svg><script title="s"></script><link title="l"><img alt=u alt="v">', []),
        ('<meta name=x data-name="description" content="a"><meta content="name=title here" name="generator">', []),
        ('<!-- <img alt="a"> --><img alt=""><img alt="offen', []),
        ('<p class=notranslate><img alt="a"></p><img class=x alt="b">', ["b"]),
    ],
)
def test_text_within_markup(text: str, expected: list[str]) -> None:
    segments = list(read_attributes(text))
    assert [segment.raw for segment in segments] == expected
    assert all(text.startswith(segment.raw, segment.start) for segment in segments)


def test_what_would_end_an_attribute_is_escaped() -> None:
    made = "a \"b\" & 'c' <d> \\"

    def translate(texts: Any) -> list[Translation]:
        return [Translation(text, made, [], 0.0, 0.0, False, False) for text in texts]

    for text in ('<p title="t">x</p>', "<p title='t'>x</p>"):
        document = html5lib.parse(translate_documents([text], "html", translate)[0].text, namespaceHTMLElements=False)
        assert document.find(".//p").attrib == {"title": made}


def test_what_would_be_markup_is_escaped() -> None:
    (segment,) = read("markdown", "a\n")
    encode = segment.syntax.encode
    assert "".join(encode("*a_b` [c] <d> | e & &x &lt; &#9;")) == ("\\*a\\_b\\` \\[c\\] \\<d> \\| e & &x \\&lt; \\&#9;")
    words = ["-", "1.", "##", ">a", "---", "-a", "1.5"]
    assert list(filter(segment.syntax.unsafe.match, words)) == ["-", "1.", "##", ">a", "---"]
    assert [read(kind, f"{CUE}\na\n")[0].syntax.encode("<") for kind in ("srt", "vtt")] == [["<"], ["&lt;"]]


def test_markdown_without_its_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyromark", None)
    with pytest.raises(InputError, match="pyromark.*pip install"):
        read("markdown", "a")
