"""Plain text and subtitles: documents whose structure is lines.

Subtitles have a reader of our own. Parsers for them make cues of a file and write a new file from cues: line ends,
white space and whatever they do not know are not those of the file any more.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

from translate.documents.html import HTML, read_tag
from translate.documents.segments import Item, Segment, Syntax

_LINE = re.compile(r"[^\n]*\n?")
_LIST_MARK = re.compile(r"\s*(?:(?:[-*+•·–—>#]+|\d{1,3}[.)]|[a-z]\))\s+)*")  # stands before a line's text
_BLOCK = re.compile(r"(?:^[^\S\n]*\S[^\n]*\n?)+", re.MULTILINE)
_TIMES = re.compile(
    r"(?:[^\n]*\n)??\s*(?:\d+:)?\d+:\d+[.,]\d+\s*-->[^\n]*\n?"
)  # behind the name of a cue, if it has one
_VTT_BLOCK = re.compile(r"WEBVTT|NOTE\b|STYLE\b|REGION\b")
_SPEAKER = re.compile(r"^(?=[^\S\n]*(?:<[^<>\n]*>[^\S\n]*)*[-–—])", re.MULTILINE)
_CUE_MARKUP = re.compile(r"(<[^<>\n]*>|\{\\[^{}\n]*\})")


def read_text(text: str, *, by_line: bool) -> Iterator[Segment]:
    """The lines of plain text without indentation and list marks; or its paragraphs, lines without a blank one between.

    A line with a list mark begins a new paragraph.
    """
    start, paragraph = 0, ""
    for line in _LINE.findall(text):  # the last is empty
        begin = _LIST_MARK.match(line)
        mark = begin[0] if begin else ""
        if paragraph and (by_line or not line.strip() or mark.strip()):
            yield Segment(start - len(paragraph), [Item("text", paragraph)])
            paragraph = ""
        if line.strip():
            paragraph += line if paragraph else line[len(mark) :]
        start += len(line)


def read_subtitles(text: str, *, has_entities: bool) -> Iterator[Segment]:
    """The text of each cue. In a dialogue, where lines begin with a dash, each speaker's text stands alone.

    Args:
        has_entities: Text is written as in HTML, which WebVTT does and SubRip does not.
    """
    for block in _BLOCK.finditer(text):
        times = _TIMES.match(block[0])
        if times is None or _VTT_BLOCK.match(block[0]):
            continue
        speakers = [speaker.start() for speaker in _SPEAKER.finditer(block[0], times.end() + 1)]
        for begin, end in pairwise([times.end(), *speakers, len(block[0])]):
            raw = re.sub(r"^\s*[-–—]\s*", "", block[0][begin:end])
            items = [
                read_tag(part) if number % 2 else Item("text", part)
                for number, part in enumerate(_CUE_MARKUP.split(raw))
                if part
            ]
            if items:
                named = [item._replace(tag=item.tag.partition(".")[0]) for item in items]  # <c.red> ends at </c>
                yield Segment(block.start() + end - len(raw), named, HTML if has_entities else Syntax())
