"""Lengths of sentences, in characters and in tokens; pairs of which one side is too long to translate the other."""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# Of Multi30k's 31,014 pairs of training, validation and test 2 lie beyond, both truly wrong ("@@" for a sentence); of
# the embedded corpus's 13,000 none does. Halves of sentences do from about 80 characters on.
_MAX_DEVIATIONS = 6.0
_FEW_PAIRS = 20  # of so few pairs nothing can be said about what is usual
# Upper ends of the histogram's columns, in tokens; the last column is open.
HISTOGRAM_ENDS = (0, 5, 10, 15, 20, 30, 40, 50, 75, 100, 150, 200, 300, 500)


class Lengths(NamedTuple):
    """Tokens of the training sentences, without special symbols."""

    source_histogram: tuple[int, ...]  # sentences up to each of `ends`, and over the last
    target_histogram: tuple[int, ...]
    mean_source: float
    mean_target: float
    longest_source: int
    longest_target: int
    ends: tuple[int, ...] = HISTOGRAM_ENDS


def measure_lengths(sources: NDArray[np.int64], targets: NDArray[np.int64]) -> Lengths:
    """The histograms, means and maxima of both sides' numbers of tokens."""
    return Lengths(
        length_histogram(sources),
        length_histogram(targets),
        float(sources.mean()),
        float(targets.mean()),
        int(sources.max()),
        int(targets.max()),
    )


def length_histogram(lengths: NDArray[np.int64]) -> tuple[int, ...]:
    """Lines of up to each of `HISTOGRAM_ENDS` tokens and over the one before; then those over the last."""
    columns = np.searchsorted(HISTOGRAM_ENDS, lengths)
    return tuple(int(count) for count in np.bincount(columns, minlength=len(HISTOGRAM_ENDS) + 1))


def count_items(lines: Sequence[Sequence[object]]) -> NDArray[np.int64]:
    """The characters of each text, or the tokens of each sentence."""
    return np.fromiter(map(len, lines), dtype=np.int64, count=len(lines))


def flatten(ids: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """All tokens, sentence after sentence."""
    return np.fromiter(chain.from_iterable(ids), dtype=np.int64)


def find_unlikely_lengths(source_lengths: NDArray[np.int64], target_lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Pairs whose lengths in characters fit each other far worse than is usual in the corpus.

    A translation is c times as long as its source, and its squared deviation from that grows with the length. Both
    the factor and the usual deviation are the corpus's own: medians, which a few bad pairs do not move.

    Returns:
        The positions of the pairs; pairs with an empty side are not among them.

    Source: Gale and Church 1993, https://aclanthology.org/J93-1004.
    """
    real = np.flatnonzero((source_lengths > 0) & (target_lengths > 0))
    if len(real) < _FEW_PAIRS:
        return np.empty(0, dtype=np.int64)
    sources, targets = source_lengths[real].astype(np.float64), target_lengths[real].astype(np.float64)
    factor = np.median(targets / sources)
    deviations = (targets - factor * sources) / np.sqrt(factor * sources + targets)
    deviations -= np.median(deviations)
    usual = 1.4826 * np.median(np.abs(deviations))  # the standard deviation of a normal distribution
    # Where all lengths follow one rule, such as digits reversed, the least deviation is no sign; so at least a quarter.
    return real[np.abs(deviations) > _MAX_DEVIATIONS * max(usual, 0.25)]
