"""Characters that do not belong in a sentence: what broken conversions, web pages and bad encodings leave behind."""

import re
import unicodedata
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

# What UTF-8 becomes when it is read as Latin-1 or Windows-1252: a letter's two or three bytes as as many characters.
# Only lead bytes whose other reading does not occur in text: "Spaß“" is also the bytes of a letter, and is left alone.
_MISREAD = "".join(bytes([byte]).decode("cp1252", "ignore") for byte in range(0x80, 0xC0)) + "\x81\x8d\x8f\x90\x9d"
_CYRILLIC_MISREAD = "(?:[ÐÑ][\u0080-\u00bf]){2}"
_TAGS = "br|p|b|i|u|div|span|a|font|td|tr"
_PATTERNS = {
    "mojibake": re.compile(f"[ÃÂ][{_MISREAD}]|â[€‚„][{_MISREAD}]|{_CYRILLIC_MISREAD}"),
    "markup": re.compile(rf"&(?:amp|quot|lt|gt|nbsp|apos|#\d+|#x[0-9a-fA-F]+);|</?(?:{_TAGS})\b[^<>]*>"),
    "replacement": re.compile("\ufffd"),
}
_LEADS = re.compile("[ÃÂâÐÑ&<\ufffd]")  # a printable line without any of these has no odd character
_INVISIBLE = "\u200b\u2060\ufeff\u00ad"  # zero-width space, word joiner, byte order mark, soft hyphen
_LINE_ENDS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"

ODD_KINDS = ("control", "line_end", "private_use", "invisible", "replacement", "mojibake", "markup")


def find_odd_characters(lines: Iterable[str]) -> dict[str, NDArray[np.int64]]:
    """Positions of the lines with odd characters of each kind; kinds without any are left out."""
    found: dict[str, list[int]] = {kind: [] for kind in ODD_KINDS}
    for number, line in enumerate(lines):
        if line.isprintable():
            # For ASCII, two searches for one character are faster than one search for a set.
            may_be_odd = "&" in line or "<" in line if line.isascii() else _LEADS.search(line)
            if not may_be_odd:
                continue
        for kind in odd_kinds(line):
            found[kind].append(number)
    return {kind: np.array(numbers, dtype=np.int64) for kind, numbers in found.items() if numbers}


def odd_kinds(line: str) -> tuple[str, ...]:
    """The kinds of odd characters in a line; a tab counts as a space."""
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
    return tuple(name for name in ODD_KINDS if name in kinds)
