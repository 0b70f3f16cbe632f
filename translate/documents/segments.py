"""The segments of a document, such as paragraphs and table cells: their plain text, and where the markup stands in it.

A format's reader divides a document into segments, and each segment into items whose raw text, joined, is the
document's own. Here a segment gets its plain text, which a model can read. A name (a placeholder, an address, code)
becomes a number in it; everything else that is not text takes no room.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

# White space; and names in text: what programs fill in, URLs and e-mail addresses. A URL may contain `&amp;`.
_BETWEEN_WORDS = re.compile(
    r"""(\s+ | (?:
    (?:https?|ftp)://[^\s<>"')\]]*[^\s<>"')\].,;:!?] | www\.[^\s<>"')\]]*[^\s<>"')\].,;:!?]
    | (?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+
    | \$\{[^{}\s]{1,80}\} | \$[A-Za-z_]\w* | \{\{[^{}\n]{1,80}\}\} | \{[^{}\n]{0,80}\}
    | (?<![\d%])%(?:\(\w+\)|\d+\$)?[-+0#]{0,4}\d{0,4}(?:\.\d+)?[sdiufgxXc@](?![^\W\d_]) | %\(\w+\)[sdifr]
    | (?<!\w)%\d+(?!\w) | %%
    )+)""",
    re.VERBOSE,
)
_MAX_DEPTH = 20  # pairs within each other; what is deeper becomes marks
_INVISIBLE = str.maketrans("", "", "\N{SOFT HYPHEN}\N{ZERO WIDTH SPACE}")


Kind = Literal["text", "space", "break", "open", "close", "pair", "mark", "name"]


class Item(NamedTuple):
    """A part of a segment as the document writes it."""

    kind: Kind  # break: a space that is a line break too; mark: has no text; name: stands for a word
    raw: str
    tag: str = ""  # the close of the same tag belongs to an open
    written: str = ""  # what the translation has instead of a close; "": the same


class Syntax(NamedTuple):
    """The way a format writes text."""

    decode: Callable[[str], str] = str  # raw text as a reader sees it
    encode: Callable[[str], str] = str  # a character as the document writes it
    unsafe: re.Pattern[str] = re.compile("(?!)")  # means something where a line begins; its last character is escaped


class Segment(NamedTuple):
    """Text that belongs together."""

    start: int  # in the document
    items: Sequence[Item]
    syntax: Syntax = Syntax()

    @property
    def raw(self) -> str:
        """The segment as the document writes it."""
        return "".join(item.raw for item in self.items)


@dataclass(eq=False)
class Markup:
    """Markup in a segment's plain text: around a part of it (pair), at a place (mark), or as a word of it (name)."""

    kind: Kind
    raw: str
    start: int
    end: int
    parent: "Markup | None"  # the pair around it
    depth: int  # the number of pairs around it
    close: str = ""


class Layout(NamedTuple):
    """A segment's plain text with single spaces, and its markup in order."""

    before: Sequence[Item]  # what the segment has before its text
    text: str
    markup: list[Markup]
    breaks: list[tuple[int, str]]  # the spaces between lines: their places, and as the document writes them
    after: Sequence[Item]

    @property
    def names(self) -> list[Markup]:
        """The markup that stands as a number in the text."""
        return [each for each in self.markup if each.kind == "name"]

    @property
    def written(self) -> list[tuple[str, bool]]:
        """Each piece of markup as the document writes it, and whether it is a name."""
        inside = [(raw, each.kind == "name") for each in self.markup for raw in (each.raw, each.close) if raw]
        return inside + [(item.raw, False) for item in (*self.before, *self.after) if item.kind == "mark"]


def lay_out(segment: Segment) -> Layout:
    """The plain text of a segment, and the places of its markup."""
    decode = segment.syntax.decode
    items = _pair_tags(_divide_text(segment.items), decode)
    edge = ("space", "break", "mark")
    first = next((place for place, item in enumerate(items) if item.kind not in edge), len(items))
    last = next((place for place in range(len(items), first, -1) if items[place - 1].kind not in edge), first)
    taken = set(re.findall(r"\d+", f"{segment.raw} {decode(segment.raw)}"))
    numbers = (str(number) for number in itertools.count(11) if str(number) not in taken)
    text = ""
    markup: list[Markup] = []
    pairs: list[Markup] = []  # that are open
    breaks: list[tuple[int, str]] = []
    for item in items[first:last]:
        start, is_spaced = len(text), not text or text.endswith(" ")
        if item.kind == "text":
            word = _plain(item, decode)
            text += word[1:] if is_spaced and word.startswith(" ") else word
        elif item.kind in ("space", "break"):
            text += " " * (not is_spaced)
            breaks += [(start, item.raw)] * (item.kind == "break" and not is_spaced)
        elif item.kind == "close":
            pair = pairs.pop()
            pair.end, pair.close = start, item.written or item.raw
        else:
            text += next(numbers) if item.kind == "name" else ""
            kind: Kind = "pair" if item.kind == "open" else item.kind
            markup.append(Markup(kind, item.raw, start, len(text), pairs[-1] if pairs else None, len(pairs)))
            pairs += markup[-1:] * (kind == "pair")
    return Layout(items[:first], text.rstrip(), markup, breaks, items[last:])


def _divide_text(items: Sequence[Item]) -> Iterator[Item]:
    """Divide text into words, the white space between them, and names."""
    for kind, group in itertools.groupby(items, key=lambda item: item.kind):
        if kind not in ("text", "name"):
            yield from group
            continue
        raw = "".join(item.raw for item in group)
        if kind == "name":
            yield Item("name", raw)
            continue
        for number, part in enumerate(_BETWEEN_WORDS.split(raw)):  # words, and what is between them, by turns
            if part:
                between: Kind = "name" if not part.isspace() else "break" if "\n" in part else "space"
                yield Item(between if number % 2 else "text", part)


def _plain(item: Item, decode: Callable[[str], str]) -> str:
    return re.sub(r"\s+", " ", decode(item.raw).translate(_INVISIBLE))


def _pair_tags(items: Iterator[Item], decode: Callable[[str], str]) -> list[Item]:
    """Make marks of tags without a partner and of tags that cross, and one name or mark of each pair without a word."""
    paired: list[Item] = []
    opened: list[int] = []  # places of the tags that are open
    for item in items:
        is_alone = item.kind == "close" and not any(paired[place].tag == item.tag for place in opened)
        if is_alone or (item.kind == "open" and len(opened) == _MAX_DEPTH):
            item = item._replace(kind="mark")
        paired.append(item)
        if item.kind == "open":
            opened.append(len(paired) - 1)
        elif item.kind == "close":
            while (opening := paired[place := opened.pop()]).tag != item.tag:
                paired[place] = opening._replace(kind="mark")
            texts = (paired[inside] for inside in range(place, len(paired)) if paired[inside].kind == "text")
            if not any(character.isalnum() for text in texts for character in _plain(text, decode)):
                pair = paired[place:]
                kind: Kind = "name" if any(each.kind == "name" for each in pair) else "mark"
                paired[place:] = [Item(kind, "".join(each.raw for each in pair))]
                paired += [Item("space", "")] * (pair[-2].kind in ("space", "break"))
    for place in opened:
        paired[place] = paired[place]._replace(kind="mark")
    return paired
