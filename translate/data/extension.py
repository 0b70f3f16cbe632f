"""Vocabularies that grow for other text: new entries come after the old ones, which all keep their ids.

Text without a new entry is segmented as before, because a new entry only matches what it spells.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import partial

from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]  # made on import

from translate.config.languages import list_some
from translate.config.schema import TokenizerConfig
from translate.data.tokenizer import SPACE, Tokenizer, Tokenizers, expand_pieces
from translate.errors import InputError

logger = logging.getLogger(__name__)

_LINES_AT_ONCE = 10_000


def extend_tokenizers(
    tokenizers: Tokenizers, config: TokenizerConfig, sources: Sequence[str], targets: Sequence[str]
) -> Tokenizers:
    """Add `tokenizer.add_pieces`, and with `tokenizer.add_characters` the characters that the training text needs.

    A joint vocabulary gets the characters of both sides.
    """
    source, target, _ = tokenizers
    pieces = expand_pieces(config.add_pieces)
    if not config.add_characters:
        sources = targets = ()
    missing = partial(missing_characters, coverage=config.character_coverage, pieces=pieces)
    if source is target:
        of_source = of_target = missing(source, [sources, targets])
    else:
        of_source, of_target = missing(source, [sources]), missing(target, [targets])
    return _extend_sides(tokenizers, lambda side, new: add_pieces(side, pieces, new), of_source, of_target)


def add_tags(tokenizers: Tokenizers, source_tags: Sequence[str], target_tags: Sequence[str]) -> Tokenizers:
    """Add an entry for each tag of a corpus or a language; all other text is segmented as before.

    A joint vocabulary gets the tags of both sides. The tag of a target is a single token, because decoding begins with
    one. A source tag may be two, if the vocabulary has it without the space.

    Raises:
        InputError: The tokenizer does not read a tag as one subword.
    """
    return _extend_sides(tokenizers, partial(_add_tags, single=target_tags), source_tags, target_tags)


def _extend_sides(
    tokenizers: Tokenizers,
    add: Callable[[Tokenizer, Sequence[str]], Tokenizer],
    of_source: Sequence[str],
    of_target: Sequence[str],
) -> Tokenizers:
    source, target, vocabulary = tokenizers
    if vocabulary == "joint":  # perhaps of an imported model, which segments the sides differently, with the same ids
        of_source = of_target = list(dict.fromkeys([*of_source, *of_target]))
    new_source = add(source, of_source)
    return Tokenizers(new_source, new_source if source is target else add(target, of_target), vocabulary)


def _add_tags(tokenizer: Tokenizer, tags: Sequence[str], *, single: Sequence[str]) -> Tokenizer:
    missing = (tag for tag in tags if tag in single or tokenizer.tag_id(tag) is None)
    new = [f"{SPACE}{tag}" for tag in missing]  # SentencePiece begins words with a space
    tagged, rest = add_pieces(tokenizer, new, ()), tokenizer.encode("a")
    for tag in tags:
        if (found := tagged.encode(f"{tag} a")) != [*tagged.tag_ids(tag), *rest]:
            raise InputError(
                f"the tag {tag} should be one subword, but {tokenizer.name} reads {tag} a as"
                f" {' '.join(tagged.pieces(found))}; choose another tag, or train a tokenizer here"
            )
    return tagged


def missing_characters(
    tokenizer: Tokenizer, texts: Sequence[Sequence[str]], *, coverage: float, pieces: Sequence[str] = ()
) -> list[str]:
    """The characters of normalised texts that have no entry in a vocabulary, the most frequent first.

    Args:
        coverage: The share of all characters that need entries; the rarest beyond it get none.
        pieces: Entries that are added anyway; characters that occur only in them need no separate entries.
    """
    counts: Counter[str] = Counter()
    for lines in texts:
        for start in range(0, len(lines), _LINES_AT_ONCE):
            text = "\n".join(tokenizer.normalize(lines[start : start + _LINES_AT_ONCE]))
            for piece in pieces:
                text = text.replace(piece, "")
            counts.update(text)
    del counts["\n"]
    missing = sorted(filter(tokenizer.lacks, counts), key=lambda character: (-counts[character], character))
    spared = (1.0 - coverage) * counts.total()
    while missing and (spared := spared - counts[missing[-1]]) >= 0:
        missing.pop()
    return missing


def add_pieces(tokenizer: Tokenizer, tags: Collection[str], characters: Collection[str]) -> Tokenizer:
    """Append the entries that a vocabulary does not have yet.

    A character gets the lowest score of all entries, so unigram prefers every old entry and other unknown characters
    stay as likely as before. If an imported model segments text into a piece that has no id, the piece gets one; if it
    never segments text into an entry, or if the entry was pruned, it does so from now on.

    Args:
        tags: Pieces that are matched before the text is segmented.
    """
    if not tags and not characters:
        return tokenizer
    known, size = set(tokenizer.all_pieces), tokenizer.vocab_size
    new = [piece for piece in dict.fromkeys((*tags, *characters)) if piece not in known]
    model, kinds = ModelProto.FromString(tokenizer.model_bytes), ModelProto.SentencePiece
    unused = [entry for entry in model.pieces if entry.type == kinds.UNUSED and entry.piece in {*tags, *characters}]
    if not new and not unused:
        return tokenizer
    for entry in unused:
        entry.type = kinds.USER_DEFINED if entry.piece in tags else kinds.NORMAL
    entries, without_id = model.pieces[:size], {entry.piece: entry for entry in model.pieces[size:]}
    lowest = min(entry.score for entry in entries)
    for piece in new:
        made = kinds(piece=piece, score=lowest, type=kinds.USER_DEFINED if piece in tags else kinds.NORMAL)
        entries.append(without_id.pop(piece, made))
    del model.pieces[:]
    model.pieces.extend([*entries, *without_id.values()])
    if new:
        logger.info(f"Vocabulary extended by {len(new):,} to {size + len(new):,} subwords: {list_some(new)}")
    return Tokenizer(model.SerializeToString(), name=tokenizer.name)
