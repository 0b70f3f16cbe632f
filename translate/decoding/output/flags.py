"""Flags of a translation, their wording, and the signs of failure that are visible in its text and tokens alone.

Only the search knows whether a source or a translation was cut at a maximum length; see `Translation.flags`.
"""

import itertools
import re
import unicodedata
from collections.abc import Sequence
from typing import Literal, NamedTuple

from translate.data.tokenizer import UNK_ID

Flag = Literal["empty", "repetitive", "length_ratio", "unspellable"]
"""empty: the source has text, but the translation has none. repetitive: the translation repeats itself in a loop that
the source does not have. length_ratio: the translation is far longer or shorter than the source. unspellable: the
source or the translation has an unknown token."""


class FlagWords(NamedTuple):
    """A flag in words."""

    phrase: str  # of one translation or of several, such as "empty" in "2 empty"
    warning: str  # whole sentences about one translation, for readers who do not know how a model works


FLAGS = {  # in the order in which they are shown
    "empty": FlagWords("empty", "Empty: the model found no translation."),
    "truncated": FlagWords("cut at the maximum length", "Cut off: the end of the translation is missing."),
    "repetitive": FlagWords("repetitive", "Repeats itself: the translation is probably wrong here."),
    "length_ratio": FlagWords(
        "far longer or shorter than the source",
        "Far longer or shorter than the original: something may be missing or invented.",
    ),
    "unspellable": FlagWords(
        "with characters that the vocabulary cannot spell",
        "Unknown characters: the model may have left them out or guessed.",
    ),
    "tagged": FlagWords(
        "with the tag of a language left out",
        "A tag of a language was left out: the translation may be in the wrong language there.",
    ),
    "placeholders": FlagWords(
        "with placeholders other than the source's",
        "Placeholders, tags, addresses or emoji are not those of the original: put them right before you use it.",
    ),
    "unmet": FlagWords("without a required phrase", "A required phrase is missing."),
    "split": FlagWords("translated in pieces", "In parts: each was translated alone."),
    "source_truncated": FlagWords("too long and cut", "Too long: only the beginning of the text was translated."),
}

# Blocks repeated without a gap: of one to eight words, or of a few characters within a word. "had had" and "very
# very very good" are not loops; nor are "hahahaha", "Mississippi" and "sooooo".
_LOOP_OF_WORDS = re.compile(r"(?<!\S)(?:(\S+)(?: \1(?!\S)){3,}|(\S+(?: \S+){1,7}?)(?: \2(?!\S)){2,})")
_LOOP_IN_WORD = re.compile(r"(\S)\1{11,}|(\S\S)\2{5,}|(\S{3,32}?)\3{3,}")


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
    # joint vocabulary of 8,000, this flags 0.2 %; of those cut to a third it flags 90 %, cut to half 46 %, and
    # doubled 68 %.
    shorter, longer = sorted((len(source_ids), len(ids)))
    if longer > 1.5 * shorter + 4:
        flags.add("length_ratio")
    if (repeats := most_repeats(text)) and repeats > most_repeats(source):
        flags.add("repetitive")
    return frozenset(flags)


def most_repeats(text: str) -> int:
    """Count how often the most repeated block of all loops in a text occurs; 0 for a text without a loop.

    Loops are sought in words, and in the characters of each word, which show repeated subwords however the text was
    segmented, and also work for text without spaces. Case and punctuation are ignored. A block without a letter does
    not count: a row of digits is as often data as a failure, and a long one shows in the length.
    """
    kept = (character for character in text.casefold() if not unicodedata.category(character).startswith("P"))
    words = " ".join("".join(kept).split())
    most = 0
    for loop in itertools.chain(_LOOP_OF_WORDS.finditer(words), _LOOP_IN_WORD.finditer(words)):
        block = loop[loop.lastindex or 0]
        if any(map(str.isalpha, block)):
            most = max(most, loop[0].count(block))
    return most
