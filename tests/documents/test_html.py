"""What of HTML is a segment, with its markup."""

import time
from html.parser import HTMLParser

import pytest

from translate.documents.html import _MARKUP, read_html, read_tag
from translate.documents.segments import lay_out


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


def test_line_ends_of_all_kinds() -> None:
    text = "<p>Ü\r\n<b>a\rb</b>\u2028c</p>\n\n<p>d</p>"
    assert texts(text) == ["Ü a b c", "d"]


def test_tokens_are_those_of_pythons_parser() -> None:
    """An independent program finds the same tags, comments and text in a page that is well formed."""
    page = (
        "<!DOCTYPE html><html><head><title>a &amp; b</title><style>b > i { }</style><!-- <p> --></head><?pi x?>"
        "<body class='a>b' id=\"c>d'\" data-x=e'f>Ein <B\n>Hund</b > < 5 &lt; 6 <img src=x/><br/>da<!----> </body>"
        "<script>if (a <b && '<!--' + \"</p>\") x</script ></html>"
    )
    found: list[tuple[str, str]] = []
    parser = HTMLParser(convert_charrefs=False)
    parser.handle_starttag = lambda tag, attributes: found.append(("tag", tag))  # type: ignore[method-assign]
    parser.handle_startendtag = parser.handle_starttag  # type: ignore[method-assign]
    parser.handle_endtag = lambda tag: found.append(("tag", f"/{tag}"))  # type: ignore[method-assign]
    parser.handle_comment = lambda data: found.append(("comment", data))  # type: ignore[method-assign]
    parser.feed(page)
    parser.close()
    read = [read_tag(match[0]) for match in _MARKUP.finditer(page)]
    tags = [("/" if item.kind == "close" else "") + item.tag for item in read if item.tag]
    assert tags == [name for kind, name in found if kind == "tag"]
    assert [item.raw for item in read if item.raw.startswith("<!--")] == [
        f"<!--{data}-->" for kind, data in found if kind == "comment"
    ]
    assert texts(page) == ["a & b", "Ein Hund < 5 < 6", "da"]


@pytest.mark.parametrize("text", ["<a ", "<a href='", "<!--", "</", "<?", "<script>", "<!a"])
def test_what_has_no_end_takes_no_longer_for_it(text: str) -> None:
    started = time.process_time()
    assert texts("Hund<p>" + 30_000 * text) == ["Hund"]
    assert time.process_time() - started < 2, "each token is read once"


@pytest.mark.parametrize(
    "raw, expected",
    [
        ("<B>", ("open", "b")),
        ("</b >", ("close", "b")),
        ('<a\nhref="x/">', ("open", "a")),
        ("<br>", ("mark", "br")),
        ("<x-y/>", ("mark", "x-y")),
        ("<!-- b -->", ("mark", "")),
    ],
)
def test_tags(raw: str, expected: tuple[str, str]) -> None:
    item = read_tag(raw)
    assert (item.kind, item.tag) == expected and item.raw == raw


@pytest.mark.parametrize(
    "text, expected",
    [
        ("5 km<sup>2</sup> groß", [("name", "km<sup>2</sup>")]),
        ("H<sub>2</sub>SO<sub>4</sub>-Säure", [("name", "H<sub>2</sub>"), ("name", "SO<sub>4</sub>")]),
        ("CO<sub>2</sub>", [("name", "CO<sub>2</sub>")]),
        ("Der Hund<sup>1</sup> ist<sup>2</sup> da", [("mark", "<sup>1</sup>"), ("mark", "<sup>2</sup>")]),
        ("Rufe <kbd>a <b>b</b></kbd>", [("name", "<kbd>a <b>b</b></kbd>")]),
    ],
)
def test_elements_that_are_not_translated(text: str, expected: list[tuple[str, str]]) -> None:
    (segment,) = read_html(text)
    assert segment.raw == text
    assert [(item.kind, item.raw) for item in segment.items if item.kind != "text"] == expected
    assert "".join(raw for raw, _ in lay_out(segment).written) == "".join(raw for _, raw in expected)
