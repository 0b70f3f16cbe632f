"""Pairs of which one side is too long to translate the other."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

# Of Multi30k's 31,014 pairs of training, validation and test 2 lie beyond, both truly wrong ("@@" for a sentence); of
# the embedded corpus's 13,000 none does. Halves of sentences do from about 80 characters on.
_MAX_DEVIATIONS = 6.0
_FEW_PAIRS = 20  # of fewer nothing can be said about what is usual


def count_characters(lines: Iterable[str], *, count: int) -> NDArray[np.int64]:
    """The length of each sentence."""
    return np.fromiter(map(len, lines), dtype=np.int64, count=count)


def find_unlikely_lengths(source_lengths: NDArray[np.int64], target_lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Pairs whose lengths in characters fit each other far worse than those of the corpus do.

    A translation is c times as long as its source, and the square of what it deviates by grows with the length; both
    the factor and the usual deviation are the corpus's own, by medians, which some bad pairs do not move.

    Returns:
        Their positions; pairs with an empty side are not among them.

    Source: Gale and Church 1993, https://aclanthology.org/J93-1004.
    """
    real = np.flatnonzero((source_lengths > 0) & (target_lengths > 0))
    if len(real) < _FEW_PAIRS:
        return np.empty(0, dtype=np.int64)
    sources, targets = source_lengths[real].astype(np.float64), target_lengths[real].astype(np.float64)
    factor = np.median(targets / sources)
    deviations = (targets - factor * sources) / np.sqrt(factor * sources + targets)
    deviations -= np.median(deviations)
    usual = 1.4826 * np.median(np.abs(deviations))  # the standard deviation, if it were a normal distribution
    # Where all lengths follow one rule, such as digits reversed, the least deviation is no sign; half a letter a root.
    return real[np.abs(deviations) > _MAX_DEVIATIONS * max(usual, 0.25)]
