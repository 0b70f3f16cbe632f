"""Words from subwords: the tokens that spell each word, the model's confidence in it, and alignments by attention."""

import math
import re
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from translate.data.tokenizer import BYTE_PIECE

SPACE = "▁"  # SentencePiece writes it for the space before a word


class Word(NamedTuple):
    """A word, and the positions of its tokens in the sequence."""

    text: str
    positions: list[int]  # consecutive


class WordConfidence(NamedTuple):
    """The probability of a word, given the source and the words before it."""

    text: str
    probability: float  # product over the word's tokens; longer words have less
    mean_probability: float  # geometric mean over the word's tokens; words of any length compare


def group_words(pieces: Sequence[str]) -> list[Word]:
    """Group subwords into words. Each token belongs to exactly one word, so no tokens give no words.

    A word begins with the first piece and with each piece that begins with `▁`. A lone `▁` belongs to the next word, or
    at the end to the last word, so that no word is empty unless the whole text is. If the text has no runs of spaces,
    the words are those of `text.split(" ")`. An unknown token is spelt as its piece, and each byte that is not UTF-8 as
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
    """Compute the probability of each word from those of its tokens.

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


class AlignmentLink(NamedTuple):
    """A source position and a target position that belong together; links sort by source."""

    source: int
    target: int


def align_words(
    weights: Float[Tensor, "target source"],
    *,
    source_words: Sequence[Sequence[int]] | None = None,
    target_words: Sequence[Sequence[int]] | None = None,
) -> dict[AlignmentLink, float]:
    """Link each target word, in order, to the source word that it attends to most; the values are the weights.

    A source word's weight is the sum over its subwords, and a target word's attention the mean over its subwords. The
    end symbols have no links, and each target subword's weights are shares of what is not on the end symbol. A target
    word that attends only to the end symbol has no link. Of equal weights the first counts.

    Args:
        weights: The cross-attention of one sentence without padding. Row t is the attention that predicts target token
            t; the last row and column are those of the end symbols.
        source_words: The positions of each word's subwords, from `group_words`; None: each subword is a word.
        target_words: The same for the target.
    """
    kept = weights[:-1, :-1].double()
    totals = kept.sum(dim=1, keepdim=True)
    shares = torch.where(totals > 0, kept / totals, 0.0)
    if source_words is not None:
        columns = [shares[:, list(positions)].sum(dim=1) for positions in source_words]
        shares = torch.stack(columns, dim=1) if columns else shares[:, :0]
    if target_words is not None:
        rows = [shares[list(positions)].mean(dim=0) for positions in target_words]
        shares = torch.stack(rows) if rows else shares[:0]
    if shares.shape[1] == 0:
        return {}
    best, sources = shares.max(dim=1)
    strongest = zip(sources.tolist(), best.tolist(), strict=True)
    return {AlignmentLink(source, target): weight for target, (source, weight) in enumerate(strongest) if weight > 0}


def format_pharaoh(links: Iterable[AlignmentLink]) -> str:
    """Write links in Pharaoh format, sorted and source before target: `0-0 1-2`."""
    return " ".join(f"{link.source}-{link.target}" for link in sorted(links))


def alignment_error_rate(
    links: Sequence[AbstractSet[AlignmentLink]], *, expected: Sequence[AbstractSet[AlignmentLink]]
) -> float:
    """Compute 1 - 2 |A ∩ E| / (|A| + |E|) over a corpus: 0 if the links are exactly the expected ones.

    Args:
        links: The links A of each sentence.
        expected: The expected links E of each sentence, all of them sure.

    Raises:
        ValueError: The numbers of sentences differ, or there is no link at all.

    Source: Och and Ney 2003, https://aclanthology.org/J03-1002, the section on evaluation, with S = P = E.
    """
    hits = sum(len(found & wanted) for found, wanted in zip(links, expected, strict=True))
    total = sum(len(found) + len(wanted) for found, wanted in zip(links, expected, strict=True))
    if total == 0:
        raise ValueError("there is neither a link nor an expected link, so the error rate is undefined")
    return 1.0 - 2 * hits / total
