"""Sources that have more tokens than the model should get: refused, cut, or translated in pieces that are joined again.

A line is split at the ends of sentences first, and within a word only as the last resort. Each level divides what the
level before has left too long. No character is lost or doubled: the pieces, joined, are the line. A sentence stays
alone, because models are trained on sentences, but very short ones ("Yes! Why?") join the next. Smaller units are
packed into as few pieces as possible, all of about the same length.
"""

import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from translate.config import DecodingConfig
from translate.data.batching import EncodedPair
from translate.data.tokenizer import Tokenizer
from translate.decoding.request import SearchInput, Translation
from translate.errors import InputError

CountTokens = Callable[[Sequence[str]], list[int]]
"""Gives the number of tokens of each text."""

_CLOSING = r"""["'»«”“’‘›‹)\]}」』）]*"""
_SENTENCE_ENDS = re.compile(rf"(?<=[.!?…؟۔։።]){_CLOSING}\s+|(?<=[。！？｡।॥])(?![。！？｡।॥]){_CLOSING}\s*")
_CLAUSE_ENDS = re.compile(rf"(?<=[.!?…؟۔։።:;؛]){_CLOSING}\s+|(?<=[。！？｡।॥：；])(?![。！？｡।॥：；]){_CLOSING}\s*")
_COMMAS = re.compile(rf"(?<=[,،–—]){_CLOSING}\s+|(?<=[，、])")
_SPACES = re.compile(r"\s+")

_SHORT_SENTENCE = 8  # tokens; a shorter sentence joins the next
_ZERO_WIDTH_JOINER = "\u200d"
_MAX_MARKS = 32  # combining marks that stay with the letter before them


class Limit(NamedTuple):
    """The most tokens of a text, without its end symbol."""

    tokens: int
    reason: str  # the config key that sets the limit


def find_limit(side: Literal["source", "target"], config: DecodingConfig, *, max_positions: int | None) -> Limit | None:
    """The limit of the source or the target; None if there is no limit.

    Args:
        max_positions: Positions that the model has; the end symbol takes one of them.
    """
    key = f"max_{side}_tokens"
    wanted: int | None = getattr(config, key)
    if max_positions is not None and (wanted is None or wanted >= max_positions):
        return Limit(max_positions - 1, f"model.max_positions = {max_positions}, one of them for the end symbol")
    return None if wanted is None else Limit(wanted, f"decoding.{key}")


def truncate_ids(ids: list[int], limit: Limit | None, *, what: str, long: str) -> list[int]:
    """The first tokens of a text, as many as the limit allows.

    Args:
        what: The name of the text in errors.
        long: The value of `decoding.long`.

    Raises:
        InputError: There are more tokens, and `long` is "error".
    """
    if limit is None or len(ids) <= limit.tokens:
        return ids
    if long == "error":
        raise InputError(
            f"{what} has {len(ids)} tokens, and the limit is {limit.tokens} ({limit.reason}): shorten it, or let it be"
            " cut or split with --long truncate or split (decoding.long)"
        )
    return ids[: limit.tokens]


def truncate_pair(
    pair: EncodedPair, source_limit: Limit | None, target_limit: Limit | None, *, number: int, long: str
) -> tuple[EncodedPair, frozenset[str]]:
    """A source and its given translation, each cut to its limit, and the flags of what was cut.

    Neither side is ever split: nobody knows which parts of the other side would belong to the pieces.

    Args:
        number: The number of the line, from 0.

    Raises:
        InputError: A side is too long, and `long` is "error".
    """
    source = truncate_ids(pair.source, source_limit, what=f"line {number + 1}: the source", long=long)
    target = truncate_ids(pair.target, target_limit, what=f"line {number + 1}: the translation", long=long)
    is_cut = {
        "source_truncated": len(source) < len(pair.source),
        "target_truncated": len(target) < len(pair.target),
    }
    return EncodedPair(source, target), frozenset(flag for flag, is_set in is_cut.items() if is_set)


def fit_sources(
    sources: Sequence[str],
    tokenizer: Tokenizer,
    limit: Limit | None,
    *,
    long: Literal["error", "truncate", "split"],
    first_number: int,
    num_threads: int,
) -> list[list[SearchInput]]:
    """The search inputs of each source: the whole line, or the pieces of one that is too long.

    Args:
        first_number: The number of the first source in the whole input, from 0.

    Raises:
        InputError: A source is too long, and `long` is "error".
    """

    def encode(texts: Sequence[str]) -> list[list[int]]:
        return tokenizer.encode_lines([text.strip() for text in texts], num_threads=num_threads)

    def count_tokens(texts: Sequence[str]) -> list[int]:
        return [len(ids) for ids in encode(texts)]

    inputs = []
    encoded = tokenizer.encode_lines(sources, num_threads=num_threads)
    for line, (source, ids) in enumerate(zip(sources, encoded, strict=True), start=first_number):
        if limit is None or len(ids) <= limit.tokens or long != "split":
            kept = truncate_ids(ids, limit, what=f"line {line + 1}", long=long)
            inputs.append([SearchInput(line, 0, source, kept, source_truncated=len(kept) < len(ids))])
            continue
        texts = split_text(source, max_tokens=limit.tokens, count_tokens=count_tokens)
        inputs.append(
            [
                SearchInput(line, piece, text, text_ids[: limit.tokens], source_truncated=len(text_ids) > limit.tokens)
                for piece, (text, text_ids) in enumerate(zip(texts, encode(texts), strict=True))
            ]
        )
    return inputs


def join_translations(source: str, pieces: Sequence[Translation]) -> Translation:
    """The translation of a line that was split: texts joined by spaces, log-probabilities and scores summed.

    The n-th best translation joins the n-th best of each piece; a piece that has fewer gives its last.
    """
    if len(pieces) == 1:
        return pieces[0]
    n_best_lists = [(piece, *piece.alternatives) for piece in pieces]
    best, *others = (
        _joined(source, [n_best[min(rank, len(n_best) - 1)] for n_best in n_best_lists])
        for rank in range(max(map(len, n_best_lists)))
    )
    return best._replace(alternatives=tuple(others))


def _joined(source: str, pieces: Sequence[Translation]) -> Translation:
    return Translation(
        source=source,
        text=" ".join(piece.text for piece in pieces if piece.text),
        ids=[token for piece in pieces for token in piece.ids],
        log_prob=sum(piece.log_prob for piece in pieces),
        score=sum(piece.score for piece in pieces),
        truncated=any(piece.truncated for piece in pieces),
        source_truncated=any(piece.source_truncated for piece in pieces),
        token_log_probs=[log_prob for piece in pieces for log_prob in piece.token_log_probs],
        source_ids=[token for piece in pieces for token in piece.source_ids],
        unmet=tuple(phrase for piece in pieces for phrase in piece.unmet),
        pieces=tuple(piece._replace(alternatives=()) for piece in pieces),
    )


def split_text(text: str, *, max_tokens: int, count_tokens: CountTokens) -> list[str]:
    """Pieces of a text of at most `max_tokens` tokens each, in order; joined they are the text.

    A single character that has more tokens than that is a piece all the same.

    Args:
        count_tokens: Counts the tokens of texts by themselves, without end symbol. It is called with the whole text,
            its sentences and its words, and otherwise with no text much longer than a piece.
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
    """A function that divides a text at these ends, and joins neighbours again as far as they fit."""

    def divide(text: str, max_tokens: int, count_tokens: CountTokens) -> list[str]:
        units = _divided(text, [end.end() for end in ends.finditer(text)])
        sizes = count_tokens(units)
        even = sum(sizes) / max(1, math.ceil(sum(sizes) / max_tokens))
        return _packed(units, sizes, aim=even, max_tokens=max_tokens)

    return divide


def _packed(units: Sequence[str], sizes: Sequence[int], *, aim: float | int, max_tokens: int) -> list[str]:
    """Neighbours joined until each piece has about `aim` tokens."""
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
    """Pieces with as many characters as fit; combining marks stay with their character."""
    pieces = []
    start = 0
    while start < len(text):
        length = _fitting_length(text, start, max_tokens, count_tokens)
        end = _before_marks(text, start, start + length)
        pieces.append(text[start:end])
        start = end
    return pieces


def _fitting_length(text: str, start: int, max_tokens: int, count_tokens: CountTokens) -> int:
    """The number of characters from `start` on that fit into one piece: at least one."""

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
    """The nearest place up to `end` that divides no visible character, if there is one shortly before."""
    for place in range(end, max(start, end - _MAX_MARKS), -1):
        if place == len(text) or not _belongs_together(text[place - 1], text[place]):
            return place
    return end


def _belongs_together(first: str, second: str) -> bool:
    is_mark = unicodedata.category(second).startswith("M") or "\U0001f3fb" <= second <= "\U0001f3ff"
    return is_mark or _ZERO_WIDTH_JOINER in (first, second)
