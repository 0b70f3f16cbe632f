"""Plain text and subtitles: documents whose structure is lines.

Subtitles have a reader of our own because parsers write a new file from cues, which loses line ends, white space and
everything that the parser does not know.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

from translate.documents.html import HTML, fold_untouched, read_tag
from translate.documents.segments import Item, Segment, Syntax

_LINE = re.compile(r"[^\n]*\n?")
_LIST_MARKER = re.compile(r"\s*(?:(?:[-*+•·–—>#]+|\d{1,3}[.)]|[a-z]\))\s+)*")  # before a line's text
_ROW = r"^[^\S\n]*\S[^\n]*\n?"
_TIMES = r"^[^\S\n]*(?:\d+:)?\d+:\d+[.,]\d+[^\S\n]*-->[^\n]*\n?"
# A cue ends at a blank line, and before the times of the next, and their number.
_CUE = re.compile(
    rf"^(?=WEBVTT|NOTE\b|STYLE\b|REGION\b)(?:{_ROW})+"
    rf"|{_TIMES}(?P<text>(?:(?!(?:^[^\S\n]*\d+[^\S\n]*\n)?{_TIMES}){_ROW})*)",
    re.MULTILINE,
)
_CUE_MARKUP = re.compile(r"(<[^<>\n]*>|\{\\[^{}\n]*\})")
# What a speaker's text begins with: a dash, and tags before it.
_DASH = re.compile(rf"[^\S\n]*(?:{_CUE_MARKUP.pattern}[^\S\n]*)*[-‐–—―]+\s*")
_SPEAKER = re.compile(rf"^(?={_DASH.pattern})", re.MULTILINE)


def read_text(text: str, *, by_line: bool) -> Iterator[Segment]:
    """The lines of plain text without indentation and list markers, or its paragraphs.

    A paragraph ends at a blank line, and before a line with a list marker.
    """
    start, paragraph = 0, ""
    for line in _LINE.findall(text):  # the last is empty
        begin = _LIST_MARKER.match(line)
        marker = begin[0] if begin else ""
        if paragraph and (by_line or not line.strip() or marker.strip()):
            yield Segment(start - len(paragraph), [Item("text", paragraph)])
            paragraph = ""
        if line.strip():
            paragraph += line if paragraph else line[len(marker) :]
        start += len(line)


def read_subtitles(text: str, *, has_entities: bool) -> Iterator[Segment]:
    """The text of each cue. In a dialogue, where lines begin with a dash, each speaker's text is a segment.

    Args:
        has_entities: Whether text is encoded as in HTML: in WebVTT it is, in SubRip it is not.
    """
    for cue in _CUE.finditer(text):
        cue_text = cue["text"] or ""
        speakers = [speaker.start() for speaker in _SPEAKER.finditer(cue_text, 1)]
        for begin, end in pairwise([0, *speakers, len(cue_text)]):
            dash = _DASH.match(cue_text, begin, end)
            raw = cue_text[dash.end() if dash else begin : end]
            parts = enumerate(_CUE_MARKUP.split(raw))  # text alternates with markup
            items = [read_tag(part) if number % 2 else Item("text", part) for number, part in parts if part]
            if items:
                named = [item._replace(tag=item.tag.partition(".")[0]) for item in items]  # <c.red> ends at </c>
                start = cue.start("text") + end - len(raw)
                yield Segment(start, fold_untouched(named), HTML if has_entities else Syntax())
