"""A line that is too long for a model, in pieces: at the ends of sentences first, and within a word only at last.

No character is lost or doubled: the pieces, put together, are the line. Each level divides what the one before has
left too long. A sentence stays alone, as models are trained on sentences, but very short ones ("Yes! Why?") do not;
what is smaller is packed into as few pieces as there must be, of about the same length.
"""

import math
import re
import unicodedata
from collections.abc import Callable, Sequence

CountTokens = Callable[[Sequence[str]], list[int]]
"""The number of tokens of each text."""

_CLOSING = r"""["'»«”“’‘›‹)\]}」』）]*"""
_SENTENCE_ENDS = re.compile(rf"(?<=[.!?…؟۔։።]){_CLOSING}\s+|(?<=[。！？｡।॥])(?![。！？｡।॥]){_CLOSING}\s*")
_CLAUSE_ENDS = re.compile(rf"(?<=[.!?…؟۔։።:;؛]){_CLOSING}\s+|(?<=[。！？｡।॥：；])(?![。！？｡।॥：；]){_CLOSING}\s*")
_COMMAS = re.compile(rf"(?<=[,،–—]){_CLOSING}\s+|(?<=[，、])")
_SPACES = re.compile(r"\s+")

_SHORT_SENTENCE = 8  # tokens; with fewer it goes together with the next
_ZERO_WIDTH_JOINER = "\u200d"
_MOST_MARKS = 32  # that are kept with the letter before them


def split_text(text: str, *, max_tokens: int, count_tokens: CountTokens) -> list[str]:
    """Pieces of a text of at most `max_tokens` tokens each, in order; joined they are the text.

    A single character that has more tokens than that is a piece all the same.

    Args:
        count_tokens: Of a text by itself, without end symbol. It is asked for no text much longer than a piece, but
            for the whole, its sentences and its words.
    """
    pieces = [text]
    for divide in (_sentences, _packed_by(_CLAUSE_ENDS), _packed_by(_COMMAS), _packed_by(_SPACES), _cut):
        sizes = count_tokens(pieces)
        if max(sizes) <= max_tokens:
            break
        pieces = [
            part
            for piece, size in zip(pieces, sizes, strict=True)
            for part in ([piece] if size <= max_tokens else divide(piece, max_tokens, count_tokens))
        ]
    return pieces


def _sentences(text: str, max_tokens: int, count_tokens: CountTokens) -> list[str]:
    sentences = _divided(text, [end.end() for end in _SENTENCE_ENDS.finditer(text) if _ends_sentence(text, end)])
    return _packed(sentences, count_tokens(sentences), aim=_SHORT_SENTENCE, max_tokens=max_tokens)


def _ends_sentence(text: str, end: re.Match[str]) -> bool:
    """No sentence ends before a small letter ("usw. und"), nor at the dot of a number or of one letter ("3. Mai")."""
    if text[end.end() : end.end() + 1].islower():
        return False
    mark = end.start() - 1
    if text[mark] != "." or mark == 0:
        return True
    is_one_letter = text[mark - 1].isalpha() and (mark == 1 or not text[mark - 2].isalnum())
    return not (text[mark - 1].isdigit() or is_one_letter)


def _packed_by(ends: re.Pattern[str]) -> Callable[[str, int, CountTokens], list[str]]:
    """What divides a text at these ends, and puts neighbours together again as far as they fit."""

    def divide(text: str, max_tokens: int, count_tokens: CountTokens) -> list[str]:
        units = _divided(text, [end.end() for end in ends.finditer(text)])
        sizes = count_tokens(units)
        even = sum(sizes) / max(1, math.ceil(sum(sizes) / max_tokens))
        return _packed(units, sizes, aim=even, max_tokens=max_tokens)

    return divide


def _packed(units: Sequence[str], sizes: Sequence[int], *, aim: float | int, max_tokens: int) -> list[str]:
    """Neighbours put together until they have as many tokens as is aimed at."""
    pieces: list[str] = []
    total = 0
    for unit, size in zip(units, sizes, strict=True):
        if not pieces or total >= aim or total + size > max_tokens:
            pieces.append(unit)
            total = size
        else:
            pieces[-1] += unit
            total += size
    return pieces


def _divided(text: str, ends: Sequence[int]) -> list[str]:
    bounds = [0, *(end for end in ends if 0 < end < len(text)), len(text)]
    return [text[start:end] for start, end in zip(bounds, bounds[1:], strict=False)]


def _cut(text: str, max_tokens: int, count_tokens: CountTokens) -> list[str]:
    """As many characters as fit, again and again, and marks with the character that they belong to."""
    pieces = []
    start = 0
    while start < len(text):
        length = _fitting_length(text, start, max_tokens, count_tokens)
        end = _before_marks(text, start, start + length)
        pieces.append(text[start:end])
        start = end
    return pieces


def _fitting_length(text: str, start: int, max_tokens: int, count_tokens: CountTokens) -> int:
    """How many characters from `start` on are a piece: at least one."""

    def fits(length: int) -> bool:
        return count_tokens([text[start : start + length]])[0] <= max_tokens

    rest = len(text) - start
    fitting, excessive = 1, 2
    while excessive < rest and fits(excessive):
        fitting, excessive = excessive, 2 * excessive
    if excessive >= rest:
        if fits(rest):
            return rest
        excessive = rest
    while excessive - fitting > 1:
        middle = (fitting + excessive) // 2
        if fits(middle):
            fitting = middle
        else:
            excessive = middle
    return fitting


def _before_marks(text: str, start: int, end: int) -> int:
    """An end not in the middle of what is seen as one character, if there is such a place shortly before."""
    for place in range(end, max(start, end - _MOST_MARKS), -1):
        if place == len(text) or not _belongs_together(text[place - 1], text[place]):
            return place
    return end


def _belongs_together(first: str, second: str) -> bool:
    is_mark = unicodedata.category(second).startswith("M") or "\U0001f3fb" <= second <= "\U0001f3ff"
    return is_mark or _ZERO_WIDTH_JOINER in (first, second)
