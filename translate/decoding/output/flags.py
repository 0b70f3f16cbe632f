"""Flags of a translation: signs of failure that its text and its tokens alone show.

Only the search knows whether a source or a translation was cut at a maximum length; see `Translation.flags`.
"""

import unicodedata
from collections.abc import Sequence
from typing import Literal

from translate.data.tokenizer import UNK_ID

Flag = Literal["empty", "repetitive", "length_ratio", "unspellable"]
"""empty: the source has text, but the translation has none. repetitive: the translation repeats itself in a loop that
the source does not have. length_ratio: the translation is far longer or shorter than the source. unspellable: the
source or the translation has an unknown token."""


def flag_translation(source: str, source_ids: Sequence[int], text: str, ids: Sequence[int]) -> frozenset[Flag]:
    """Find the flags of a translation; most translations have none.

    Args:
        source_ids: Subwords of the source without end symbol, as many as the model saw.
        ids: Subwords of the translation without end symbol.
    """
    flags: set[Flag] = set()
    if UNK_ID in source_ids or UNK_ID in ids:
        flags.add("unspellable")
    if not source.strip() or not source_ids:
        return frozenset(flags)
    if not text.strip():
        return frozenset(flags | {"empty"})
    # The ratio alone says little about a short sentence. Of the 29,000 true pairs of Multi30k's training set, with a
    # joint vocabulary of 8,000, this flags 0.2 %; with a third of the translation left 90 %, with half of it 46 %, with
    # all of it twice 68 %.
    shorter, longer = sorted((len(source_ids), len(ids)))
    if longer > 1.5 * shorter + 4:
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
    # "had had" and "very very very good" are not loops; nor are "hahahaha", "Mississippi" and "sooooo".
    in_words = _most_repeats(words, max_block=8, min_length=4, min_repeats=3)
    long_words = [word for word in words if len(word) >= 12]
    in_characters = [_most_repeats(word, max_block=32, min_length=12, min_repeats=4) for word in long_words]
    return max([in_words, *in_characters])


def _most_repeats(units: Sequence[str], *, max_block: int, min_length: int, min_repeats: int) -> int:
    """Count the complete blocks of the loop that has most: a stretch in which each unit equals that a block before.

    Args:
        units: Words, or the characters of a word.
        max_block: The most units in a block.
        min_length: The fewest units in a loop, whose last block may be incomplete.
        min_repeats: The fewest complete blocks in a loop.
    """
    most = 0
    for block in range(1, min(max_block, len(units) // 2) + 1):
        start = 0
        for end in range(block, len(units) + 1):
            if end == len(units) or units[end] != units[end - block]:
                repeats = (end - start) // block
                is_loop = end - start >= min_length and repeats >= min_repeats
                if is_loop and any(map(str.isalpha, "".join(units[start : start + block]))):
                    most = max(most, repeats)
                start = end - block + 1
    return most
