"""Words from subwords: the tokens that spell each word, and the model's confidence in it."""

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from translate.data.tokenizer import BYTE_PIECE, SPACE


class Word(NamedTuple):
    """A word, and the positions of its tokens in the sequence."""

    text: str
    positions: list[int]  # consecutive


class WordConfidence(NamedTuple):
    """The probability of a word, given the source and the words before it."""

    text: str
    probability: float  # product over the word's tokens; lower for longer words
    mean_probability: float  # geometric mean over the word's tokens; comparable between words of any length


def group_words(pieces: Sequence[str]) -> list[Word]:
    """Group subwords into words. Each token belongs to exactly one word, so no tokens give no words.

    A word begins with the first piece and with each piece that begins with `▁`. A lone `▁` belongs to the next word, or
    at the end to the last word, so no word is empty unless the whole text is. If the text has no runs of spaces, the
    words are those of `text.split(" ")`. An unknown token is spelt as its piece, and each byte that is not UTF-8 as
    U+FFFD.

    Args:
        pieces: Pieces from `Tokenizer.pieces`, without start and end symbol, of a vocabulary that has `▁` only at the
            beginning of pieces: a piece with `▁` inside is not divided into two words.

    Source: Kudo and Richardson 2018, https://arxiv.org/abs/1808.06226, on lossless tokenization.
    """
    groups: list[list[int]] = []
    has_text = False  # whether the last group has more than spaces
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


def word_confidences(pieces: Sequence[str], token_log_probs: Sequence[float]) -> list[WordConfidence]:
    """Compute the probability of each word from the probabilities of its tokens.

    The product falls with each token. The geometric mean does not, so it is the one to rank words by.

    Args:
        pieces: See `group_words`.
        token_log_probs: Log-probabilities in nats of each piece; what follows, such as the end symbol's, is ignored.
    """
    confidences = []
    for text, positions in group_words(pieces):
        log_prob = math.fsum(token_log_probs[position] for position in positions)
        confidences.append(WordConfidence(text, math.exp(log_prob), math.exp(log_prob / len(positions))))
    return confidences


def _spell(pieces: Sequence[str]) -> str:
    """Spell one word. A character of byte fallback is several pieces, so bytes are joined before decoding."""
    spelt = b""
    for piece in pieces:
        byte = BYTE_PIECE.fullmatch(piece)
        spelt += bytes.fromhex(byte[1]) if byte else piece.replace(SPACE, " ").encode()
    # Each byte that cannot be decoded becomes one lone surrogate, and then U+FFFD, as SentencePiece writes it.
    return re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", spelt.decode(errors="surrogateescape")).strip(" ")
