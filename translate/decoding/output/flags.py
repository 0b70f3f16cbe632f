"""What a reader should know about one translation: signs of failure that the texts and ids alone show.

That a source or a translation was cut at a maximum length is known to the search alone and not a matter of this file.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from translate.data.tokenizer import UNK_ID

Flag = Literal["empty", "repetitive", "length_ratio", "unspellable"]
"""empty: no text from a source with text. repetitive: it runs in a loop that the source does not have.
length_ratio: it is far longer or shorter than the source. unspellable: one of both has what its vocabulary cannot
spell, an unknown token."""

MAX_BLOCK_WORDS = 8
"""A loop of words repeats a block of at most this many,"""
MIN_LOOP_WORDS = 4
"""is at least this long,"""
MIN_BLOCK_REPEATS = 3
"""and holds its block this often. So "had had" and "very very very good" are none."""

MAX_BLOCK_CHARACTERS = 32
"""A loop of characters, within what spaces do not divide, repeats a block of at most this many,"""
MIN_LOOP_CHARACTERS = 12
"""is at least this long,"""
MIN_CHARACTER_BLOCK_REPEATS = 4
"""and holds its block this often. So "hahahaha", "Mississippi" and "sooooo" are none."""


class Loop(NamedTuple):
    """A stretch in which each unit equals the one a block before it."""

    start: int
    block: int  # units
    length: int  # units, at least two blocks; the last block may be cut

    @property
    def repeats(self) -> int:
        """How often the whole block is there."""
        return self.length // self.block


def flag_translation(
    source: str,
    source_ids: Sequence[int],
    text: str,
    ids: Sequence[int],
    *,
    max_length_ratio: float = 1.5,
    length_allowance: int = 4,
) -> frozenset[Flag]:
    """The flags of a translation; none is the rule.

    Defaults: on the 29,000 true pairs of Multi30k's training set, with a joint vocabulary of 8,000, length_ratio flags
    0.2 %; of the same pairs with a third of the translation left 90 %, with half of it 46 %, with all of it twice 68 %.

    Args:
        source: The source line.
        source_ids: Its subwords, without end symbol, cut to what the model saw.
        text: The translation.
        ids: Its subwords, without end symbol.
        max_length_ratio: Neither side may have more subwords than this times those of the other,
        length_allowance: and this many, since a ratio says little of a short sentence.

    Raises:
        ValueError: `max_length_ratio` is below 1 or `length_allowance` is negative.
    """
    if not max_length_ratio >= 1.0 or length_allowance < 0:
        raise ValueError(
            f"max_length_ratio = {max_length_ratio} must be at least 1,"
            f" and length_allowance = {length_allowance} at least 0"
        )
    flags: set[Flag] = set()
    if UNK_ID in source_ids or UNK_ID in ids:
        flags.add("unspellable")
    if not source.strip() or not source_ids:
        return frozenset(flags)
    if not text.strip():
        return frozenset(flags | {"empty"})
    longer, shorter = max(len(source_ids), len(ids)), min(len(source_ids), len(ids))
    if longer > max_length_ratio * shorter + length_allowance:
        flags.add("length_ratio")
    if most_repeats(text) > most_repeats(source):
        flags.add("repetitive")
    return frozenset(flags)


def most_repeats(text: str) -> int:
    """How often the most repeated block of all loops in a text is there; 0 of a text without a loop.

    Loops are looked for in words, and in characters within each word: there subwords that repeat show however the
    text was segmented, and so does text without spaces. Case and punctuation are left out. A block without a letter
    counts for nothing: a row of digits is data as often as a failure, and a long one is seen by its length.
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
    """All stretches of two blocks or more, as long as they go, the smaller blocks first.

    What loops with a block of one unit does so with a block of two as well, and comes again as such.

    Args:
        units: Words, or a text's characters.
        max_block: Units in a block at most.
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
