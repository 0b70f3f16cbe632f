"""Which target subword translates which source subword, and how likely: IBM model 1, learnt from sentence pairs by EM.

A *cell* is one source token beside one target token of a pair; an *entry* is a source id and a target id that share a
cell somewhere, written as one number, its key: source id · target_vocab_size + target id.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from translate.data.batching import EncodedPair
from translate.data.tokenizer import PAD_ID

NULL_ID = PAD_ID
"""The empty word of every source, which translates into target tokens without a counterpart; no token has its id."""
_BLOCK_PAIRS = 1000  # pairs whose cells are processed at once


class Lexicon(NamedTuple):
    """t(target | source) of each entry, sorted by source id and then by target id; `NULL_ID` is a source too."""

    source_ids: NDArray[np.int64]
    target_ids: NDArray[np.int64]
    probabilities: NDArray[np.float64]  # sum to 1 over the targets of a source


def learn_lexicon(
    pairs: Sequence[EncodedPair], *, source_vocab_size: int, target_vocab_size: int, num_iterations: int = 5
) -> Lexicon:
    """The translation probabilities that explain the pairs best, if each target token comes from one source token.

    EM starts from uniform probabilities, and the result is a pure function of the arguments. Time is linear in the
    cells, of which each takes 4 bytes of memory.

    Args:
        pairs: Token ids without special symbols; either side may be empty.
        num_iterations: Iterations of EM; the likelihood has one maximum, and little of use changes after five.

    Source: Brown et al. 1993, https://aclanthology.org/J93-2003, section 4.1 (model 1).
    """
    by_block = [_distinct(cells) for cells, _ in _find_cells(pairs, target_vocab_size)]
    keys = _distinct(np.concatenate([np.empty(0, dtype=np.int64), *by_block]))
    blocks = [
        (np.searchsorted(keys, cells).astype(np.int32), widths)
        for cells, widths in _find_cells(pairs, target_vocab_size)
    ]
    source_ids = keys // target_vocab_size
    assert source_ids.max(initial=0) < source_vocab_size
    probabilities = np.ones(len(keys))  # only their ratios matter, and only within a target token's cells
    for _ in range(num_iterations):
        # How many target tokens each entry explains, if a token is shared out by the probabilities of its sources.
        counts = np.zeros(len(keys))
        for entries, widths in blocks:
            shares = probabilities[entries]
            shares /= np.repeat(np.add.reduceat(shares, np.cumsum(widths) - widths), widths)
            counts += np.bincount(entries, shares, minlength=len(keys))
        probabilities = counts / np.bincount(source_ids, counts, minlength=source_vocab_size)[source_ids]
    return Lexicon(source_ids, keys % target_vocab_size, probabilities)


def _distinct(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.unique(keys, return_counts=True)[0]  # which sorts: numpy's hash table takes many times as long


def _find_cells(
    pairs: Sequence[EncodedPair], target_vocab_size: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The keys of all cells, block by block: one target token after the other, and the number of cells of each."""
    for start in range(0, len(pairs), _BLOCK_PAIRS):
        block = [pair for pair in pairs[start : start + _BLOCK_PAIRS] if pair.target]
        if block:
            cells = [
                np.add.outer(pair.target, np.multiply((NULL_ID, *pair.source), target_vocab_size)) for pair in block
            ]
            widths = [np.full(len(pair.target), 1 + len(pair.source)) for pair in block]
            yield np.concatenate([each.ravel() for each in cells]), np.concatenate(widths)
