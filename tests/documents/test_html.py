"""What of HTML is a segment, with its markup."""

import time
from collections.abc import Iterable, Iterator
from html import unescape

import pytest
from html5lib._tokenizer import HTMLTokenizer  # type: ignore[import-untyped]
from html5lib.constants import tokenTypes  # type: ignore[import-untyped]
from hypothesis import assume, example, given
from hypothesis import strategies as st

from translate.documents.html import read_html, read_items
from translate.documents.segments import lay_out

_KINDS = {tokenTypes["Characters"]: "text", tokenTypes["SpaceCharacters"]: "text"} | {
    tokenTypes["StartTag"]: "start", tokenTypes["EmptyTag"]: "start", tokenTypes["EndTag"]: "end",
}  # fmt: skip


def texts(text: str) -> list[str]:
    segments = list(read_html(text))
    assert all(text.startswith(segment.raw, segment.start) for segment in segments)
    return [layout.text for layout in map(lay_out, segments) if layout.text]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("<!DOCTYPE html><?pi?><title>Eins</title><p>Zwei<p>Drei", ["Eins", "Zwei", "Drei"]),
        ("<p>a <b>b</b>\n <i>c</i><br>d</p>", ["a b c", "d"]),
        ("<script>nein</script>ja<style>nein</style><pre>nein <b>x</b></pre>", ["ja"]),
        ("<div translate=no>nein <div>nein</div> nein</div>ja", ["ja"]),
        ("ja <b class='x notranslate'>nein</b> ja <code>x <b>y</b></code>", ["ja 11 ja 12"]),
        ("Gr&ouml;&szlig;e&nbsp;&#38; &lt;b&gt;", ["Größe & <b>"]),
        ("a<!-- nein -->b <img alt='nein'>c <![CDATA[nein]]>d <![ nein>e", ["ab c d e"]),
        ("<a title='nein'>a</a><input value=nein>b<li>c", ["a", "b", "c"]),
        ("a < b <", ["a < b <"]),
        ("a <b c='>d", ["a"]),
        ("Rot<x id='1'/> und <my-card>blau</my-card><g>grün</g>", ["Rot und", "blau", "grün"]),
        ("<button><svg><text>nein</text></svg> Los</button> <sub>", ["Los"]),
        ("", []),
        ("nur &amp", ["nur &"]),
    ],
)
def test_segments(text: str, expected: list[str]) -> None:
    assert texts(text) == expected


_PIECES = [
    "<p>", "</p>", "<b ", " ", "a", "ü", "<", ">", "&amp;", "'", '"', "=", "<a href='x>y'>", '<a title="a>b">', "<br/>",
    "<!--", "-->", "--!>", "<!", "<?", "</", "x=y", "\n", "<B\n>", "<script>", "</script>", "<style>", "</style", "/>",
    "-", "!", "5", "<textarea>", "</textarea>", '="', "= '", "<!DOCTYPE html>", "<x-y>", "<![CDATA[", "]]>", "/", "a=",
]  # fmt: skip


@given(st.lists(st.sampled_from(_PIECES), max_size=12).map("".join))
@example('<b ="><i = \'> </i= ">')
@example(
    "<!DOCTYPE html><html><head><title>a &amp; b</title><style>b > i { }</style><!-- <p> --></head><?pi x?>"
    "<body class='a>b' id=\"c>d'\" data-x=e'f>Ein <B\n>Hund</b > < 5 &lt; 6 <img src=x/><br/>da<!----> </body>"
    "<script>if (a <b && '<!--' + \"</p>\") x</script ></html>"
)
def test_tokens_are_those_of_html5lib(text: str) -> None:
    """An independent tokenizer finds the same tags and the same text, in pages with errors too."""
    text += " end"
    assume("<!--<script" not in text)  # JavaScript of the nineties: a script in a comment in a script
    assert _our_tokens(text) in ((theirs := _html5lib_tokens(text)), [*theirs, *_our_tokens(text)[-1:]])


def _join(tokens: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Tags and text; texts are one where only a comment was between them."""
    joined: list[tuple[str, str]] = []
    for kind, value in tokens:
        if kind == "text" and joined and joined[-1][0] == "text":
            value = joined.pop()[1] + value
        joined += [(kind, value)] * bool(kind)
    return joined


def _our_tokens(text: str) -> list[tuple[str, str]]:
    found = [
        ("text", unescape(item.raw)) if item.kind == "text"
        else (item.tag and ("end" if item.kind == "close" else "start"), item.tag)
        for item in read_items(text)
    ]  # fmt: skip
    return [token for token in _join(found) if token[1]]


def _html5lib_tokens(text: str) -> list[tuple[str, str]]:
    """The content of a script or a text area is left out, as it is in ours."""

    def read() -> Iterator[tuple[str, str]]:
        tokenizer, content = HTMLTokenizer(text), False
        for token in tokenizer:
            kind = _KINDS.get(token["type"], "")
            content = content and kind == "text"
            if kind == "start":
                name = token["name"].lower()
                if content := name in ("script", "style", "textarea"):
                    tokenizer.state, tokenizer.currentToken = tokenizer.rawtextState, token
            if not content or kind == "start":
                yield kind, token["data"] if kind == "text" else token.get("name", "").lower()

    return [token for token in _join(read()) if token[1]]


@pytest.mark.parametrize("text", ["<a ", "<a href='", "<!--", "</", "<?", "<script>", "<!a"])
def test_unfinished_markup_is_read_once(text: str) -> None:
    started = time.process_time()
    assert texts("Hund<p>" + 30_000 * text) == ["Hund"]
    assert time.process_time() - started < 2, "each token is read once"


@pytest.mark.parametrize(
    "text, expected",
    [
        ("5 km<sup>2</sup> groß", [("placeholder", "km<sup>2</sup>")]),
        ("H<sub>2</sub>SO<sub>4</sub>-Säure", [("placeholder", "H<sub>2</sub>"), ("placeholder", "SO<sub>4</sub>")]),
        ("CO<sub>2</sub>", [("placeholder", "CO<sub>2</sub>")]),
        ("Der Hund<sup>1</sup> ist<sup>2</sup> da", [("point", "<sup>1</sup>"), ("point", "<sup>2</sup>")]),
        ("Rufe <kbd>a <b>b</b></kbd>", [("placeholder", "<kbd>a <b>b</b></kbd>")]),
    ],
)
def test_elements_that_are_not_translated(text: str, expected: list[tuple[str, str]]) -> None:
    (segment,) = read_html(text)
    assert segment.raw == text
    assert [(item.kind, item.raw) for item in segment.items if item.kind != "text"] == expected
    assert "".join(raw for raw, _ in lay_out(segment).written) == "".join(raw for _, raw in expected)
