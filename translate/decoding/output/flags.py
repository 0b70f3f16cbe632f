"""Flags of a translation: signs of failure that its text and its tokens alone show.

Only the search knows whether a source or a translation was cut at a maximum length; see `Translation.flags`.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from translate.data.tokenizer import UNK_ID

Flag = Literal["empty", "repetitive", "length_ratio", "unspellable"]
"""empty: the source has text, but the translation has none. repetitive: the translation repeats itself in a loop that
the source does not have. length_ratio: the translation is far longer or shorter than the source. unspellable: the
source or the translation has an unknown token."""

# A loop of words repeats a block of at most 8 words, has at least 4 words, and contains its block at least 3 times. So
# "had had" and "very very very good" are no loops.
MAX_BLOCK_WORDS = 8
MIN_LOOP_WORDS = 4
MIN_BLOCK_REPEATS = 3

# A loop of characters within a word repeats a block of at most 32 characters, has at least 12 characters, and contains
# its block at least 4 times. So "hahahaha", "Mississippi" and "sooooo" are no loops.
MAX_BLOCK_CHARACTERS = 32
MIN_LOOP_CHARACTERS = 12
MIN_CHARACTER_BLOCK_REPEATS = 4

# Neither side may have more subwords than 1.5 times those of the other and 4 more, because a ratio says little about a
# short sentence. Of the 29,000 true pairs of Multi30k's training set, with a joint vocabulary of 8,000, this flags
# 0.2 %; with a third of the translation left 90 %, with half of it 46 %, with all of it twice 68 %.
MAX_LENGTH_RATIO = 1.5
LENGTH_ALLOWANCE = 4


class Loop(NamedTuple):
    """A stretch in which each unit equals the unit one block before it."""

    start: int
    block: int  # units in a block
    length: int  # units in the loop, at least two blocks; the last block may be incomplete

    @property
    def repeats(self) -> int:
        """The number of complete blocks."""
        return self.length // self.block


def flag_translation(source: str, source_ids: Sequence[int], text: str, ids: Sequence[int]) -> frozenset[Flag]:
    """Find the flags of a translation; most translations have none.

    Args:
        source: The source line.
        source_ids: Subwords of the source without end symbol, as many as the model saw.
        text: The translation.
        ids: Subwords of the translation without end symbol.
    """
    flags: set[Flag] = set()
    if UNK_ID in source_ids or UNK_ID in ids:
        flags.add("unspellable")
    if not source.strip() or not source_ids:
        return frozenset(flags)
    if not text.strip():
        return frozenset(flags | {"empty"})
    longer, shorter = max(len(source_ids), len(ids)), min(len(source_ids), len(ids))
    if longer > MAX_LENGTH_RATIO * shorter + LENGTH_ALLOWANCE:
        flags.add("length_ratio")
    if most_repeats(text) > most_repeats(source):
        flags.add("repetitive")
    return frozenset(flags)


def most_repeats(text: str) -> int:
    """Count how often the most repeated block of all loops in a text occurs; 0 for a text without a loop.

    Loops are searched in words, and in the characters of each word, which show repeated subwords however the text was
    segmented, and also work for text without spaces. Case and punctuation are ignored. A block without a letter does
    not count: a row of digits is data as often as a failure, and a long one shows in the length.
    """
    kept = (character for character in text.casefold() if not unicodedata.category(character).startswith("P"))
    words = "".join(kept).split()
    most = 0
    for loop in find_loops(words, max_block=MAX_BLOCK_WORDS):
        if loop.length >= MIN_LOOP_WORDS and loop.repeats >= MIN_BLOCK_REPEATS and _has_letter(words, loop):
            most = max(most, loop.repeats)
    for word in words:
        if len(word) < MIN_LOOP_CHARACTERS:
            continue
        for loop in find_loops(word, max_block=MAX_BLOCK_CHARACTERS):
            is_long = loop.length >= MIN_LOOP_CHARACTERS and loop.repeats >= MIN_CHARACTER_BLOCK_REPEATS
            if is_long and _has_letter(word, loop):
                most = max(most, loop.repeats)
    return most


def find_loops(units: Sequence[str], *, max_block: int) -> Iterator[Loop]:
    """Yield all loops of two blocks or more at their full length, smaller blocks first.

    A loop with a block of one unit is also a loop with a block of two, and is yielded again as such.

    Args:
        units: Words, or the characters of a text.
        max_block: The most units in a block.
    """
    for block in range(1, min(max_block, len(units) // 2) + 1):
        start = 0
        for end in range(block, len(units) + 1):
            if end == len(units) or units[end] != units[end - block]:
                if end - start >= 2 * block:
                    yield Loop(start, block, end - start)
                start = end - block + 1


def _has_letter(units: Sequence[str], loop: Loop) -> bool:
    return any(character.isalpha() for unit in units[loop.start : loop.start + loop.block] for character in unit)
