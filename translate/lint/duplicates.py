"""Sentences that occur again: twice in a corpus, as their own translation, or in both training and held-out text.

Sentences are compared by 64-bit hashes of their words in lower case, 8 bytes each: that two different ones of ten
million share a hash has a chance of one in 300,000.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_EMPTY = hash("")
_ODD = np.int64(-7046029254386353131)  # 2^64 divided by the golden ratio: spreads the source's bits over the sum


class PairHashes(NamedTuple):
    """What stands for the sentences of a corpus in this process: equal if they differ in spaces and case alone."""

    sources: NDArray[np.int64]
    targets: NDArray[np.int64]

    @property
    def pairs(self) -> NDArray[np.int64]:
        """A hash of each pair."""
        return self.sources * _ODD ^ self.targets


class Leakage(NamedTuple):
    """Held-out pairs that training has seen; positions in the held-out corpus and of one such training pair."""

    pairs: NDArray[np.int64]  # source and target both
    pairs_in_training: NDArray[np.int64]
    sources: NDArray[np.int64]  # the source alone, with another target
    sources_in_training: NDArray[np.int64]


def hash_lines(lines: Iterable[str], *, count: int) -> NDArray[np.int64]:
    """A number for each sentence, the same for those that differ only in spaces and case."""
    return np.fromiter(map(_hash, lines), dtype=np.int64, count=count)


def hash_pairs(sources: Sequence[str], targets: Sequence[str]) -> PairHashes:
    """The numbers of both sides of a corpus."""
    return PairHashes(hash_lines(sources, count=len(sources)), hash_lines(targets, count=len(targets)))


def concatenate(hashes: Sequence[PairHashes]) -> PairHashes:
    """Several corpora as one."""
    return PairHashes(
        np.concatenate([each.sources for each in hashes]), np.concatenate([each.targets for each in hashes])
    )


def find_empty(hashes: PairHashes) -> NDArray[np.int64]:
    """Pairs with a side that is empty or all spaces."""
    return np.flatnonzero((hashes.sources == _EMPTY) | (hashes.targets == _EMPTY))


def find_equal(hashes: PairHashes) -> NDArray[np.int64]:
    """Pairs whose source is its own translation; empty ones not."""
    return np.flatnonzero((hashes.sources == hashes.targets) & (hashes.sources != _EMPTY))


def find_repeated(hashes: PairHashes) -> NDArray[np.int64]:
    """Pairs that occurred before, both sides; the first of each is not among them, nor are pairs of nothing."""
    again = _after_first(hashes.pairs)
    return again[(hashes.sources[again] != _EMPTY) | (hashes.targets[again] != _EMPTY)]


def find_ambiguous(hashes: PairHashes) -> NDArray[np.int64]:
    """Pairs whose source occurred before with another target; not pairs repeated whole, nor empty sources."""
    _, firsts = np.unique(hashes.pairs, return_index=True)
    firsts = np.sort(firsts)
    again = firsts[_after_first(hashes.sources[firsts])]
    return again[hashes.sources[again] != _EMPTY]


def find_leakage(held_out: PairHashes, training: PairHashes) -> Leakage:
    """Which held-out pairs, or their sources alone, also stand in the training corpus."""
    pairs, pairs_in_training = _find_in(held_out.pairs, training.pairs)
    sources, sources_in_training = _find_in(held_out.sources, training.sources)
    alone = ~np.isin(sources, pairs) & (held_out.sources[sources] != _EMPTY)
    return Leakage(pairs, pairs_in_training, sources[alone], sources_in_training[alone])


def _hash(line: str) -> int:
    text = line.casefold().strip()
    return hash(" ".join(text.split()) if "  " in text else text)  # most lines have single spaces, and need no split


def _after_first(values: NDArray[np.int64]) -> NDArray[np.int64]:
    _, firsts = np.unique(values, return_index=True)
    is_again = np.ones(len(values), dtype=np.bool_)
    is_again[firsts] = False
    return np.flatnonzero(is_again)


def _find_in(values: NDArray[np.int64], where: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions of values that are there, and for each the position of one that is equal.

    The few held-out values are sorted, and the many of training looked up among them.
    """
    order = np.argsort(values, kind="stable")
    ranked = values[order]
    places = np.minimum(np.searchsorted(ranked, where), len(ranked) - 1)
    hits = np.flatnonzero(ranked[places] == where)
    unique, firsts = np.unique(where[hits], return_index=True)
    found = np.flatnonzero(np.isin(values, unique))
    return found, hits[firsts[np.searchsorted(unique, values[found])]]
