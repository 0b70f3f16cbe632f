"""HTML: the text between block elements, by the parser of Python's standard library.

That parser says where each tag stands in the document, and what is not translated is copied from there, so doctype,
attributes, white space and errors stay as they are. Parsers that build a tree write another document.
"""

import html
import re
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from itertools import accumulate
from typing import Literal, NamedTuple

from translate.documents.segments import Item, Segment


def _tags(names: str) -> frozenset[str]:
    return frozenset(names.split())


_INLINE = _tags(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark nobr q rp rt ruby s samp small"
    " span strike strong sub sup time tt u var img wbr"
)
_UNTOUCHED_INLINE = _tags("code kbd samp tt var")
_UNTOUCHED = _UNTOUCHED_INLINE | _tags("script style pre textarea template svg math noscript object iframe canvas")
_SCRIPTS = _tags("sub sup")
_VOID = _tags("area base br col embed hr img input link meta source track wbr")
_TAG = re.compile(r"<(/?)([A-Za-z][^\s/>]*)(.*?)(/?)>", re.DOTALL)


def read_html(text: str) -> Iterator[Segment]:
    """The segments of a document, without the content of scripts, code and elements that say translate="no"."""
    events = _Tokenizer(text).events
    items: list[Item] = []
    start = 0
    skipped, depth = "", 0  # the element that is not translated, and how often it is open
    for (begin, kind), (end, _) in zip(events, events[1:], strict=False):
        raw = text[begin:end]
        item = read_tag(raw) if kind == "tag" else Item("text" if kind == "text" else "mark", raw)
        if skipped:
            depth += {"open": 1, "close": -1}.get(item.kind, 0) * (item.tag == skipped)
            if items:
                items[-1] = items[-1]._replace(raw=items[-1].raw + raw)
            skipped = skipped if depth else ""
            continue
        is_boundary = kind == "other" or (kind == "tag" and item.tag not in _INLINE)
        is_untouched = item.kind == "open" and (item.tag in _UNTOUCHED or _says_no(raw))
        if is_boundary and items:
            yield _segment(start, items)
            items = []
        if is_untouched:
            skipped, depth = item.tag, 1
        if not is_boundary:
            start = start if items else begin
            items.append(Item("name", raw) if is_untouched else item)
    if items:
        yield _segment(start, items)


def _segment(start: int, items: list[Item]) -> Segment:
    return Segment(start, fold_untouched(items), html.unescape, lambda text: html.escape(text, quote=False))


def read_tag(raw: str) -> Item:
    """A tag as an item; what is none, such as a comment, is a mark."""
    match = _TAG.fullmatch(raw)
    if match is None:
        return Item("mark", raw)
    tag = match[2].lower()
    if match[1]:
        return Item("close", raw, tag)
    return Item("mark" if tag in _VOID or match[4] else "open", raw, tag)


def fold_untouched(items: Sequence[Item]) -> list[Item]:
    """Make one name of each inline element that is not translated, and of formulas such as m² and H₂O.

    A subscript or superscript behind a longer word is a note on it, and becomes a mark.
    """
    folded: list[Item] = []
    end = ""
    is_formula = False
    for item in items:
        if end:
            folded[-1] = folded[-1]._replace(raw=folded[-1].raw + item.raw)
            is_formula = item.kind == "close" and item.tag == end and end in _SCRIPTS and folded[-1].kind == "name"
            end = "" if item.kind == "close" and item.tag == end else end
            continue
        word = re.match(r"\w*", item.raw) if is_formula and item.kind == "text" else None
        if word and word[0]:
            folded[-1] = folded[-1]._replace(raw=folded[-1].raw + word[0])
            item = item._replace(raw=item.raw[word.end() :])
            is_formula = not item.raw
        if item.kind == "open" and item.tag in _UNTOUCHED_INLINE:
            folded.append(Item("name", item.raw))
            end = item.tag
        elif item.kind == "open" and item.tag in _SCRIPTS and folded and folded[-1].kind in ("text", "name"):
            letters = re.search(r"(?<!\w)[^\W\d]{1,2}$", folded[-1].raw)
            end = item.tag
            if folded[-1].kind == "name" and is_formula:
                folded[-1] = folded[-1]._replace(raw=folded[-1].raw + item.raw)
            elif letters and folded[-1].kind == "text":
                folded[-1] = folded[-1]._replace(raw=folded[-1].raw[: letters.start()])
                folded.append(Item("name", letters[0] + item.raw))
            else:
                folded.append(Item("mark", item.raw))
        elif item.raw:
            folded.append(item)
    return folded


def _says_no(raw: str) -> bool:
    return bool(
        re.search(r"""\btranslate\s*=\s*["']?no\b|\bclass\s*=\s*["'][^"']*\bnotranslate\b""", raw, re.IGNORECASE)
    )


class _Event(NamedTuple):
    """Where a token begins in the document; it ends where the next begins."""

    begin: int
    kind: Literal["text", "tag", "comment", "other", "end"]


class _Tokenizer(HTMLParser):
    """Where the tokens of a document begin, and the end of the document."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self.events: list[_Event] = []
        self.line_starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
        self.feed(text)
        self.close()
        self.events.append(_Event(len(text), "end"))

    def _add(self, kind: Literal["text", "tag", "comment", "other"]) -> None:
        line, column = self.getpos()
        begin = self.line_starts[line - 1] + column if self.events else 0
        if kind != "text" or not self.events or self.events[-1].kind != "text":
            self.events.append(_Event(begin, kind))

    def _add_text(self, *token: object) -> None:
        self._add("text")

    def _add_tag(self, *token: object) -> None:
        self._add("tag")

    def _add_other(self, *token: object) -> None:
        self._add("other")

    # The parser calls them by position, and mypy allows for calls by name.
    handle_data = handle_charref = handle_entityref = _add_text  # type: ignore[assignment]
    handle_starttag = handle_endtag = handle_startendtag = _add_tag  # type: ignore[assignment]
    handle_decl = handle_pi = _add_other  # type: ignore[assignment]

    def handle_comment(self, data: str) -> None:
        """Note where a comment begins."""
        self._add("comment")

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        """Read `<![` as the HTML standard does: as a comment. Python's own method fails where no name follows."""
        return self.parse_bogus_comment(i)
