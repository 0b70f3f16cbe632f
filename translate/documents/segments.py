"""The segments of a document, such as paragraphs and table cells: their plain text, and where the markup stands in it.

A format's reader divides a document into segments, and each segment into items whose raw text, joined, is the
document's own. Here a segment gets its plain text, which a model can read. A name (a placeholder, an address, code)
becomes a number in it; everything else that is not text takes no room.
"""

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

# What programs fill in, URLs and e-mail addresses. They stand in raw text, so a URL may contain `&amp;`.
_PLACEHOLDER = re.compile(
    r"""(?:
    (?:https?|ftp)://[^\s<>"')\]]*[^\s<>"')\].,;:!?] | www\.[^\s<>"')\]]*[^\s<>"')\].,;:!?]
    | [\w.+-]+@[\w-]+(?:\.[\w-]+)+
    | \$\{[^{}\s]{1,80}\} | \$[A-Za-z_]\w* | \{\{[^{}\n]{1,80}\}\} | \{[^{}\n]{0,80}\}
    | (?<![\d%])%(?:\(\w+\)|\d+\$)?[-+0#]*\d*(?:\.\d+)?[sdiufgxXc@](?![^\W\d_]) | %\(\w+\)[sdifr] | (?<!\w)%\d+(?!\w)
    | %%
    )+""",
    re.VERBOSE,
)
_SPACES = re.compile(r"(\s+)")
_INVISIBLE = str.maketrans("", "", "\N{SOFT HYPHEN}\N{ZERO WIDTH SPACE}")


class Item(NamedTuple):
    """A part of a segment as the document writes it."""

    kind: Literal["text", "break", "open", "close", "mark", "name"]  # name: stands for a word; mark: has no text
    raw: str
    tag: str = ""  # the close of the same tag belongs to an open
    written: str = ""  # what the translation has instead; "": the same


def _same(text: str) -> str:
    return text


class Segment(NamedTuple):
    """Text that belongs together, and the way its format writes text."""

    start: int  # in the document
    items: list[Item]
    decode: Callable[[str], str] = _same  # raw text as a reader sees it
    encode: Callable[[str], str] = _same  # a character as the document writes it
    unsafe: re.Pattern[str] | None = (
        None  # would mean something at the beginning of a line; its last character is escaped
    )

    @property
    def raw(self) -> str:
        """The segment as the document writes it."""
        return "".join(item.raw for item in self.items)


@dataclass(eq=False)
class Node:
    """Markup in a segment's plain text: around a part of it (pair), at a place (mark), or as a word of it (name)."""

    kind: Literal["pair", "mark", "name", "break"]  # break: white space with a line break
    raw: str
    start: int
    end: int
    parent: "Node | None" = None  # the pair around it
    close: str = ""
    tag: str = ""
    first_item: int = 0

    @property
    def depth(self) -> int:
        """The number of pairs around this markup."""
        depth, parent = 0, self.parent
        while parent is not None:
            depth, parent = depth + 1, parent.parent
        return depth


class Layout(NamedTuple):
    """A segment's plain text with single spaces, and its markup in order."""

    before: str  # what the segment has before its text
    text: str
    nodes: list[Node]
    after: str

    @property
    def names(self) -> list[Node]:
        """The markup that stands as a number in the text."""
        return [node for node in self.nodes if node.kind == "name"]

    @property
    def written(self) -> list[tuple[str, bool]]:
        """Each piece of markup as the document writes it, and whether it is a name."""
        shown = [node for node in self.nodes if node.kind != "break"]
        return [(raw, node.kind == "name") for node in shown for raw in (node.raw, node.close) if raw]


def lay_out(segment: Segment) -> Layout:
    """The plain text of a segment, and the places of its markup."""
    items = list(segment.items)
    before = _take_edge(items, first=True)
    after = _take_edge(items, first=False)
    return _LayoutBuilder(items, segment).layout(before, after)


def _take_edge(items: list[Item], *, first: bool) -> str:
    """Take the white space and the marks at an end of the items from them."""
    taken: list[str] = []
    place = 0 if first else -1
    while items and items[place].kind in ("text", "mark", "break"):
        item = items.pop(place)
        kept = "" if item.kind != "text" else item.raw.lstrip() if first else item.raw.rstrip()
        cut = len(item.raw) - len(kept)
        taken.append(item.raw[:cut] if first else item.raw[len(kept) :])
        if kept:
            items.insert(0 if first else len(items), Item("text", kept))
            break
    return "".join(taken if first else reversed(taken))


class _LayoutBuilder:
    """Reads the items of one segment from left to right."""

    def __init__(self, items: list[Item], segment: Segment) -> None:
        self.items = items
        self.decode = segment.decode
        self.text = ""
        self.nodes: list[Node] = []
        self.open: list[Node] = []
        seen = segment.raw + segment.decode(segment.raw)
        self.numbers = (str(number) for number in itertools.count(11) if str(number) not in seen)

    def layout(self, before: str, after: str) -> Layout:
        for number, item in enumerate(self.items):
            if item.kind == "text":
                self._add_text(item.raw)
            elif item.kind == "name":
                self._add_name(item.raw)
            elif item.kind == "break":
                self._add_space(item.raw, is_break=True)
            elif item.kind == "open":
                place = len(self.text)
                node = Node("pair", item.raw, place, place, self._parent, tag=item.tag, first_item=number)
                self.nodes.append(node)
                self.open.append(node)
            elif item.kind == "close":
                self._close(item, number)
            else:
                self._add_mark(item.raw)
        while self.open:  # closed behind the segment
            self._end_pair(len(self.items))
        text = self.text.rstrip()
        for node in self.nodes:
            node.start, node.end = min(node.start, len(text)), min(node.end, len(text))
        return Layout(
            before, text, [node for node in self.nodes if node.kind != "break" or node.end > node.start], after
        )

    @property
    def _parent(self) -> Node | None:
        return self.open[-1] if self.open else None

    def _add_text(self, raw: str) -> None:
        position = 0
        for match in _PLACEHOLDER.finditer(raw):
            self._add_words(raw[position : match.start()])
            self._add_name(match[0])
            position = match.end()
        self._add_words(raw[position:])

    def _add_words(self, raw: str) -> None:
        for number, part in enumerate(_SPACES.split(raw)):  # spaces and words by turns
            if number % 2:
                self._add_space(part, is_break="\n" in part)
                continue
            text = _SPACES.sub(" ", self.decode(part).translate(_INVISIBLE))
            if re.match(r"\d", text):
                self._take_last_number()
            self.text += text[1:] if text.startswith(" ") and self._is_spaced else text

    def _take_last_number(self) -> None:
        """Make a mark of a name that the text ends with: its number and the next would be one."""
        name = next((node for node in self.nodes if node.kind == "name" and node.end == len(self.text)), None)
        if name is not None:
            self.text = self.text[: name.start]
            name.kind = "mark"
            for node in self.nodes:
                node.start, node.end = min(node.start, len(self.text)), min(node.end, len(self.text))

    def _add_space(self, raw: str, *, is_break: bool) -> None:
        if not self._is_spaced:
            if is_break:
                self.nodes.append(Node("break", raw, len(self.text), len(self.text) + 1, self._parent))
            self.text += " "

    @property
    def _is_spaced(self) -> bool:
        return not self.text or self.text.endswith(" ")

    def _add_mark(self, raw: str) -> None:
        place = len(self.text)
        self.nodes.append(Node("mark", raw, place, place, self._parent))

    def _add_name(self, raw: str) -> None:
        if re.search(r"\d$", self.text):  # two numbers side by side would be one
            self._add_mark(raw)
            return
        place = len(self.text)
        self.text += next(self.numbers)
        self.nodes.append(Node("name", raw, place, len(self.text), self._parent))

    def _close(self, item: Item, number: int) -> None:
        if not any(node.tag == item.tag for node in self.open):
            if self.open or not self.text:
                self._add_mark(item.raw)
                return
            # It was opened before the segment.
            pair = Node("pair", "", 0, len(self.text), close=item.raw)
            for node in self.nodes:
                node.parent = node.parent or pair
            self.nodes.insert(0, pair)
            self.open = [pair]
            self._end_pair(number + 1)
            return
        while self.open[-1].tag != item.tag:  # tags that cross are not carried over as pairs
            crossed = self.open.pop()
            crossed.kind = "mark"
            for node in self.nodes:
                node.parent = crossed.parent if node.parent is crossed else node.parent
        self.open[-1].close = item.written or item.raw
        self._end_pair(number + 1)

    def _end_pair(self, last_item: int) -> None:
        """End the innermost pair; one without any word becomes a single name or mark."""
        pair = self.open.pop()
        pair.end = len(self.text)
        place = self.nodes.index(pair)
        names = [node for node in self.nodes[place:] if node.kind == "name"]
        words = list(self.text[pair.start :])
        for node in names:
            words[node.start - pair.start : node.end - pair.start] = " " * (node.end - node.start)
        if any(map(str.isalnum, words)):
            return
        inside, self.text = self.text[pair.start :], self.text[: pair.start]
        del self.nodes[place:]
        raw = "".join(item.raw for item in self.items[pair.first_item : last_item])
        (self._add_name if names else self._add_mark)(raw)
        if inside.endswith(" "):
            self._add_space(" ", is_break=False)
