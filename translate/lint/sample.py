"""The part of a corpus that the slow inspections look at: all of it, or evenly spaced runs of lines."""

from collections.abc import Iterable, Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_RUN_PAIRS = 500  # a run shows by itself whether its lines are shifted


class Sample(NamedTuple):
    """Pairs of a corpus, in its order."""

    numbers: NDArray[np.int64]  # their positions in the corpus; runs of neighbours
    sources: list[str]
    targets: list[str]
    num_pairs: int  # of the corpus

    @property
    def is_whole(self) -> bool:
        """Every pair is here."""
        return len(self.numbers) == self.num_pairs


def take_sample(sources: Sequence[str], targets: Sequence[str], *, max_pairs: int) -> Sample:
    """At most so many pairs: all, or runs of 500 neighbours, the first at the beginning and the last at the end.

    The corpus is gone through once in its order, because it may lie on a disk.
    """
    is_taken = np.ones(len(sources), dtype=np.bool_)
    if len(sources) > max_pairs:
        run = min(_RUN_PAIRS, max_pairs)
        num_runs = max_pairs // run
        starts = np.linspace(0, len(sources) - run, num_runs).astype(np.int64)
        is_taken[:] = False
        for start in starts:
            is_taken[start : start + run] = True
    return Sample(np.flatnonzero(is_taken), _chosen(sources, is_taken), _chosen(targets, is_taken), len(sources))


def _chosen(lines: Iterable[str], is_taken: NDArray[np.bool_]) -> list[str]:
    return list(compress(lines, is_taken.tolist()))
