"""Which target subword translates which source subword, and how likely: IBM model 1, learnt from sentence pairs by EM.

A *cell* is one source token beside one target token of a pair; an *entry* is a source id and a target id that share a
cell somewhere. The cells are processed in blocks of pairs, all cells of a block at once.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from translate.data.batching import EncodedPair
from translate.data.tokenizer import PAD_ID

NULL_ID = PAD_ID
"""The empty word of every source, which translates into target tokens without a counterpart; no token has its id."""

# Up to so many cells, the entry of each (4 bytes) is kept between iterations; in a larger corpus it is looked up again.
_MAX_KEPT_CELLS = 100_000_000
# Of more entries, those with the smallest Dice coefficients are left out, as if they never met; those of the empty word
# stay. Each entry needs about 100 bytes while it is counted.
_MAX_ENTRIES = 10_000_000
# Processed at once, give or take a pair. The number changes only the rounding, unless entries are left out: one that is
# rare up to some block may be left out before it is seen again.
_BLOCK_CELLS = 1_000_000


class Lexicon(NamedTuple):
    """t(target | source) of each entry, sorted by source id and then by target id; `NULL_ID` is a source too."""

    source_ids: NDArray[np.int64]
    target_ids: NDArray[np.int64]
    probabilities: NDArray[np.float64]  # sum to 1 over the targets of a source


class _Corpus(NamedTuple):
    """All pairs one after the other, with the empty word before each source."""

    source_ids: NDArray[np.int64]
    target_ids: NDArray[np.int64]
    source_lengths: NDArray[np.int64]
    target_lengths: NDArray[np.int64]


_Block = tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]
"""Cells of some pairs, the sources of each target token side by side.

For each cell its entry, as a position in the table, or one past its end if the entry was left out; for each target
token its first cell; and for each target token the number of its cells.
"""


def learn_lexicon(
    pairs: Sequence[EncodedPair], *, source_vocab_size: int, target_vocab_size: int, num_iterations: int = 5
) -> Lexicon:
    """The translation probabilities that explain the pairs best, if each target token comes from one source token.

    EM starts from uniform probabilities, and the result is a pure function of the arguments. Time is linear in the
    cells, and constants bound the memory beyond the tokens themselves.

    Args:
        pairs: Token ids without special symbols; either side may be empty.
        num_iterations: Iterations of EM; the likelihood has one maximum, and little of use changes after five.

    Source: Brown et al. 1993, https://aclanthology.org/J93-2003, section 4.1 (model 1).
    """
    corpus = _Corpus(
        source_ids=np.fromiter(chain.from_iterable((NULL_ID, *pair.source) for pair in pairs), dtype=np.int64),
        target_ids=np.fromiter(chain.from_iterable(pair.target for pair in pairs), dtype=np.int64),
        source_lengths=np.array([len(pair.source) + 1 for pair in pairs], dtype=np.int64),
        target_lengths=np.array([len(pair.target) for pair in pairs], dtype=np.int64),
    )
    assert corpus.source_ids.max(initial=0) < source_vocab_size and corpus.target_ids.max(initial=0) < target_vocab_size

    keys = _find_entries(corpus, target_vocab_size)
    blocks = partial(_find_blocks, corpus, keys, target_vocab_size)
    num_cells = int((corpus.source_lengths * corpus.target_lengths).sum())
    kept_blocks = list(blocks()) if num_cells <= _MAX_KEPT_CELLS else None
    source_ids = keys // target_vocab_size
    probabilities = np.ones(len(keys))  # only their ratios matter, and only within a target token's cells
    for _ in range(num_iterations):
        counts = _expected_counts(blocks() if kept_blocks is None else kept_blocks, probabilities)
        probabilities = counts / np.bincount(source_ids, counts, minlength=source_vocab_size)[source_ids]
    return Lexicon(source_ids, keys % target_vocab_size, probabilities)


def _expected_counts(blocks: Iterable[_Block], probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """How many target tokens each entry explains, if a token is shared out by the probabilities of its sources."""
    padded = np.append(probabilities, 0.0)  # the last one is that of entries left out
    counts = np.zeros(len(padded))
    for entries, starts, widths in blocks:
        shares = padded[entries]
        # The empty word is among the sources of each token, so that no total is 0.
        shares /= np.repeat(np.add.reduceat(shares, starts), widths)
        counts += np.bincount(entries, shares, minlength=len(counts))
    return counts[:-1]


def _find_blocks(corpus: _Corpus, keys: NDArray[np.int64], target_vocab_size: int) -> Iterator[_Block]:
    """The cells of a corpus, looked up in the table of entries."""
    for cells, widths in _cell_keys(corpus, target_vocab_size):
        entries = np.searchsorted(keys, cells)
        if len(keys):
            found = keys[np.minimum(entries, len(keys) - 1)] == cells
            entries[~found] = len(keys)
        yield entries.astype(np.int32), np.cumsum(widths) - widths, widths


def _find_entries(corpus: _Corpus, target_vocab_size: int) -> NDArray[np.int64]:
    """The keys of the entries, sorted: source id · target_vocab_size + target id."""
    source_counts = np.bincount(corpus.source_ids)
    target_counts = np.bincount(corpus.target_ids)
    keys, counts = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    waiting: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []  # counted, but not yet merged

    def merge() -> None:
        nonlocal keys, counts
        every = np.concatenate([keys, *(new for new, _ in waiting)])
        weights = np.concatenate([counts, *(number for _, number in waiting)])
        keys, inverse = np.unique(every, return_inverse=True)
        counts = np.bincount(inverse, weights, minlength=len(keys)).astype(np.int64)
        waiting.clear()
        if len(keys) > _MAX_ENTRIES:
            sources, targets = keys // target_vocab_size, keys % target_vocab_size
            dice = counts / (source_counts[sources] + target_counts[targets])
            dice[sources == NULL_ID] = np.inf
            num_kept = max(_MAX_ENTRIES, int((sources == NULL_ID).sum()))
            kept = np.sort(np.argsort(-dice, kind="stable")[:num_kept])
            keys, counts = keys[kept], counts[kept]

    for cells, _ in _cell_keys(corpus, target_vocab_size):
        waiting.append(np.unique(cells, return_counts=True))
        if sum(len(new) for new, _ in waiting) > _MAX_ENTRIES:
            merge()
    merge()
    return keys


def _cell_keys(corpus: _Corpus, target_vocab_size: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The keys of the cells, target token by target token, and for each of these its number of cells.

    They come in blocks of pairs with about `_BLOCK_CELLS` cells each.
    """
    source_starts = np.cumsum(corpus.source_lengths) - corpus.source_lengths
    numbers = np.cumsum(corpus.source_lengths * corpus.target_lengths) // _BLOCK_CELLS
    borders = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    end = 0
    for start, stop in pairwise(borders):
        target_lengths = corpus.target_lengths[start:stop]
        first, end = end, end + target_lengths.sum()
        if first == end:
            continue
        widths = np.repeat(corpus.source_lengths[start:stop], target_lengths)
        # Cell 5 of a target token reads token 5 of its source: count on from where the token's cells and its source
        # begin.
        shifts = np.repeat(source_starts[start:stop], target_lengths) - (np.cumsum(widths) - widths)
        positions = np.arange(widths.sum()) + np.repeat(shifts, widths)
        target_ids = np.repeat(corpus.target_ids[first:end], widths)
        yield corpus.source_ids[positions] * target_vocab_size + target_ids, widths
