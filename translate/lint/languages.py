"""Lines in the wrong language, told by the corpus itself: which of its two sides does a line look like?

No list of languages is needed: each side's trigrams of characters are a model of its language, and a line that is far
likelier under the other side's stands on the wrong one. A line unlike both is perhaps in a third language.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_BUCKETS_BITS = 18  # trigrams share 262,144 places by a hash; a corpus has some tens of thousands of them
_ADDED = 0.5  # to each count, so that a trigram that was never seen is unlikely and not impossible
_CHUNK_LINES = 5_000
_MAX_CHARACTERS = 1000  # of a line; more tell nothing new, and bound the memory for a chunk

# Measured on Multi30k and the embedded corpus, with their validation and test sets, 44,000 pairs: of the clean lines
# none is called the other side's, nor foreign; of lines in the wrong language, 1 to 30 % of all, 95 to 100 % are found,
# and every line of a held-out set whose sides are swapped. Next to the border are two clean lines of 13.6 and 10.4
# nats, "Bill Cunningham in den Straßen von New York City." and one like it.
_MIN_NATS = 15.0
_MIN_NATS_A_CHARACTER = 0.1
# Unlike a side: so many deviations below its usual likelihood, in a line long enough to show it. Of ten lines in other
# languages 8 are found so in the embedded corpus and 6 in Multi30k; those of near relatives (Swedish, Dutch) are not.
_MAX_DEVIATIONS = 7.0
_MIN_CHARACTERS = 25
_FEW_PAIRS = 200  # of fewer lines the trigrams of a language cannot be learnt


class WrongLanguages(NamedTuple):
    """Positions of the lines that look so; copies, where both sides are equal, may be among them."""

    sources_like_targets: NDArray[np.int64]
    targets_like_sources: NDArray[np.int64]
    sources_like_neither: NDArray[np.int64]
    targets_like_neither: NDArray[np.int64]


class _Trigrams(NamedTuple):
    """The trigrams of some lines, one after the other."""

    lines: NDArray[np.int64]
    buckets: NDArray[np.int64]
    counts: NDArray[np.int64]  # for each line


class Languages(NamedTuple):
    """How often each trigram occurs on the two sides of a corpus: what is known of its languages."""

    sources: NDArray[np.float64]
    targets: NDArray[np.float64]


def learn_languages(sources: Sequence[str], targets: Sequence[str]) -> Languages | None:
    """The languages of a corpus; None: it is too small."""
    if len(sources) < _FEW_PAIRS:
        return None
    return Languages(_count(sources), _count(targets))


def find_wrong_languages(
    sources: Sequence[str], targets: Sequence[str], languages: Languages, *, is_own: bool
) -> WrongLanguages:
    """Naive Bayes between the two sides, on trigrams of characters.

    Where both sides are of one language (as in paraphrasing) nothing is found.

    Args:
        languages: What the sides should be.
        is_own: They were learnt from these very lines, so each line is left out of its side's counts.
    """
    source = _compare(sources, languages.sources, languages.targets, is_own=is_own)
    target = _compare(targets, languages.targets, languages.sources, is_own=is_own)
    lowest_source, lowest_target = _lowest_usual(source.own_fits), _lowest_usual(target.own_fits)
    like_target, foreign_source = _decide(source, own_lowest=lowest_source, other_lowest=lowest_target)
    like_source, foreign_target = _decide(target, own_lowest=lowest_target, other_lowest=lowest_source)
    return WrongLanguages(like_target, like_source, foreign_source, foreign_target)


def _count(lines: Sequence[str]) -> NDArray[np.float64]:
    counts = np.zeros(1 << _BUCKETS_BITS)
    for first in range(0, len(lines), _CHUNK_LINES):
        counts += np.bincount(_trigrams(lines[first : first + _CHUNK_LINES]).buckets, minlength=len(counts))
    return counts


class _Comparison(NamedTuple):
    """Lines of one side under the languages of both."""

    is_other: NDArray[np.bool_]  # it looks like the other side
    own_fits: NDArray[np.float64]  # nats a trigram under its own side's language; NaN: too short to say
    other_fits: NDArray[np.float64]  # under the other's


def _compare(
    lines: Sequence[str], own: NDArray[np.float64], other: NDArray[np.float64], *, is_own: bool
) -> _Comparison:
    smoothing = _ADDED * len(own)
    rest = np.maximum(own - 1.0, 0.0) if is_own else own
    own_log = np.log(rest + _ADDED) - np.log(own.sum() + smoothing)
    other_log = np.log(other + _ADDED) - np.log(other.sum() + smoothing)
    # What neither side has says nothing about which of them it is.
    difference = np.where((rest > 0.0) | (other > 0.0), other_log - own_log, 0.0)
    parts = []
    for first in range(0, len(lines), _CHUNK_LINES):
        trigrams = _trigrams(lines[first : first + _CHUNK_LINES])
        evidence, own_sum, other_sum = (
            np.bincount(trigrams.lines, nats[trigrams.buckets], minlength=len(trigrams.counts))
            for nats in (difference, own_log, other_log)
        )
        counts = np.where(trigrams.counts >= _MIN_CHARACTERS, trigrams.counts, np.nan)
        is_other = (evidence > _MIN_NATS) & (evidence > _MIN_NATS_A_CHARACTER * trigrams.counts)
        parts.append((is_other, own_sum / counts, other_sum / counts))
    return _Comparison(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _decide(
    side: _Comparison, *, own_lowest: float, other_lowest: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The lines that look like the other side, and those that look like neither."""
    is_other = side.is_other & ~(side.other_fits < other_lowest)
    is_foreign = (side.is_other | (side.own_fits < own_lowest)) & ~is_other
    return np.flatnonzero(is_other), np.flatnonzero(is_foreign)


def _lowest_usual(fits: NDArray[np.float64]) -> float:
    """Below it a line is unlike the others of its side; minus infinity where too few are known."""
    known = fits[~np.isnan(fits)]
    if len(known) < _FEW_PAIRS:
        return -np.inf
    middle = np.median(known)
    usual = 1.4826 * np.median(np.abs(known - middle))
    return float(middle - _MAX_DEVIATIONS * max(usual, 0.05))


def _trigrams(lines: Sequence[str]) -> _Trigrams:
    """Each line between two spaces and one, in lower case; the trigrams over a line's end belong to the line."""
    framed = [f"  {line[:_MAX_CHARACTERS].casefold()} " for line in lines]
    counts = np.fromiter(map(len, framed), dtype=np.int64, count=len(framed))
    letters = np.frombuffer("".join(framed).encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.uint64)
    # Multiply and shift: three odd constants of which the bits are spread, and one more round.
    mixed = (
        letters[:-2] * np.uint64(0x9E3779B97F4A7C15)
        + letters[1:-1] * np.uint64(0xC2B2AE3D27D4EB4F)
        + letters[2:] * np.uint64(0x165667B19E3779F9)
    )
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    buckets = (mixed >> np.uint64(64 - _BUCKETS_BITS)).astype(np.int64)
    return _Trigrams(np.repeat(np.arange(len(framed)), counts)[:-2], buckets, counts)
