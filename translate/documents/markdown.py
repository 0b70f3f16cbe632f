"""Markdown: the text of paragraphs, headings, list items and table cells, found by the events of pulldown-cmark.

That parser gives the position of each event in the document, so everything else can be copied.
"""

import html
import re
from collections.abc import Iterator
from typing import Any

from translate.documents.html import fold_untouched, read_html, read_tag
from translate.documents.segments import Item, Kind, Segment, Syntax
from translate.errors import import_extra

_ESCAPE = re.compile(r"\\([!-/:-@[-`{-~])|&(?:#\w+|\w+);")
_SPECIAL = re.compile(r"[\\`*_\[\]<|~]|&(?=#?\w+;)")
_OPENING = {"Emphasis": 1, "Strong": 2, "Strikethrough": 1, "Link": 1, "Image": 2}  # characters that open a pair
_KINDS: dict[str, Kind] = {"Text": "text", "Code": "placeholder", "SoftBreak": "break"}  # others are points


def _encode(text: str) -> list[str]:
    characters = list(text)
    for match in _SPECIAL.finditer(text):
        characters[match.start()] = f"\\{match[0]}"
    return characters


MARKDOWN = Syntax(
    decode=lambda raw: _ESCAPE.sub(lambda match: match[1] or html.unescape(match[0]), raw),
    encode=_encode,
    unsafe=re.compile(r">|#{1,6}$|[-+]$|[-=]+$|\d{1,9}[.)]$"),
)


def read_markdown(text: str) -> Iterator[Segment]:
    """The segments of CommonMark with tables, footnotes, task lists, front matter and HTML blocks.

    Raises:
        InputError: The extra `documents` is not installed.
    """
    pyromark = import_extra("pyromark", needed_by="Markdown")
    flags = pyromark.Options
    options = flags.ENABLE_TABLES | flags.ENABLE_FOOTNOTES | flags.ENABLE_STRIKETHROUGH
    options |= flags.ENABLE_TASKLISTS | flags.ENABLE_YAML_STYLE_METADATA_BLOCKS
    return _Reader(text).read(pyromark.Markdown(options=options).events_with_range(text))


class _Reader:
    """Collects the inline events between block events."""

    def __init__(self, text: str) -> None:
        self.text = text
        sizes = (len(character.encode()) for character in text)
        places = (place for place, size in enumerate(sizes) for _ in range(size))
        self.places = [*places, len(text)]  # character index by byte
        self.items: list[Item] = []
        self.start = self.end = 0  # of the items
        self.links: list[tuple[str, int]] = []  # kind of each open link, and where its text begins

    def read(self, events: Any) -> Iterator[Segment]:
        depth = 0  # of blocks
        skipped = ""  # the kind of the open code block, HTML block, metadata or address
        for event, span in events:
            begin, end = self.places[span["start"]], self.places[span["end"]]
            value: Any
            name, value = (event, "") if isinstance(event, str) else next(iter(event.items()))
            kind = "" if name not in ("Start", "End") else value if isinstance(value, str) else next(iter(value))
            if skipped:
                skipped = "" if (name, kind) == ("End", skipped) else skipped
            elif kind in _OPENING:
                link_type = value[kind]["link_type"] if name == "Start" and kind in ("Link", "Image") else ""
                if link_type in ("Autolink", "Email"):
                    self._add("placeholder", begin, end)
                    skipped = kind
                else:
                    self._add_pair(kind, begin, end, is_start=name == "Start", link_type=str(link_type))
            elif kind or name in ("HardBreak", "Rule", "TaskListMarker", "Html"):
                yield from self._end_segment()
                depth += {"Start": 1, "End": -1}.get(name, 0)
                if name == "Start" and kind in ("CodeBlock", "HtmlBlock", "MetadataBlock"):
                    skipped, depth = kind, depth - 1
                    if kind == "HtmlBlock" and depth == 0:  # its lines have no prefixes of other blocks
                        for segment in read_html(self.text[begin:end]):
                            yield segment._replace(start=begin + segment.start)
            elif name == "InlineHtml" and (tag := read_tag(self.text[begin:end])).tag == "br":
                yield from self._end_segment()
            elif name == "InlineHtml":
                self._add(tag.kind, begin, end, tag=tag.tag)
            else:
                self._add(_KINDS.get(name, "point"), begin, end)
        yield from self._end_segment()

    def _add(self, kind: Kind, begin: int, end: int, *, tag: str = "", written: str = "") -> None:
        """Add an item, and before it the text without an event: the backslash of an escape, the prefix of a quote."""
        begin -= kind == "text" and self.end < begin and self.text[begin - 1] == "\\"
        if not self.items:
            self.start = self.end = begin
        begin = max(begin, self.end)
        between = self.text[self.end : begin]
        if self.items and self.items[-1].kind == "break":
            self.items[-1] = self.items[-1]._replace(raw=self.items[-1].raw + between)
        elif kind == "break":
            begin = self.end
        elif between:
            self.items.append(Item("text", between))
        self.items.append(Item(kind, self.text[begin:end], tag, written))
        self.end = max(end, self.end)

    def _add_pair(self, kind: str, begin: int, end: int, *, is_start: bool, link_type: str) -> None:
        if is_start:
            size = _OPENING[kind] + (kind == "Strikethrough" and self.text.startswith("~~", begin))
            self._add("open", begin, begin + size, tag=kind)
            self.links.append((link_type, begin + size))
            return
        link_type, text_begin = self.links.pop()
        written = ""
        if link_type in ("Shortcut", "Collapsed"):  # the link's text is its key, which must stay as it is
            written = f"][{self.text[text_begin : self.end]}]"
        self._add("close", self.end, end, tag=kind, written=written)

    def _end_segment(self) -> Iterator[Segment]:
        if self.items:
            yield Segment(self.start, fold_untouched(self.items), MARKDOWN)
            self.items = []
