"""Plain text and subtitles: documents whose structure is lines.

Subtitles have a reader of our own. Parsers for them make cues of a file and write a new file from cues: line ends,
white space and whatever they do not know are not those of the file any more.
"""

import html
import re
from collections.abc import Iterator
from typing import Literal

from translate.documents.segments import Item, Segment

_LINE = re.compile(r"[^\n]*\n?")
_LIST_MARK = re.compile(r"\s*(?:(?:[-*+•·–—>#]+|\d{1,3}[.)]|[a-z]\))\s+)*")  # stands before a line's text
_TIMES = re.compile(r"\s*(?:\d+:)?\d+:\d+[.,]\d+\s*-->")
_VTT_BLOCK = re.compile(r"\ufeff?WEBVTT|NOTE\b|STYLE\b|REGION\b")
_CUE_MARKUP = re.compile(r"(<[^<>\n]*>|\{\\[^{}\n]*\})")
_CUE_TAG = re.compile(r"<(/?)([A-Za-z]+)[^<>]*>")


def read_text(text: str, *, by_line: bool) -> Iterator[Segment]:
    """The lines of plain text without indentation and list marks; or its paragraphs, lines without a blank one between.

    A line with a list mark begins a new paragraph.
    """
    start, paragraph = 0, ""
    for line in _LINE.findall(text):
        begin = _LIST_MARK.match(line)
        mark = begin[0] if begin else ""
        if paragraph and (by_line or not line.strip() or mark.strip()):
            yield Segment(start - len(paragraph), [Item("text", paragraph)])
            paragraph = ""
        if line.strip():
            paragraph += line if paragraph else line[len(mark) :]
        start += len(line)
    if paragraph:
        yield Segment(start - len(paragraph), [Item("text", paragraph)])


def read_subtitles(text: str, document_format: Literal["srt", "vtt"]) -> Iterator[Segment]:
    """The text of each cue. In a dialogue, where lines begin with a dash, each speaker's text stands alone."""
    position, block = 0, []
    is_vtt = document_format == "vtt"
    for line in [*_LINE.findall(text), ""]:
        if line.strip():
            block.append((position, line))
        else:
            yield from _read_cue(block, is_vtt=is_vtt)
            block = []
        position += len(line)


def _read_cue(block: list[tuple[int, str]], *, is_vtt: bool) -> Iterator[Segment]:
    times = next((number for number, (_, line) in enumerate(block[:2]) if _TIMES.match(line)), None)
    if times is None or (is_vtt and _VTT_BLOCK.match(block[0][1])):
        return
    speaker: list[tuple[int, str]] = []
    for position, line in block[times + 1 :]:
        if speaker and re.match(r"\s*(?:<[^<>]*>\s*)*[-–—]", line):
            yield _segment(speaker, is_vtt=is_vtt)
            speaker = []
        speaker.append((position, line))
    if speaker:
        yield _segment(speaker, is_vtt=is_vtt)


def _segment(lines: list[tuple[int, str]], *, is_vtt: bool) -> Segment:
    items = []
    raw = "".join(line for _, line in lines)
    mark = re.match(r"\s*[-–—]\s*", raw)
    begin = mark.end() if mark else 0
    for part in filter(None, _CUE_MARKUP.split(raw[begin:])):
        tag = _CUE_TAG.fullmatch(part)
        if tag:
            items.append(Item("close" if tag[1] else "open", part, tag[2]))
        else:
            items.append(Item("mark" if _CUE_MARKUP.fullmatch(part) else "text", part))
    start = lines[0][0] + begin
    return (
        Segment(start, items, html.unescape, lambda text: html.escape(text, quote=False))
        if is_vtt
        else Segment(start, items)
    )
