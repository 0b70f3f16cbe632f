"""A vocabulary that grows for other text: entries behind those that it has, which all stay as they are.

Text without a new entry is segmented as before, because a new entry can only match what it spells.
"""

import logging
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from translate.config.data import TokenizerConfig
from translate.data.tokenizer import Tokenizer, Tokenizers
from translate.errors import InputError

logger = logging.getLogger(__name__)

_NORMAL, _USER_DEFINED = 1, 4  # types of pieces in sentencepiece_model.proto
_LINES_AT_ONCE = 10_000
_NUM_SHOWN = 20


class NewPiece(NamedTuple):
    """An entry to add; one that is user-defined is matched before the text is segmented."""

    text: str
    is_user_defined: bool


def extend_tokenizers(
    tokenizers: Tokenizers, config: TokenizerConfig, sources: Sequence[str], targets: Sequence[str]
) -> Tokenizers:
    """Add `tokenizer.add_pieces`, and with `tokenizer.add_characters` the characters of the text that are missing.

    Args:
        sources: The training text, whose characters are counted; a joint vocabulary gets those of both sides.

    Raises:
        InputError: The vocabulary is that of an imported model, whose two segmentations share one numbering.
    """
    if not (config.add_characters or config.add_pieces):
        return tokenizers
    if tokenizers.vocabulary == "joint" and tokenizers.source is not tokenizers.target:
        raise InputError("tokenizer.add_characters, tokenizer.add_pieces: this imported vocabulary cannot be extended")
    if tokenizers.vocabulary == "joint":
        joint = _extend(tokenizers.source, config, sources, targets)
        return Tokenizers(joint, joint, "joint")
    return Tokenizers(
        _extend(tokenizers.source, config, sources), _extend(tokenizers.target, config, targets), "separate"
    )


def missing_characters(
    tokenizer: Tokenizer, texts: Sequence[Sequence[str]], *, coverage: float, pieces: Sequence[str] = ()
) -> list[str]:
    """The characters of normalised texts that a vocabulary has no entry for, the most frequent first.

    Args:
        coverage: The share of all characters that need entries; the rarest beyond it get none.
        pieces: Entries that are added anyway, so that their characters need not be there for them.
    """
    counts: Counter[str] = Counter()
    for lines in texts:
        for start in range(0, len(lines), _LINES_AT_ONCE):
            text = "\n".join(tokenizer.normalize(lines[start : start + _LINES_AT_ONCE]))
            for piece in pieces:
                text = text.replace(piece, "")
            counts.update(text)
    del counts["\n"]
    missing = sorted((each for each in counts if tokenizer.lacks(each)), key=lambda each: (-counts[each], each))
    spared = (1.0 - coverage) * counts.total()
    while missing and (spared := spared - counts[missing[-1]]) >= 0:
        missing.pop()
    return missing


def _extend(tokenizer: Tokenizer, config: TokenizerConfig, *texts: Sequence[str]) -> Tokenizer:
    known = set(tokenizer.pieces(range(tokenizer.vocab_size)))
    new = [NewPiece(piece, True) for piece in dict.fromkeys(config.add_pieces) if piece not in known]
    if config.add_characters:
        coverage, pieces = config.character_coverage, config.add_pieces
        characters = missing_characters(tokenizer, texts, coverage=coverage, pieces=pieces)
        new += [NewPiece(each, False) for each in characters]
    if not new:
        return tokenizer
    more = f" and {len(new) - _NUM_SHOWN:,} more" if len(new) > _NUM_SHOWN else ""
    shown = " ".join(piece.text for piece in new[:_NUM_SHOWN])
    logger.info(f"Vocabulary extended by {len(new):,} to {tokenizer.vocab_size + len(new):,} subwords: {shown}{more}")
    return add_pieces(tokenizer, new)


def add_pieces(tokenizer: Tokenizer, pieces: Sequence[NewPiece]) -> Tokenizer:
    """A tokenizer with more entries at its end.

    They are appended to the serialised model: what follows a protocol buffer's message continues its repeated fields. A
    character has the lowest score that there is, so that unigram prefers every old entry, and does not find unknown
    characters more or less likely than before.

    Source: https://protobuf.dev/programming-guides/encoding/#last-one-wins, and `sentencepiece_model.proto`.
    """
    lowest = min(tokenizer.scores())

    def fields(piece: NewPiece) -> Iterator[bytes]:
        yield _message(1, piece.text.encode())
        yield bytes([2 << 3 | 5]) + struct.pack("<f", 0.0 if piece.is_user_defined else lowest)
        yield bytes([3 << 3 | 0, _USER_DEFINED if piece.is_user_defined else _NORMAL])

    added = b"".join(_message(1, b"".join(fields(piece))) for piece in pieces)
    return Tokenizer(tokenizer.model_bytes + added, name=tokenizer.name)


def _message(field: int, content: bytes) -> bytes:
    """A field of a protocol buffer with its length, of at most two groups of seven bits."""
    size = len(content)
    return bytes([field << 3 | 2, *([size] if size < 128 else [size & 127 | 128, size >> 7])]) + content
