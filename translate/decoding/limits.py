"""What a model should be given at most: longer sources are refused, cut, or translated in pieces, put together again.

And what to lower where even that needs more memory than there is.
"""

import contextlib
from collections.abc import Sequence
from typing import Literal, NamedTuple

from translate.config import DecodingConfig
from translate.data.batching import EncodedPair
from translate.data.tokenizer import Tokenizer
from translate.decoding.output.splitting import split_text
from translate.decoding.request import Translation
from translate.errors import InputError
from translate.model.device import explain_out_of_memory


class Piece(NamedTuple):
    """A source, or a part of one that was split."""

    source: str
    source_ids: list[int]  # without special symbols
    is_cut: bool  # tokens behind the limit were left out


class Limit(NamedTuple):
    """The most tokens of a text, without its end symbol."""

    tokens: int
    reason: str  # the key that says so


def find_limit(side: Literal["source", "target"], config: DecodingConfig, *, max_positions: int | None) -> Limit | None:
    """The limit of a side; None: there is none.

    Args:
        max_positions: Those that the model has; the end symbol takes one.
    """
    key = f"max_{side}_tokens"
    wanted: int | None = getattr(config, key)
    if max_positions is not None and (wanted is None or wanted >= max_positions):
        return Limit(max_positions - 1, f"model.max_positions = {max_positions}, one of them for the end symbol")
    return None if wanted is None else Limit(wanted, f"decoding.{key}")


def fit_ids(ids: list[int], limit: Limit | None, *, what: str, is_error: bool) -> list[int]:
    """As many tokens as the limit allows.

    Args:
        what: What errors call the text.

    Raises:
        InputError: There are more, and that is an error.
    """
    if limit is None or len(ids) <= limit.tokens:
        return ids
    if is_error:
        raise InputError(
            f"{what} has {len(ids)} tokens, and the limit is {limit.tokens} ({limit.reason}): shorten it, or let it be"
            " cut or split with --long truncate or split (decoding.long)"
        )
    return ids[: limit.tokens]


class FittedPair(NamedTuple):
    """A pair to be scored."""

    pair: EncodedPair
    flags: frozenset[str]  # source_truncated, target_truncated


def fit_pair(
    pair: EncodedPair, source_limit: Limit | None, target_limit: Limit | None, *, number: int, is_error: bool
) -> FittedPair:
    """A source and its translation, each cut to its limit: as one is given, the other cannot be split.

    Args:
        number: Of the line, from 0.

    Raises:
        InputError: One is too long, and that is an error.
    """
    fitted = EncodedPair(
        fit_ids(pair.source, source_limit, what=f"line {number + 1}: the source", is_error=is_error),
        fit_ids(pair.target, target_limit, what=f"line {number + 1}: the translation", is_error=is_error),
    )
    is_cut = {
        "source_truncated": len(fitted.source) < len(pair.source),
        "target_truncated": len(fitted.target) < len(pair.target),
    }
    return FittedPair(fitted, frozenset(flag for flag, is_so in is_cut.items() if is_so))


def fit_sources(
    sources: Sequence[str],
    tokenizer: Tokenizer,
    limit: Limit | None,
    *,
    long: Literal["error", "truncate", "split"],
    first_number: int,
    num_threads: int,
) -> list[list[Piece]]:
    """The pieces of each source: itself, unless it is too long.

    Args:
        first_number: Of the first source among all lines, from 0.

    Raises:
        InputError: One is too long, and that was to be an error.
    """

    def encode(texts: Sequence[str]) -> list[list[int]]:
        return tokenizer.encode_lines([text.strip() for text in texts], num_threads=num_threads)

    def count_tokens(texts: Sequence[str]) -> list[int]:
        return [len(ids) for ids in encode(texts)]

    fitted = []
    encoded = tokenizer.encode_lines(sources, num_threads=num_threads)
    for number, (source, ids) in enumerate(zip(sources, encoded, strict=True), start=first_number + 1):
        if limit is None or len(ids) <= limit.tokens:
            fitted.append([Piece(source, ids, is_cut=False)])
            continue
        if long != "split":
            kept = fit_ids(ids, limit, what=f"line {number}", is_error=long == "error")
            fitted.append([Piece(source, kept, is_cut=True)])
            continue
        texts = split_text(source, max_tokens=limit.tokens, count_tokens=count_tokens)
        fitted.append(
            [
                Piece(text, text_ids[: limit.tokens], is_cut=len(text_ids) > limit.tokens)
                for text, text_ids in zip(texts, encode(texts), strict=True)
            ]
        )
    return fitted


def search_memory_told(
    config: DecodingConfig, *, num_texts: int, longest: int
) -> contextlib.AbstractContextManager[None]:
    """A context of a search, in which memory that is refused becomes the error that names what to lower.

    Args:
        longest: The most tokens of a text, the end symbol included.
    """
    return explain_out_of_memory(
        f"the search for the translations of {num_texts} texts of up to {longest} tokens",
        hint=f"Lower decoding.batch_tokens (now {config.batch_tokens}), decoding.beam_size (now {config.beam_size}) or"
        " decoding.max_source_tokens (--max-source-tokens).",
    )


def join_translations(source: str, pieces: Sequence[Translation]) -> Translation:
    """The translation of a line that was split: texts joined by a space, log-probabilities and scores added up.

    The n-th best is that of the pieces' n-th best; a piece that has fewer gives its last.
    """
    if len(pieces) == 1:
        return pieces[0]
    entries = [(piece, *piece.alternatives) for piece in pieces]
    best, *others = (
        _joined(source, [listed[min(rank, len(listed) - 1)] for listed in entries])
        for rank in range(max(map(len, entries)))
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
