"""Sentences that occur again: twice in a corpus, as their own translation, or in both training and held-out text.

Sentences are compared by 64-bit hashes of their words in lower case, 8 bytes each: the chance that two different ones
of ten million share a hash is one in 300,000.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_EMPTY = hash("")
_ODD = np.int64(-7046029254386353131)  # 2^64 divided by the golden ratio: spreads the source's bits over the sum


class PairHashes(NamedTuple):
    """A number for each sentence of a corpus, valid in this process; spaces and case make no difference."""

    sources: NDArray[np.int64]
    targets: NDArray[np.int64]

    @property
    def pairs(self) -> NDArray[np.int64]:
        """A hash of each pair."""
        return self.sources * _ODD ^ self.targets


class Leakage(NamedTuple):
    """Positions of held-out pairs that also occur in training, and of one such training pair for each."""

    pairs: NDArray[np.int64]  # source and target both
    pairs_in_training: NDArray[np.int64]
    sources: NDArray[np.int64]  # the source alone, with another target
    sources_in_training: NDArray[np.int64]


def hash_pairs(sources: Sequence[str], targets: Sequence[str]) -> PairHashes:
    """The hashes of both sides of a corpus."""
    return PairHashes(*(np.fromiter(map(_hash, side), dtype=np.int64, count=len(side)) for side in (sources, targets)))


def concatenate(hashes: Iterable[PairHashes]) -> PairHashes:
    """Several corpora as one."""
    return PairHashes(*map(np.concatenate, zip(*hashes, strict=True)))


def find_repetitions(hashes: PairHashes) -> dict[str, NDArray[np.int64]]:
    """Positions of pairs by what they repeat.

    Returns:
        empty: A side is empty or all spaces.
        equal: The source is its own translation.
        repeated: Both sides occurred before together; of pairs with two empty sides none counts.
        ambiguous: The source occurred before with another target; an empty source does not count.
    """
    no_source, no_target = hashes.sources == _EMPTY, hashes.targets == _EMPTY
    _, firsts = np.unique(hashes.pairs, return_index=True)
    firsts = np.sort(firsts)
    repeated, ambiguous = _after_first(hashes.pairs), firsts[_after_first(hashes.sources[firsts])]
    return {
        "empty": np.flatnonzero(no_source | no_target),
        "equal": np.flatnonzero((hashes.sources == hashes.targets) & ~no_source),
        "repeated": repeated[~(no_source & no_target)[repeated]],
        "ambiguous": ambiguous[~no_source[ambiguous]],
    }


def find_leakage(held_out: PairHashes, training: PairHashes) -> Leakage:
    """Held-out pairs that also occur in the training corpus, whole or by their source alone."""
    pairs, pairs_in_training = _find_in(held_out.pairs, training.pairs)
    sources, sources_in_training = _find_in(held_out.sources, training.sources)
    alone = ~np.isin(sources, pairs) & (held_out.sources[sources] != _EMPTY)
    return Leakage(pairs, pairs_in_training, sources[alone], sources_in_training[alone])


def _hash(line: str) -> int:
    text = line.casefold().strip()
    return hash(" ".join(text.split()) if "  " in text else text)  # most lines have single spaces, and need no split


def _after_first(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions of values that occurred before."""
    _, firsts = np.unique(values, return_index=True)
    is_again = np.ones(len(values), dtype=np.bool_)
    is_again[firsts] = False
    return np.flatnonzero(is_again)


def _find_in(values: NDArray[np.int64], where: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions of the values that occur in `where`, and for each the position of one that is equal.

    The few held-out values are sorted, and the many of training are looked up among them.
    """
    ranked = np.sort(values)
    places = np.minimum(np.searchsorted(ranked, where), len(ranked) - 1)
    hits = np.flatnonzero(ranked[places] == where)
    unique, firsts = np.unique(where[hits], return_index=True)
    found = np.flatnonzero(np.isin(values, unique))
    return found, hits[firsts[np.searchsorted(unique, values[found])]]
