"""Lines that do not belong together: implausible lengths, and runs of lines that match a neighbour.

Such a run begins where a line was lost or duplicated on one side. There are two kinds of evidence. The lengths of lines
and translations are correlated, which shows a shift of hundreds of lines without a dictionary. A dictionary learnt from
the pairs themselves (IBM model 1) then judges line by line, and the cheapest path through the offsets shows where a
shift begins and ends.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from translate.data.batching import EncodedPair
from translate.data.lexicon import NULL_ID, learn_lexicon
from translate.data.token_store import flatten

# This finds 16 of Multi30k's 29,000 training pairs, which are free or wrong ("@@" for a sentence), none of the embedded
# corpus's 13,000, and 73 % of targets that end after 30 to 60 % of their words or go on for another sentence.
_MAX_LENGTH_DEVIATIONS = 4.0
_MAX_STRING_DEVIATIONS = 8.0  # in interfaces, where `Bid` is `Geldkurs (Ihr Verkauf)`
_FEW_LENGTHS = 20  # fewer are too few to estimate the usual deviation
_OFFSETS = (-2, -1, 0, 1, 2)
_STRAIGHT = _OFFSETS.index(0)
_BLOCK_LINES = 500  # lines whose lengths are correlated at each offset
_MIN_BLOCK_LINES = 50
# A correlation of n unrelated pairs deviates from 0 by n^-0.5 (Fisher). Five of these: one block in three million.
_DEVIATIONS = 5.0
_DICTIONARY_PAIRS = 10_000
_MIN_PROBABILITY = 0.1  # lower ones do not count as translations
_MAX_TRANSLATIONS = 3  # of each subword
_MAX_NATS = 6.0  # weight limit of one match: a rare word may occur in neighbouring lines
# The cost of a change of offset; a run within the corpus pays twice. Measured: in 39 clean parts of 1,000 lines of
# Multi30k and the embedded corpus no line is reported as shifted; runs of 20 shifted lines are found in 28 of these
# parts, and in the whole corpora, whose dictionary is better, runs of 5 too. Borders are right to within a line or so.
_CHANGE_NATS = 60.0
_FEW_PAIRS = 500  # fewer pairs are not enough to learn a dictionary
# Of the evidence that a line could have, its target's share has a median of 0.76 in Multi30k, and a deviation of 0.17.
_LOW_SHARE = 0.3
_MAX_SHARE_DEVIATIONS = 3.3
_NEIGHBOURS = 2  # on each side of a line, whose shares tell a misaligned block from one free translation
_LEAST_NATS = 10.0  # of the evidence that a line could have; a shorter line is not judged
_MAX_TOKENS = 200  # of a line; a pair's cells in the dictionary grow with the product of its lengths

Ints = NDArray[np.int64]
TokenIds = Sequence[Sequence[int]]


class ShiftedLines(NamedTuple):
    """The sources at positions `first` to `last` are translated by the targets `offset` lines further on."""

    first: int
    last: int
    offset: int | None  # None: by none of the targets nearby


class Misaligned(NamedTuple):
    """Lines that do not translate each other."""

    shifts: list[ShiftedLines]
    pairs: Ints  # positions of single lines, which may be in the shifts too


def count_items(lines: Sequence[Sequence[object]]) -> Ints:
    """The characters of each text, or the tokens of each sentence."""
    return np.fromiter(map(len, lines), dtype=np.int64, count=len(lines))


def find_unlikely_lengths(source_lengths: Ints, target_lengths: Ints, *, is_interface: bool = False) -> Ints:
    """Positions of pairs whose two lengths in characters match far worse than usual.

    A translation is c times as long as its source, and its squared deviation from that grows with the length. Both
    the factor and the usual deviation are the corpus's own: medians, which a few bad pairs do not move.

    Source: Gale and Church 1993, https://aclanthology.org/J93-1004.
    """
    real = np.flatnonzero((source_lengths > 0) & (target_lengths > 0))
    if len(real) < _FEW_LENGTHS:
        return np.empty(0, dtype=np.int64)
    sources, targets = source_lengths[real].astype(np.float64), target_lengths[real].astype(np.float64)
    factor = np.median(targets / sources)
    deviations = (targets - factor * sources) / np.sqrt(factor * sources + targets)
    deviations -= np.median(deviations)
    usual = 1.4826 * np.median(np.abs(deviations))  # the standard deviation of a normal distribution
    # If all lengths follow one rule, as in reversed digits, tiny deviations would stand out; so at least a quarter.
    most = _MAX_STRING_DEVIATIONS if is_interface else _MAX_LENGTH_DEVIATIONS
    return real[np.abs(deviations) > most * max(usual, 0.25)]


def find_misaligned(source_ids: TokenIds, target_ids: TokenIds, *, numbers: Ints, vocab_size: int) -> Misaligned:
    """Runs of lines whose translation is one or two lines away, and lines whose target is not a translation.

    Args:
        source_ids: Subwords of sources, in the corpus's order, in runs of neighbours.
        target_ids: Subwords of the targets on the same lines.
        numbers: The position of each line in the corpus.
        vocab_size: The size of the larger vocabulary.

    Returns:
        The runs; borders are accurate to a few lines, or to a gap between the given lines.
    """
    if len(source_ids) < _FEW_PAIRS:
        return Misaligned([], np.empty(0, dtype=np.int64))
    block_offsets = _block_offsets(count_items(source_ids), count_items(target_ids))
    source_ids, target_ids = ([ids[:_MAX_TOKENS] for ids in side] for side in (source_ids, target_ids))
    evidence, shares = _evidence(source_ids, target_ids, block_offsets=block_offsets, vocab_size=vocab_size)
    for offset in _OFFSETS:  # a line at a gap, where neighbours are missing, says nothing
        neighbours = np.clip(np.arange(len(numbers)) + offset, 0, len(numbers) - 1)
        evidence[np.abs(numbers[neighbours] - numbers) > abs(offset)] = 0.0
    offsets = _best_path(evidence)
    unrelated = _unrelated(evidence, offsets)
    offsets[unrelated] = 0
    runs = _runs(offsets, numbers) + [run._replace(offset=None) for run in _runs(unrelated.astype(np.int64), numbers)]
    return Misaligned(sorted(runs, key=lambda run: run.first), numbers[_unlikely_pairs(shares)])


def _block_offsets(source_lengths: Ints, target_lengths: Ints) -> Ints:
    """For each line the offset at which the lengths of its block are correlated best; 0 unless it is clear."""
    sources, targets = np.log1p(source_lengths), np.log1p(target_lengths)
    offsets = np.zeros(len(sources), dtype=np.int64)
    for start in range(0, len(sources), _BLOCK_LINES):
        lines = np.arange(max(start, 2), min(start + _BLOCK_LINES, len(sources) - 2))
        if len(lines) < _MIN_BLOCK_LINES:
            continue
        with np.errstate(divide="ignore", invalid="ignore"):  # lines of one length have no correlation
            correlations = [np.corrcoef(sources[lines], targets[lines + offset])[0, 1] for offset in _OFFSETS]
        correlations = np.nan_to_num(correlations)
        best = int(np.argmax(correlations))
        if correlations[best] - correlations[_STRAIGHT] > _DEVIATIONS / np.sqrt(len(lines)):
            offsets[start : start + _BLOCK_LINES] = _OFFSETS[best]
    return offsets


def _evidence(
    source_ids: TokenIds, target_ids: TokenIds, *, block_offsets: Ints, vocab_size: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For each line and offset, the evidence in nats that the target there translates the line.

    The second array is, for each line, the share of the possible evidence that its target has; NaN: there is little.

    Only the best translations of each subword count, each by how much likelier it is next to its source than overall.
    """
    num_lines = len(source_ids)
    learnt = np.linspace(0, num_lines - 1, min(num_lines, _DICTIONARY_PAIRS)).astype(np.int64)
    partners = np.clip(learnt + block_offsets[learnt], 0, num_lines - 1)
    chosen = zip(learnt.tolist(), partners.tolist(), strict=True)
    pairs = [EncodedPair(list(source_ids[line]), list(target_ids[partner])) for line, partner in chosen]
    sources, targets = flatten(source_ids).ids, flatten(target_ids).ids
    source_lines = np.repeat(np.arange(num_lines), count_items(source_ids))
    target_lines = np.repeat(np.arange(num_lines), count_items(target_ids))
    shares = np.bincount(targets, minlength=vocab_size) / max(1, len(targets))
    translations, weights = _best_translations(pairs, shares, vocab_size)
    token_weights = weights[:, sources]  # (rank, source token)
    has_one = token_weights > 0.0
    lines = np.broadcast_to(source_lines, has_one.shape)[has_one]
    # If several subwords have the same translation in a line, one counts.
    unique = np.unique(lines * vocab_size + translations[:, sources][has_one], return_index=True, return_inverse=True)
    keys, firsts, places = unique
    key_weights = token_weights[has_one][firsts]
    there = np.unique(target_lines * vocab_size + targets)
    found = np.zeros((num_lines, len(_OFFSETS)))
    for column, offset in enumerate(_OFFSETS):
        matches = np.isin(keys + offset * vocab_size, there, assume_unique=True)
        found[:, column] = np.bincount(keys[matches] // vocab_size, key_weights[matches], minlength=num_lines)
        if offset == 0:
            explained = np.zeros(token_weights.shape)
            explained[has_one] = token_weights[has_one] * matches[places]
    total, most = (
        np.bincount(source_lines, weights.max(axis=0), minlength=num_lines) for weights in (explained, token_weights)
    )
    return found, np.divide(total, most, out=np.full(num_lines, np.nan), where=most >= _LEAST_NATS)


def _best_translations(
    pairs: list[EncodedPair], shares: NDArray[np.float64], vocab_size: int
) -> tuple[Ints, NDArray[np.float64]]:
    """The best translations of each source subword, as (rank, source id), and the nats that each weighs; 0: none."""
    lexicon = learn_lexicon(pairs, target_vocab_size=vocab_size, num_iterations=3)
    likely = np.flatnonzero((lexicon.probabilities >= _MIN_PROBABILITY) & (lexicon.source_ids != NULL_ID))
    order = likely[np.lexsort((-lexicon.probabilities[likely], lexicon.source_ids[likely]))]
    sources, targets = lexicon.source_ids[order], lexicon.target_ids[order]
    ranks = np.arange(len(order)) - np.searchsorted(sources, sources)
    first = ranks < _MAX_TRANSLATIONS
    log_ratios = np.log(lexicon.probabilities[order] / np.maximum(shares[targets], 1e-12))
    translations = np.zeros((_MAX_TRANSLATIONS, vocab_size), dtype=np.int64)
    weights = np.zeros((_MAX_TRANSLATIONS, vocab_size))
    translations[ranks[first], sources[first]] = targets[first]
    weights[ranks[first], sources[first]] = np.clip(log_ratios[first], 0.0, _MAX_NATS)
    return translations, weights


def _best_path(evidence: NDArray[np.float64]) -> Ints:
    """For each line the offset on the path with the most evidence; each change has its cost, the first line's too."""
    change = _CHANGE_NATS * (1.0 - np.eye(len(_OFFSETS)))
    score, came_from = -change[_STRAIGHT], np.empty(evidence.shape, dtype=np.int8)
    for line, here in enumerate(evidence):
        reached = score[:, None] - change
        came_from[line] = reached.argmax(axis=0)
        score = reached.max(axis=0) + here
        score[_STRAIGHT] += 1e-6  # with equal evidence, such as none, a line is not shifted
    state = int(score.argmax())
    path = np.empty(len(evidence), dtype=np.int64)
    for line in range(len(evidence) - 1, -1, -1):
        path[line] = _OFFSETS[state]
        state = int(came_from[line, state])
    return path


def _unrelated(evidence: NDArray[np.float64], offsets: Ints) -> NDArray[np.bool_]:
    """Lines of blocks in which the targets on the path are no better translations than their neighbours.

    The advantage of the path is a mean over the block's lines. For pairs that translate each other it is 20 or more
    standard errors above 0, for unrelated ones it is within a few.
    """
    on_path = evidence[np.arange(len(evidence)), offsets - _OFFSETS[0]]
    better = on_path - (evidence.sum(axis=1) - on_path) / (len(_OFFSETS) - 1)
    unrelated = np.zeros(len(evidence), dtype=np.bool_)
    for start in range(0, len(evidence), _BLOCK_LINES):
        block = better[start : start + _BLOCK_LINES]
        if len(block) >= _BLOCK_LINES // 2:
            unrelated[start : start + _BLOCK_LINES] = block.mean() < _DEVIATIONS * block.std() / np.sqrt(len(block))
    return unrelated


def _unlikely_pairs(shares: NDArray[np.float64]) -> Ints:
    """Lines whose target has far less of the possible evidence than is usual, alone or together with its neighbours."""
    known = shares[~np.isnan(shares)]
    if len(known) < _FEW_PAIRS:
        return np.empty(0, dtype=np.int64)
    middle = np.median(known)
    limit = min(_LOW_SHARE, middle - _MAX_SHARE_DEVIATIONS * 1.4826 * np.median(np.abs(known - middle)))
    filled = np.pad(np.where(np.isnan(shares), middle, shares), _NEIGHBOURS, mode="edge")
    width = 2 * _NEIGHBOURS + 1
    nearby = np.convolve(filled, np.full(width, 1 / width), mode="valid")
    return np.flatnonzero((shares < limit) | ((shares < 2 * limit) & (nearby < 1.75 * limit)))


def _runs(offsets: Ints, numbers: Ints) -> list[ShiftedLines]:
    """Ranges of positions where the offset is the same and not 0."""
    borders = [0, *(np.flatnonzero(np.diff(offsets)) + 1).tolist(), len(offsets)]
    return [
        ShiftedLines(int(numbers[start]), int(numbers[stop - 1]), int(offsets[start]))
        for start, stop in pairwise(borders)
        if stop > start and offsets[start] != 0
    ]
