"""Subwords to words: which tokens spell each word of a text, and how sure the model was of it."""

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

SPACE = "▁"
"""How SentencePiece writes the space that a word begins with."""

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")  # a piece of byte fallback


class Word(NamedTuple):
    """A word, and where in the sequence its tokens are."""

    text: str
    positions: list[int]  # consecutive


class WordConfidence(NamedTuple):
    """How probable a word was, given the source and the words before it."""

    text: str
    positions: list[int]
    probability: float  # of the whole word: the product over its tokens; less for longer words
    mean_probability: float  # the geometric mean over its tokens; words of any length compare


class Confidence(NamedTuple):
    """How probable each word of a translation was, and its end."""

    words: list[WordConfidence]
    end: float | None  # probability of the end symbol; None where the translation has none


def group_words(pieces: Sequence[str]) -> list[Word]:
    """The words that subwords spell; each token belongs to exactly one, so no tokens give no words.

    A word begins with the first piece and with each that begins with `▁`; but a lone `▁` belongs to the next word, or,
    at the end, to the last, so that no word is empty unless all text is. Of text without runs of spaces these are the
    words of `text.split(" ")`. An unknown token is spelt as its piece, and bytes that are no UTF-8 U+FFFD each.

    Args:
        pieces: As `Tokenizer.pieces` gives them, without start and end symbol, of a vocabulary with `▁` at the
            beginning of pieces: a piece with `▁` inside does not fall apart into two words.

    Source: Kudo and Richardson 2018, https://arxiv.org/abs/1808.06226, on lossless tokenization.
    """
    groups: list[list[int]] = []
    has_text = False  # the group begun last
    for position, piece in enumerate(pieces):
        if not groups or (has_text and piece.startswith(SPACE)):
            groups.append([])
            has_text = False
        groups[-1].append(position)
        has_text = has_text or piece.strip(SPACE) != ""
    if len(groups) > 1 and not has_text:
        spaces = groups.pop()
        groups[-1] += spaces
    return [Word(_spell([pieces[position] for position in group]), group) for group in groups]


def word_confidences(pieces: Sequence[str], token_log_probs: Sequence[float]) -> Confidence:
    """The probability of each word, from those of its tokens.

    The product is the model's probability of the word, spelt with just these tokens; it falls with each token. The
    geometric mean does not, and so is the one to rank words or to set a threshold by.

    Args:
        pieces: See `group_words`.
        token_log_probs: In nats, of each piece and, if the translation ended, of the end symbol.

    Raises:
        ValueError: The numbers of pieces and of log-probabilities do not fit each other.
    """
    if len(token_log_probs) - len(pieces) not in (0, 1):
        raise ValueError(
            f"{len(pieces)} pieces but {len(token_log_probs)} log-probabilities: there must be one each,"
            " and at most one more, of the end symbol"
        )
    words = []
    for text, positions in group_words(pieces):
        log_prob = math.fsum(token_log_probs[position] for position in positions)
        words.append(WordConfidence(text, positions, math.exp(log_prob), math.exp(log_prob / len(positions))))
    has_end = len(token_log_probs) > len(pieces)
    return Confidence(words, math.exp(token_log_probs[-1]) if has_end else None)


def _spell(pieces: Sequence[str]) -> str:
    """The text of one word. A character of byte fallback is several pieces, so bytes are joined before decoding."""
    spelt = b""
    for piece in pieces:
        byte = _BYTE.fullmatch(piece)
        spelt += bytes.fromhex(byte[1]) if byte else piece.replace(SPACE, " ").encode()
    # Each byte that cannot be decoded becomes one lone surrogate, and then U+FFFD as SentencePiece writes it.
    return re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", spelt.decode(errors="surrogateescape")).strip(" ")
