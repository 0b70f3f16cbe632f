"""Which target subword translates which source subword, and how likely: IBM model 1, learnt from sentence pairs by EM.

A *cell* is one source token with one target token of a pair; an *entry* is a source id and a target id that share a
cell somewhere. Its key is source id · target_vocab_size + target id.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from translate.data.batching import EncodedPair
from translate.data.tokenizer import PAD_ID

NULL_ID = PAD_ID
"""The empty word of every source, which translates into target tokens without a counterpart; no token has its id."""

_BLOCK_PAIRS = 10_000  # processed at once; the number only affects rounding


class Lexicon(NamedTuple):
    """t(target | source) of each entry, sorted by source id and then by target id; `NULL_ID` is a source too."""

    source_ids: NDArray[np.int64]
    target_ids: NDArray[np.int64]
    probabilities: NDArray[np.float64]  # sum to 1 over the targets of a source


def learn_lexicon(pairs: Sequence[EncodedPair], *, target_vocab_size: int, num_iterations: int = 5) -> Lexicon:
    """The translation probabilities that explain the pairs best, if each target token comes from one source token.

    EM starts from uniform probabilities, and the result is a pure function of the arguments. Time is linear in the
    cells, and so is memory: 4 bytes for each.

    Args:
        pairs: Token ids without special symbols; either side may be empty.
        num_iterations: Iterations of EM; the likelihood has one maximum, and five iterations come close enough.

    Source: Brown et al. 1993, https://aclanthology.org/J93-2003, section 4.1 (model 1).
    """
    keys = np.empty(0, dtype=np.int64)
    for block, _ in _cells(pairs, target_vocab_size):
        keys = np.unique(np.concatenate([keys, block]), return_counts=True)[0]  # sorts, which is faster than hashing
    source_ids, target_ids = np.divmod(keys, target_vocab_size)
    cells = []
    for block, widths in _cells(pairs, target_vocab_size):
        own, places = np.unique(block, return_inverse=True)  # few keys are looked up, and those in order
        cells.append((np.searchsorted(keys, own)[places].astype(np.int32), widths))
    probabilities = np.ones(len(keys))  # only their ratios matter, and only within a target token's cells
    for _ in range(num_iterations):
        counts = np.zeros(len(keys))  # how many target tokens each entry explains
        for entries, widths in cells:
            shares = probabilities[entries]
            # The empty word is among the sources of each token, so that no total is 0.
            shares /= np.repeat(np.add.reduceat(shares, np.cumsum(widths) - widths), widths)
            counts += np.bincount(entries, shares, minlength=len(keys))
        probabilities = counts / np.bincount(source_ids, counts)[source_ids]
    return Lexicon(source_ids, target_ids, probabilities)


def _cells(
    pairs: Sequence[EncodedPair], target_vocab_size: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The keys of the cells, target token by target token, and for each of these its number of cells."""
    for start in range(0, len(pairs), _BLOCK_PAIRS):
        block = [pair for pair in pairs[start : start + _BLOCK_PAIRS] if pair.target]
        if block:
            sources = [np.array([NULL_ID, *pair.source]) * target_vocab_size for pair in block]
            cells = [np.add.outer(pair.target, source).ravel() for pair, source in zip(block, sources, strict=True)]
            widths = [len(source) for source in sources]
            yield np.concatenate(cells), np.repeat(widths, [len(pair.target) for pair in block])
