"""A vocabulary that grows for other text: entries behind those that it has, which all stay as they are.

Text without a new entry is segmented as before, because a new entry can only match what it spells.
"""

import logging
import struct
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from translate.config.data import TokenizerConfig
from translate.data.tokenizer import Tokenizer, Tokenizers
from translate.errors import InputError

logger = logging.getLogger(__name__)

_PIECE, _TEXT, _SCORE, _TYPE = 1 << 3 | 2, 1 << 3 | 2, 2 << 3 | 5, 3 << 3  # tags of fields in sentencepiece_model.proto
_NORMAL, _USER_DEFINED = 1, 4  # types of pieces
_SPACE = "▁"
_LINES_AT_ONCE = 10_000
_NUM_SHOWN = 20


def extend_tokenizers(
    tokenizers: Tokenizers, config: TokenizerConfig, sources: Sequence[str], targets: Sequence[str]
) -> Tokenizers:
    """Add `tokenizer.add_pieces`, and with `tokenizer.add_characters` the characters of the text that are missing.

    Args:
        sources: The training text, whose characters are counted; a joint vocabulary gets those of both sides.
    """
    source, target, vocabulary = tokenizers
    tags = dict.fromkeys(config.add_pieces)
    if source is target:
        missing = _missing(source, config, sources, targets)
        joint = add_pieces(source, tags, missing)
        return Tokenizers(joint, joint, vocabulary)
    of_source, of_target = _missing(source, config, sources), _missing(target, config, targets)
    if vocabulary == "joint":  # of an imported model, which segments both sides in its own way, with the same ids
        of_source = of_target = list(dict.fromkeys(of_source + of_target))
    return Tokenizers(add_pieces(source, tags, of_source), add_pieces(target, tags, of_target), vocabulary)


def add_source_tags(tokenizers: Tokenizers, tags: Sequence[str]) -> Tokenizers:
    """Add an entry for each tag that corpora put before their sources; all other text is segmented as before.

    Raises:
        InputError: The tokenizer makes something else of a tag than one subword.
    """
    source, target, vocabulary = tokenizers
    pieces = [f"{_SPACE}{tag}" for tag in tags]  # the space before the tag is its own, as that of any first word
    tagged = add_pieces(source, pieces, ())
    for tag, piece in zip(tags, pieces, strict=True):
        if tagged.pieces(found := tagged.encode(f"{tag} a")) != [piece, *source.pieces(source.encode("a"))]:
            raise InputError(
                f"data.train: source_tag = {tag} is to be one subword, but {source.name} reads {tag} a as"
                f" {' '.join(tagged.pieces(found))}; choose another tag, or train a tokenizer here"
            )
    if source is target or vocabulary == "joint":
        target = tagged if source is target else add_pieces(target, pieces, ())
    return Tokenizers(tagged, target, vocabulary)


def _missing(tokenizer: Tokenizer, config: TokenizerConfig, *texts: Sequence[str]) -> list[str]:
    if not config.add_characters:
        return []
    return missing_characters(tokenizer, texts, coverage=config.character_coverage, pieces=config.add_pieces)


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


def add_pieces(tokenizer: Tokenizer, tags: Collection[str], characters: Collection[str]) -> Tokenizer:
    """A tokenizer with more entries behind those that it has; what it has already is not added.

    A character has the lowest score that there is, so that unigram prefers every old entry, and finds other unknown
    characters as likely as before. A piece that an imported model segments text into, but has no id for, gets one, and
    a piece that it never segments text into is used from now on.

    Args:
        tags: Are matched before the text is segmented.
    """
    known, size = set(tokenizer.pieces(range(tokenizer.vocab_size))), tokenizer.vocab_size
    characters = dict.fromkeys(characters)
    new = [piece for piece in (*tags, *characters) if piece not in known]
    if not new and not characters:
        return tokenizer
    fields = list(_fields(tokenizer.model_bytes))
    pieces = [content for tag, content in fields if tag == _PIECE]
    # The last value of a field counts.
    used = bytes([_TYPE, _NORMAL])
    head = [piece + used if _text(piece) in characters else piece for piece in pieces[:size]]
    tail = {_text(piece): piece for piece in pieces[size:]}
    lowest = bytes([_SCORE]) + struct.pack("<f", min(tokenizer.scores()))
    for text in new:
        made = _field(_TEXT, text.encode()) + lowest + used
        if text in tags:
            made += bytes([_TYPE, _USER_DEFINED])
        head.append(tail.pop(text, made))
    content = b"".join(_field(_PIECE, piece) for piece in (*head, *tail.values()))
    if new:
        more = f" and {len(new) - _NUM_SHOWN:,} more" if len(new) > _NUM_SHOWN else ""
        shown = " ".join(new[:_NUM_SHOWN])
        logger.info(f"Vocabulary extended by {len(new):,} to {size + len(new):,} subwords: {shown}{more}")
    return Tokenizer(content + b"".join(_field(*each) for each in fields if each[0] != _PIECE), name=tokenizer.name)


def user_defined_pieces(model_bytes: bytes) -> list[str]:
    """The pieces of a serialised model that are matched before the text is segmented."""
    pieces = (content for tag, content in _fields(model_bytes) if tag == _PIECE)
    return [_text(piece) for piece in pieces if piece.endswith(bytes([_TYPE, _USER_DEFINED]))]


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The tag and the content of each field of a protocol buffer's message whose fields all have a length.

    Source: https://protobuf.dev/programming-guides/encoding.
    """
    at = 0
    while at < len(message):
        tag, size, shift, at = message[at], 0, 0, at + 1
        while message[at] & 128:
            size, shift, at = size | (message[at] & 127) << shift, shift + 7, at + 1
        size, at = size | message[at] << shift, at + 1
        yield tag, message[at : at + size]
        at += size


def _field(tag: int, content: bytes) -> bytes:
    size, groups = len(content), bytearray([tag])
    while size > 127:
        groups.append(size & 127 | 128)
        size >>= 7
    return bytes(groups) + bytes([size]) + content


def _text(piece: bytes) -> str:
    """The text of a piece, which is its first field."""
    assert piece[0] == _TEXT
    return next(_fields(piece))[1].decode()
