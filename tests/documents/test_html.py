"""The tokens of HTML: those of html5lib, each read once."""

import time
from collections.abc import Iterable, Iterator
from html import unescape

import pytest
from html5lib._tokenizer import HTMLTokenizer  # type: ignore[import-untyped]
from html5lib.constants import tokenTypes  # type: ignore[import-untyped]
from hypothesis import assume, example, given
from hypothesis import strategies as st

from translate.config.data import Direction
from translate.documents.html import name_language, read_html, read_items
from translate.documents.segments import lay_out

_KINDS = {tokenTypes["Characters"]: "text", tokenTypes["SpaceCharacters"]: "text"} | {
    tokenTypes["StartTag"]: "start", tokenTypes["EmptyTag"]: "start", tokenTypes["EndTag"]: "end",
}  # fmt: skip


_PIECES = [
    "<p>", "</p>", "<b ", " ", "a", "ü", "<", ">", "&amp;", "'", '"', "=", "<a href='x>y'>", '<a title="a>b">', "<br/>",
    "<!--", "-->", "--!>", "<!", "<?", "</", "x=y", "\n", "<B\n>", "<script>", "</script>", "<style>", "</style", "/>",
    "-", "!", "5", "<textarea>", "</textarea>", '="', "= '", "<!DOCTYPE html>", "<x-y>", "]]>", "/", "a=",
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
    ours, theirs = _our_tokens(text), _join(_html5lib_tokens(text))
    assert ours in (theirs, [*theirs, *ours[-1:]])


@pytest.mark.parametrize(
    ("text", "source", "expected"),
    [
        ('<!DOCTYPE html><html lang="de"><p>x', "de", '<!DOCTYPE html><html lang="en"><p>x'),
        ("<HTML xml:lang=de-AT Lang='DE'>", "de", "<HTML xml:lang=en Lang='en'>"),
        ('<p lang="pt-BR"><p lang="pt">', "pt_BR", '<p lang="en"><p lang="en">'),
        ('<html lang="de">', "deu_Latn", '<html lang="en">'),
        ('<html lang="fr"><p lang="de">x</p>', "de", '<html lang="fr"><p lang="en">x</p>'),  # a quotation in French
        ('<html lang="de"><p lang="de">x</p>', "und", '<html lang="en"><p lang="de">x</p>'),  # the model is not told
        ('<html lang=""><a hreflang="de">&lt;b lang="de"&gt;</a><!-- <p lang="de"> -->', "de", None),
        ('<script>"<p lang=de>"</script> lang="de"', "de", None),
        ('<p lang=de translate=no><b lang=de>x</b></p><pre lang=de>x</pre><svg lang="de"></svg>', "de", None),
    ],
)
def test_the_language_of_a_translation(text: str, source: str, expected: str | None) -> None:
    assert name_language(text, Direction(source, "en")) == (expected or text)


def _join(tokens: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Tags and text; texts are one where only a comment was between them."""
    joined: list[tuple[str, str]] = []
    for kind, value in tokens:
        if kind == "text" and joined and joined[-1][0] == "text":
            value = joined.pop()[1] + value
        joined += [(kind, value)] * bool(kind)
    return [token for token in joined if token[1]]


def _our_tokens(text: str) -> list[tuple[str, str]]:
    return _join(
        ("text", unescape(item.raw)) if item.kind == "text"
        else (item.tag and ("end" if item.kind == "close" else "start"), item.tag)
        for item in read_items(text)
    )  # fmt: skip


def _html5lib_tokens(text: str) -> Iterator[tuple[str, str]]:
    """The content of a script or a text area is left out, as it is in ours."""
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


@pytest.mark.parametrize("text", ["<a ", "<a href='", "<!--", "</", "<?", "<script>", "<!a", "<![CDATA[>"])
def test_unfinished_markup_is_read_once(text: str) -> None:
    started = time.process_time()
    segments = map(lay_out, read_html("Hund<p>" + 30_000 * text))
    assert [layout.text for layout in segments if layout.text] == ["Hund"]
    assert time.process_time() - started < 2, "each token is read once"
