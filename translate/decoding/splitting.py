"""Sources that the model should not get whole: refused, cut, or translated in pieces that are joined again.

A source of several sentences may be translated sentence by sentence. One with too many tokens is split at the ends of
sentences first, and within a word only as the last resort. Each level divides the parts that are still too long after
the level before. No character is lost or doubled: the pieces, joined, are the line. A sentence stays alone, because
models are trained on sentences, but very short ones ("Yes! Why?") join the next of a source that is too long. Smaller
units are packed into as few pieces as possible, all of about the same length.
"""

import functools
import itertools
import math
import re
from collections.abc import Callable, Sequence
from typing import Literal

import torch

from translate.config.decoding import DecodingConfig
from translate.config.languages import UNKNOWN
from translate.data.tokenizer import Tokenizer
from translate.decoding.ranking import unmet_phrases
from translate.decoding.request import Request, merge_phrases
from translate.decoding.sentences import CLOSING, ENDS, WIDE_ENDS, split_sentences
from translate.decoding.translation import Translation
from translate.errors import InputError

CountTokens = Callable[[Sequence[str]], list[int]]  # the number of tokens of each text

_CLAUSE_ENDS = re.compile(rf"(?<=[{ENDS}:;؛]){CLOSING}\s+|(?<=[{WIDE_ENDS}：；])(?![{WIDE_ENDS}：；]){CLOSING}\s*")
_COMMAS = re.compile(rf"(?<=[,،–—]){CLOSING}\s+|(?<=[，、])")
_SPACES = re.compile(r"\s+")

_SHORT_SENTENCE = 8.0  # tokens; a shorter sentence joins the next


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


def split_source(
    request: Request, ids: list[int], tokenizer: Tokenizer, *, limit: int | None, by_sentence: bool, language: str
) -> list[tuple[str, list[int]]]:
    """The pieces of a source with their token ids; most sources are a single piece.

    Args:
        limit: The most tokens of a piece; None: pieces may be of any length.
        by_sentence: Each sentence is a piece, in a source within the limit too, unless a constraint may be about
            several: a prefix of several sentences, a required phrase, or a term that spans the end of a sentence.
        language: Of the source.
    """

    def encode(texts: Sequence[str]) -> list[list[int]]:
        return tokenizer.encode_lines([text.strip() for text in texts], num_threads=torch.get_num_threads())

    def count(texts: Sequence[str]) -> list[int]:
        return [len(ids) for ids in encode(texts)]

    source, terminology = request.source, request.terminology
    tag_ids, rest = tokenizer.split_tag(source)  # each piece needs the language token
    rest = rest.lstrip() if tag_ids else rest
    parts = split_sentences(rest, language) if by_sentence else [rest]
    if request.required or len(split_sentences(request.prefix)) > 1:
        parts = [rest]
    elif terminology and len(parts) > 1:
        terms = [term for part in parts for term in terminology.matches(part)]
        parts = parts if terms == terminology.matches(rest) else [rest]
    if limit is not None and len(ids) > limit:
        most = max(1, limit - len(tag_ids))
        parts = split_text(parts, max_tokens=most, count_tokens=count, language=language)
    if len(parts) == 1:
        return [(source, ids)]
    tag = source.removesuffix(rest)
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


def split_text(
    parts: Sequence[str], *, max_tokens: int, count_tokens: CountTokens, language: str = UNKNOWN
) -> list[str]:
    """The parts of a text as pieces of at most `max_tokens` tokens each, in order; joined they are the text.

    A single character with more tokens than that is still a piece.

    Args:
        count_tokens: Counts the tokens of separate texts, without end symbols. It is called with the parts, their
            sentences and their words, and otherwise with no text much longer than a piece.
    """
    pieces, within = list(parts), [functools.partial(_split, ends=ends) for ends in (_CLAUSE_ENDS, _COMMAS, _SPACES)]
    for divide in (functools.partial(split_sentences, language=language), *within, None):
        divided: list[str] = []
        for piece, size in zip(pieces, count_tokens(pieces), strict=True):
            if size <= max_tokens:
                divided.append(piece)
            elif divide:
                enough = None if divide in within else _SHORT_SENTENCE
                divided += _join_short(divide(piece), max_tokens, count_tokens, enough)
            else:
                divided += _cut(piece, max_tokens, count_tokens)
        pieces = divided
    return pieces


def _split(text: str, ends: re.Pattern[str]) -> list[str]:
    bounds = [0, *(end.end() for end in ends.finditer(text) if 0 < end.end() < len(text)), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(bounds)]


def _join_short(units: Sequence[str], max_tokens: int, count_tokens: CountTokens, enough: float | None) -> list[str]:
    """Parts of a text; neighbours that are short enough are joined again.

    Args:
        enough: The tokens of a part that is not short; None: as many as make all results about equally long.
    """
    sizes = count_tokens(units)
    enough = enough or sum(sizes) / max(1, math.ceil(sum(sizes) / max_tokens))
    pieces = [""]
    total = 0
    for unit, size in zip(units, sizes, strict=True):
        if pieces[-1] and (total >= enough or total + size > max_tokens):
            pieces.append("")
            total = 0
        pieces[-1] += unit
        total += size
    return pieces


def _cut(text: str, max_tokens: int, count_tokens: CountTokens) -> list[str]:
    """A text halved until its parts fit or are single characters."""
    if len(text) == 1 or count_tokens([text])[0] <= max_tokens:
        return [text]
    middle = len(text) // 2
    return [piece for half in (text[:middle], text[middle:]) for piece in _cut(half, max_tokens, count_tokens)]
