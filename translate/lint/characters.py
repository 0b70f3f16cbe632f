"""Characters that do not belong into a sentence: what broken conversions, web pages and bad encodings leave behind."""

import re
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# What UTF-8 becomes when it is read as Latin-1 or Windows-1252: a letter's two or three bytes as as many characters.
# Only leads whose other reading does not occur: "Spaß“" also is the bytes of a letter, and is left alone.
_MISREAD = "".join(bytes([byte]).decode("cp1252", "ignore") for byte in range(0x80, 0xC0)) + "\x81\x8d\x8f\x90\x9d"
_CYRILLIC_MISREAD = "(?:[ÐÑ][\u0080-\u00bf]){2}"
_TAGS = "br|p|b|i|u|div|span|a|font|td|tr"
_PATTERNS = {
    "mojibake": re.compile(f"[ÃÂ][{_MISREAD}]|â[€‚„][{_MISREAD}]|{_CYRILLIC_MISREAD}"),
    "markup": re.compile(rf"&(?:amp|quot|lt|gt|nbsp|apos|#\d+|#x[0-9a-fA-F]+);|</?(?:{_TAGS})\b[^<>]*>"),
    "replacement": re.compile("\ufffd"),
}
_LEADS = re.compile("[ÃÂâÐÑ&<\ufffd]")  # a line without any of these, and printable, has no trouble at all
_INVISIBLE = "\u200b\u2060\ufeff\u00ad"  # zero-width space, word joiner, byte order mark, soft hyphen
_LINE_ENDS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"

KINDS = {
    "control": "control characters",
    "line_end": "line ends inside a line",
    "private_use": "private-use characters",
    "invisible": "invisible characters",
    "replacement": "the replacement character U+FFFD",
    "mojibake": "mojibake, UTF-8 that was read as another encoding",
    "markup": "HTML entities or tags",
}
"""What each kind of trouble is called."""


class OddLine(NamedTuple):
    """A line with such characters."""

    number: int  # its position
    kinds: tuple[str, ...]  # keys of KINDS


def find_odd_characters(lines: Iterable[str]) -> list[OddLine]:
    """The lines with characters that should not be there. A tab is a space."""
    found = []
    for number, line in enumerate(lines):
        if line.isprintable() and not (_may_be_odd_ascii(line) if line.isascii() else _LEADS.search(line)):
            continue
        if kinds := kinds_of_trouble(line):
            found.append(OddLine(number, kinds))
    return found


def _may_be_odd_ascii(line: str) -> bool:
    """Whether a printable line may have markup; two searches for a character are faster than one for a set."""
    return "&" in line or "<" in line


def kinds_of_trouble(line: str) -> tuple[str, ...]:
    """Which kinds of odd characters a line has, as keys of KINDS."""
    kinds = {name for name, pattern in _PATTERNS.items() if pattern.search(line)}
    if not line.isprintable():
        for character in set(line):
            if character in _LINE_ENDS:
                kinds.add("line_end")
            elif character in _INVISIBLE:
                kinds.add("invisible")
            elif (category := unicodedata.category(character)) == "Co":
                kinds.add("private_use")
            elif category in {"Cc", "Cs"} and character != "\t":
                kinds.add("control")
    return tuple(name for name in KINDS if name in kinds)


def lines_by_kind(found: Iterable[OddLine]) -> dict[str, NDArray[np.int64]]:
    """Positions of the lines of each kind of trouble; kinds without any are left out."""
    numbers: dict[str, list[int]] = {kind: [] for kind in KINDS}
    for line in found:
        for kind in line.kinds:
            numbers[kind].append(line.number)
    return {kind: np.array(each, dtype=np.int64) for kind, each in numbers.items() if each}
