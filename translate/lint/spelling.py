"""What a vocabulary does to text: characters that it cannot spell, entries that nobody uses, lengths in tokens."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from translate.data.tokenizer import UNK_ID, Tokenizer

_MAX_EXAMINED_LINES = 1000  # for the characters' names; the counts of tokens are of all lines
_NUM_SPECIAL = 4  # PAD, UNK, BOS, EOS
# Upper ends of the histogram's columns, in tokens; the last is open.
HISTOGRAM_ENDS = (0, 5, 10, 15, 20, 30, 40, 50, 75, 100, 150, 200, 300, 500)


class Spelling(NamedTuple):
    """How a vocabulary spells some lines."""

    num_tokens: int
    num_byte_tokens: int  # spent on characters without an entry, one for each byte
    num_unknown_tokens: int  # characters that are lost
    lines: NDArray[np.int64]  # positions of the lines with such characters
    characters: tuple[tuple[str, int], ...]  # the characters and their lines, the most frequent first


class VocabularyUse(NamedTuple):
    """How often the entries of a vocabulary occur; special symbols and bytes are not counted among them."""

    num_entries: int
    num_unused: int
    num_rare: int  # fewer than 10 times, unused ones too


def examine_spelling(lines: Sequence[str], ids: Sequence[Sequence[int]], tokenizer: Tokenizer) -> Spelling:
    """Counts the tokens that stand for what the vocabulary has no entry for, and names the characters.

    Args:
        ids: What the tokenizer makes of the lines.
    """
    is_byte = _byte_ids(tokenizer)
    lengths = token_lengths(ids)
    tokens = flatten(ids)
    is_odd = is_byte[tokens] | (tokens == UNK_ID)
    odd_lines = np.unique(np.repeat(np.arange(len(lines)), lengths)[is_odd])
    spelt: dict[str, bool] = {}
    characters: Counter[str] = Counter()
    for line in odd_lines[:_MAX_EXAMINED_LINES].tolist():
        for character in set(lines[line]):
            if character not in spelt:
                alone = tokenizer.encode(character)
                spelt[character] = not any(is_byte[token] or token == UNK_ID for token in alone)
            if not spelt[character]:
                characters[character] += 1
    return Spelling(
        len(tokens),
        int(is_byte[tokens].sum()),
        int((tokens == UNK_ID).sum()),
        odd_lines,
        tuple(sorted(characters.items(), key=lambda item: (-item[1], item[0]))),
    )


def examine_vocabulary(*sides: Sequence[Sequence[int]], tokenizer: Tokenizer, share: float) -> VocabularyUse:
    """How much of a vocabulary the training text uses.

    Args:
        sides: Token ids of all text that the vocabulary is for: of both languages, if it is joint.
        share: Of the corpus that these are, 0 to 1; what is rare is reckoned for the whole.
    """
    counts = np.zeros(tokenizer.vocab_size, dtype=np.int64)
    for ids in sides:
        counts += np.bincount(flatten(ids), minlength=tokenizer.vocab_size)
    counts = counts[_NUM_SPECIAL:][~_byte_ids(tokenizer)[_NUM_SPECIAL:]]
    return VocabularyUse(len(counts), int((counts == 0).sum()), int((counts < 10 * share).sum()))


def token_lengths(ids: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """Tokens of each line."""
    return np.fromiter(map(len, ids), dtype=np.int64, count=len(ids))


def flatten(ids: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """All tokens, line after line."""
    return np.concatenate([np.empty(0, dtype=np.int64), *(np.array(line, dtype=np.int64) for line in ids)])


def length_histogram(lengths: NDArray[np.int64]) -> tuple[int, ...]:
    """Lines of up to each of `HISTOGRAM_ENDS` tokens and over the one before; then those over the last."""
    columns = np.searchsorted(HISTOGRAM_ENDS, lengths)
    return tuple(int(count) for count in np.bincount(columns, minlength=len(HISTOGRAM_ENDS) + 1))


def _byte_ids(tokenizer: Tokenizer) -> NDArray[np.bool_]:
    """Which ids are bytes: entries such as `<0x41>`."""
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    return np.array([len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">") for piece in pieces])
