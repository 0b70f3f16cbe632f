"""Sources with more tokens than the model should get: refused, cut, or translated in pieces that are joined again.

A line is split at the ends of sentences first, and within a word only as the last resort. Each level divides the parts
that are still too long after the level before. No character is lost or doubled: the pieces, joined, are the line. A
sentence stays alone, because models are trained on sentences, but very short ones ("Yes! Why?") join the next. Smaller
units are packed into as few pieces as possible, all of about the same length.
"""

import itertools
import math
import re
from collections.abc import Callable, Sequence
from typing import Literal

import torch

from translate.config.decoding import DecodingConfig
from translate.data.tokenizer import Tokenizer
from translate.decoding.ranking import unmet_phrases
from translate.decoding.request import Request, merge_phrases
from translate.decoding.translation import Translation
from translate.errors import InputError

CountTokens = Callable[[Sequence[str]], list[int]]  # the number of tokens of each text

_CLOSING = r"""["'»«”“’‘›‹)\]}」』）]*"""
_ENDS, _WIDE_ENDS = ".!?…؟۔։።", "。！？｡।॥"  # no space need follow the second
_SENTENCE_ENDS = re.compile(rf"(?<=[{_ENDS}]){_CLOSING}\s+|(?<=[{_WIDE_ENDS}])(?![{_WIDE_ENDS}]){_CLOSING}\s*")
_CLAUSE_ENDS = re.compile(rf"(?<=[{_ENDS}:;؛]){_CLOSING}\s+|(?<=[{_WIDE_ENDS}：；])(?![{_WIDE_ENDS}：；]){_CLOSING}\s*")
_COMMAS = re.compile(rf"(?<=[,،–—]){_CLOSING}\s+|(?<=[，、])")
_SPACES = re.compile(r"\s+")
_ABBREVIATIONS = re.compile(r"\b(?:Dr|Prof|Hr|Fr|St|Nr|No|Mr|Mrs|Ms|Abb|Abs|Art|Bd|Str|bzw|ca|vgl|evtl|ggf|inkl|sog)$")
_ORDINAL = re.compile(r"(?<!\d)\d{1,3}$")  # more digits are a year or an amount

_SHORT_SENTENCE = 8  # tokens; a shorter sentence joins the next


def truncate_ids(
    ids: list[int], limit: int | None, config: DecodingConfig, *, side: Literal["source", "target"], line: int
) -> list[int]:
    """The first tokens of a text, as many as the limit allows; `line` is its number in the whole input, from 0.

    Raises:
        InputError: There are more tokens, and decoding.long = error.
    """
    if limit is not None and len(ids) > limit and config.long == "error":
        raise InputError(
            f"line {line + 1}: the {side} has {len(ids)} tokens, and the limit is {limit} (decoding.max_{side}_tokens"
            " or the positions of the model): shorten it, or let it be cut or split with --long truncate or split"
        )
    return ids[:limit]


def split_source(source: str, ids: list[int], tokenizer: Tokenizer, *, limit: int) -> list[tuple[str, list[int]]]:
    """The pieces of a source with their token ids; a source within the limit is a single piece."""

    def encode(texts: Sequence[str]) -> list[list[int]]:
        return tokenizer.encode_lines([text.strip() for text in texts], num_threads=torch.get_num_threads())

    if len(ids) <= limit:
        return [(source, ids)]
    tag_ids, rest = tokenizer.split_tag(source)  # each piece needs the language token
    rest = rest.lstrip() if tag_ids else rest
    tag, max_tokens = source.removesuffix(rest), max(1, limit - len(tag_ids))
    parts = split_text(rest, max_tokens=max_tokens, count_tokens=lambda texts: list(map(len, encode(texts))))
    texts = [tag + part for part in parts]
    return list(zip(texts, encode(texts), strict=True))


def join_translations(request: Request, pieces: Sequence[Translation], target: Tokenizer) -> Translation:
    """The translation of a line that was split: texts joined by spaces, log-probabilities and scores summed.

    The n-th best translation joins the n-th best of each piece; a piece that has fewer gives its last. The pieces were
    searched without the required phrases, which may lie in any of them, and without terms that two of them share.
    """
    if len(pieces) == 1:
        return pieces[0]
    terms = request.terminology.matches(request.source) if request.terminology else ()
    phrases = merge_phrases(request.required, terms)
    n_best_lists = [(piece, *piece.alternatives) for piece in pieces]
    joined = []
    for rank in range(max(map(len, n_best_lists))):
        parts = [n_best[min(rank, len(n_best) - 1)] for n_best in n_best_lists]
        ids = [token for part in parts for token in part.ids]
        joined.append(
            Translation(
                source=request.source,
                text=" ".join(part.text for part in parts if part.text),
                ids=ids,
                log_prob=sum(part.log_prob for part in parts),
                score=sum(part.score for part in parts),
                truncated=any(part.truncated for part in parts),
                source_truncated=any(part.source_truncated for part in parts),
                token_log_probs=[log_prob for part in parts for log_prob in part.token_log_probs],
                source_ids=[token for part in parts for token in part.source_ids],
                unmet=unmet_phrases(ids, phrases, target),
                tokens=[token for part in parts for token in part.tokens],
                source_tokens=[token for part in parts for token in part.source_tokens],
                direction=parts[0].direction,
                tagged=any(part.tagged for part in parts),
                pieces=tuple(part._replace(alternatives=()) for part in parts),
            )
        )
    return joined[0]._replace(alternatives=tuple(joined[1:]))


def split_text(text: str, *, max_tokens: int, count_tokens: CountTokens) -> list[str]:
    """Pieces of a text of at most `max_tokens` tokens each, in order; joined they are the text.

    A single character with more tokens than that is still a piece.

    Args:
        count_tokens: Counts the tokens of separate texts, without end symbols. It is called with the whole text,
            its sentences and its words, and otherwise with no text much longer than a piece.
    """
    pieces = [text]
    for ends in (_SENTENCE_ENDS, _CLAUSE_ENDS, _COMMAS, _SPACES, None):
        divided: list[str] = []
        for piece, size in zip(pieces, count_tokens(pieces), strict=True):
            if size <= max_tokens:
                divided.append(piece)
            elif ends:
                divided += _divide(piece, ends, max_tokens, count_tokens)
            else:
                divided += _cut(piece, max_tokens, count_tokens)
        pieces = divided
    return pieces


def is_sentence(text: str) -> bool:
    """Whether a text ends as a sentence does, unlike a title."""
    return bool(re.search(rf"[{_ENDS}{_WIDE_ENDS}]\W*$", text[-20:]))


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, each with the spaces after it; joined they are the text."""
    return _split(text, _SENTENCE_ENDS)


def _split(text: str, ends: re.Pattern[str]) -> list[str]:
    found = [end for end in ends.finditer(text) if ends is not _SENTENCE_ENDS or _ends_sentence(text, end)]
    bounds = [0, *(end.end() for end in found if 0 < end.end() < len(text)), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(bounds)]


def _divide(text: str, ends: re.Pattern[str], max_tokens: int, count_tokens: CountTokens) -> list[str]:
    """A text divided at these ends; neighbours that are short enough are joined again."""
    units = _split(text, ends)
    sizes = count_tokens(units)
    even = sum(sizes) / max(1, math.ceil(sum(sizes) / max_tokens))
    enough = _SHORT_SENTENCE if ends is _SENTENCE_ENDS else even
    pieces = [""]
    total = 0
    for unit, size in zip(units, sizes, strict=True):
        if pieces[-1] and (total >= enough or total + size > max_tokens):
            pieces.append("")
            total = 0
        pieces[-1] += unit
        total += size
    return pieces


def _ends_sentence(text: str, end: re.Match[str]) -> bool:
    """Whether a sentence ends here, after a mark that may end one.

    None ends before a lower-case letter ("usw. und"), at the dot of an ordinal ("3. Mai") or of a single letter, or
    after a title or another abbreviation that precedes names and numbers ("Dr. Weber").
    """
    if text[end.end() : end.end() + 1].islower():
        return False
    mark = end.start() - 1
    if text[mark] != "." or mark == 0:
        return True
    if _ABBREVIATIONS.search(text, max(0, mark - 8), mark):
        return False
    is_one_letter = text[mark - 1].isalpha() and (mark == 1 or not text[mark - 2].isalnum())
    return not (is_one_letter or _ORDINAL.search(text, max(0, mark - 4), mark))


def _cut(text: str, max_tokens: int, count_tokens: CountTokens) -> list[str]:
    """A text halved until its parts fit or are single characters."""
    if len(text) == 1 or count_tokens([text])[0] <= max_tokens:
        return [text]
    middle = len(text) // 2
    return [piece for half in (text[:middle], text[middle:]) for piece in _cut(half, max_tokens, count_tokens)]
