"""The segments of a document, such as paragraphs and table cells: their plain text and the positions of their markup.

A format's reader divides a document into segments, and each segment into items whose raw text, joined, is the
document's own. `lay_out` gives a segment the plain text that a model reads. In it, a placeholder (a format directive,
an address, code) is a number, and other markup takes no room.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from translate.placeholders import match_placeholders

_SPACES = re.compile(r"(\s+)")
_WORDS = {"tag", "entity", "emoji"}  # placeholders of a text that are words of a document
_OF_MESSAGES = {"message", "open", "close", "count"}  # placeholders that only messages of ICU have
_MAX_DEPTH = 20  # of nested paired markup; deeper tags become point markup
_INVISIBLE = str.maketrans("", "", "\N{SOFT HYPHEN}\N{ZERO WIDTH SPACE}")


Kind = Literal["text", "space", "break", "open", "close", "paired", "point", "placeholder"]


class Item(NamedTuple):
    """A part of a segment as the document writes it."""

    kind: Kind  # break: a space with a line break; point: markup without text; placeholder: replaces a word
    raw: str
    tag: str = ""  # an open and the next close with the same tag are paired
    written: str = ""  # how the translation writes a close; "": as in the source


class Syntax(NamedTuple):
    """How a format writes text."""

    decode: Callable[[str], str] = str  # raw text as a reader sees it
    encode: Callable[[str], list[str]] = list  # the characters of a text as the document writes them
    unsafe: re.Pattern[str] = re.compile("(?!)")  # is markup at the start of a line; its last character is escaped


class Segment(NamedTuple):
    """Text that is translated together."""

    start: int  # in the document
    items: Sequence[Item]
    syntax: Syntax = Syntax()

    @property
    def raw(self) -> str:
        """The segment as the document writes it."""
        return "".join(item.raw for item in self.items)


class Written(NamedTuple):
    """A document with translations."""

    text: str
    segments: Iterable[Segment]  # as they are in it, in the order of the source's, to find markup that was lost
    entries: Mapping[str, int] = {}  # of a bilingual document: how many are filled, and how many are not, and why
    problems: Sequence[str] = ()  # what could not be filled, with its line


class Reading(NamedTuple):
    """What is translated in a document: its segments, and a function that writes it with their translations.

    The function takes the raw translation of each segment, in the segment's syntax and with its markup. It may write
    the text anywhere: in the segment's place, or, in a bilingual document, where the translation of the text belongs.
    """

    segments: Sequence[Segment]  # `start` is for reports, and for `replace_segments`
    write: Callable[[Sequence[str]], Written]


def replace_segments(text: str, segments: Iterable[Segment], translated: Iterable[str]) -> str:
    """A text with other raw text for some segments, which are in order."""
    parts, position = list[str](), 0
    for segment, new in zip(segments, translated, strict=True):
        parts += [text[position : segment.start], new]
        position = segment.start + len(segment.raw)
    return "".join([*parts, text[position:]])


@dataclass(eq=False)
class Markup:
    """Markup in a segment's plain text: paired around a part of it, at a point, or as a placeholder for a word."""

    kind: Kind
    raw: str
    start: int
    end: int
    parent: "Markup | None"  # the innermost paired markup around it
    depth: int  # how much paired markup is around it
    close: str = ""
    is_spaced: bool = False  # has white space on both sides, of which the text has one


WrittenMarkup = list[tuple[str, bool]]
"""Pieces of markup as the document writes them, and whether each is a placeholder."""


class Layout(NamedTuple):
    """A segment's plain text with single spaces, and its markup in order."""

    before: Sequence[Item]  # the first text
    text: str
    markup: list[Markup]
    breaks: list[tuple[int, str]]  # line breaks: their positions in the text, and how the document writes them
    after: Sequence[Item]


def markup_of(segment: Segment) -> WrittenMarkup:
    """The pieces of markup of a segment, each with whether it is a placeholder."""
    items = (item for item in _divide_text(segment.items) if item.kind not in ("text", "space", "break"))
    return [(item.written or item.raw, item.kind == "placeholder") for item in items if item.raw]


def divide_messages(segment: Segment) -> Iterator[Segment]:
    """The branches of messages of ICU, the text around them and what is between them, as segments of their own."""
    raw, items, position, end = segment.raw, list[Item](), 0, 0
    matches = [match for match in match_placeholders(raw) if match.lastgroup in _OF_MESSAGES][::-1]
    for item in segment.items:
        end += len(item.raw)
        while matches and matches[-1].start() < end:
            match = matches.pop()
            if item.kind == "text":
                tag = "" if match.lastgroup == "count" else "message"
                items += [Item("text", raw[position : match.start()]), Item("placeholder", match[0], tag)]
                position = match.end()
        items.append(item._replace(raw=raw[position:end]))
        position = max(position, end)
    for _, group in itertools.groupby(items, key=lambda item: (item.kind, item.tag) == ("placeholder", "message")):
        yield segment._replace(items=list(group))


def lay_out(segment: Segment) -> Layout:
    """The plain text of a segment and the positions of its markup."""
    decode = segment.syntax.decode
    items = _join_placeholders(_pair_tags(_divide_text(segment.items), decode))
    edge = ("space", "break", "point")
    first = next((place for place, item in enumerate(items) if item.kind not in edge), len(items))
    last = next((place for place in range(len(items), first, -1) if items[place - 1].kind not in edge), first)
    taken = set(re.findall(r"\d+", f"{segment.raw} {decode(segment.raw)}"))
    numbers = (str(number) for number in itertools.count(11) if str(number) not in taken)
    text = ""
    markup: list[Markup] = []
    opened: list[Markup] = []
    breaks: list[tuple[int, str]] = []
    for item in items[first:last]:
        start, is_spaced = len(text), not text or text.endswith(" ")
        if item.kind == "text":
            word = _plain(item, decode)
            text += word[1:] if is_spaced and word.startswith(" ") else word
        elif item.kind in ("space", "break"):
            if is_spaced and markup and markup[-1].kind == "point" and markup[-1].end == start:
                markup[-1].is_spaced = True
            text += " " * (not is_spaced)
            breaks += [(start, item.raw)] * (item.kind == "break" and not is_spaced)
        elif item.kind == "close":
            paired = opened.pop()
            paired.end, paired.close = start, item.written or item.raw
        else:
            text += next(numbers) if item.kind == "placeholder" else ""
            kind: Kind = "paired" if item.kind == "open" else item.kind
            markup.append(Markup(kind, item.raw, start, len(text), opened[-1] if opened else None, len(opened)))
            opened += markup[-1:] * (kind == "paired")
    return Layout(items[:first], text.rstrip(), markup, breaks, items[last:])


def _divide_text(items: Sequence[Item]) -> Iterator[Item]:
    """Divide text into words, the white space between them, and placeholders."""
    for kind, group in itertools.groupby(items, key=lambda item: item.kind):
        if kind != "text":
            yield from group
            continue
        raw = "".join(item.raw for item in group)
        position = 0
        for match in match_placeholders(raw):
            if match.lastgroup not in _WORDS:
                yield from _divide_words(raw[position : match.start()])
                yield Item("placeholder", match[0])
                position = match.end()
        yield from _divide_words(raw[position:])


def _divide_words(raw: str) -> Iterator[Item]:
    for number, part in enumerate(_SPACES.split(raw) if raw else ()):  # words alternate with white space
        if part:
            yield Item("text" if number % 2 == 0 else "break" if "\n" in part else "space", part)


def _plain(item: Item, decode: Callable[[str], str]) -> str:
    return re.sub(r"\s+", " ", decode(item.raw).translate(_INVISIBLE))


def _pair_tags(items: Iterator[Item], decode: Callable[[str], str]) -> list[Item]:
    """Turn unpaired and crossing tags into points, and paired tags without a word into one item."""
    paired: list[Item] = []
    opened: list[int] = []  # positions of open tags
    for item in items:
        is_alone = item.kind == "close" and not any(paired[place].tag == item.tag for place in opened)
        if is_alone or (item.kind == "open" and len(opened) == _MAX_DEPTH):
            item = item._replace(kind="point")
        paired.append(item)
        if item.kind == "open":
            opened.append(len(paired) - 1)
        elif item.kind == "close":
            while (opening := paired[place := opened.pop()]).tag != item.tag:
                paired[place] = opening._replace(kind="point")
            texts = (paired[inside] for inside in range(place, len(paired)) if paired[inside].kind == "text")
            if not any(character.isalnum() for text in texts for character in _plain(text, decode)):
                merged = paired[place:]
                kind: Kind = "placeholder" if any(part.kind == "placeholder" for part in merged) else "point"
                paired[place:] = [Item(kind, "".join(part.raw for part in merged))]
                paired += [Item("space", "")] * (merged[-2].kind in ("space", "break"))
    for place in opened:
        paired[place] = paired[place]._replace(kind="point")
    return paired


def _join_placeholders(items: Iterable[Item]) -> list[Item]:
    """Merge placeholders with no word between them into one, which keeps their order and spacing."""
    joined: list[list[Item]] = []
    last = -1  # position of the last placeholder, if no word follows it
    for item in items:
        joined.append([item])
        if item.kind == "placeholder":
            if last >= 0:
                joined[last] += itertools.chain(*joined[last + 1 :])
                del joined[last + 1 :]
            else:
                last = len(joined) - 1
        elif item.kind not in ("text", "space") or re.search(r"[\w.!?…]", item.raw):
            last = -1
    return [group[-1]._replace(raw="".join(item.raw for item in group)) for group in joined]
