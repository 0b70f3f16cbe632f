"""Suspicious pairs of a corpus, and held-out text that training has seen, each with the lines where it is."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from translate.data.corpora import ParallelCorpus
from translate.lint.characters import KINDS as ODD_CHARACTERS
from translate.lint.characters import find_odd_characters, lines_by_kind
from translate.lint.duplicates import (
    PairHashes,
    concatenate,
    find_ambiguous,
    find_empty,
    find_equal,
    find_leakage,
    find_repeated,
    hash_pairs,
)
from translate.lint.languages import Languages, find_wrong_languages
from translate.lint.lengths import count_characters, find_unlikely_lengths
from translate.lint.misalignment import ShiftedLines, find_shifted_blocks, find_shifted_lines
from translate.lint.sample import Sample
from translate.lint.suspicions import Leak, Place, Suspects, Unit

_NUM_EXAMPLES = 3


class Survey(NamedTuple):
    """A corpus, and what is kept of one reading of it: some bytes a pair."""

    key: str  # where it stands in the config
    unit: Unit  # what its pairs are counted in
    corpus: ParallelCorpus
    hashes: PairHashes
    source_characters: NDArray[np.int64]
    target_characters: NDArray[np.int64]


def survey_corpus(key: str, corpus: ParallelCorpus, *, unit: Unit) -> Survey:
    """Read a corpus once."""
    hashes = hash_pairs(corpus.sources, corpus.targets)
    characters = (count_characters(side, count=len(side)) for side in (corpus.sources, corpus.targets))
    return Survey(key, unit, corpus, hashes, *characters)


def cheap_suspects(survey: Survey) -> list[Suspects]:
    """What one reading of a corpus tells, without understanding a word."""
    empty = find_empty(survey.hashes)
    unlikely = find_unlikely_lengths(survey.source_characters, survey.target_characters)
    found = {
        "empty": empty,
        "equal": find_equal(survey.hashes),
        "unlikely_length": np.setdiff1d(unlikely, empty),
        "repeated": find_repeated(survey.hashes),
        "ambiguous": find_ambiguous(survey.hashes),
    }
    corpus = survey.corpus
    sides = [lines_by_kind(find_odd_characters(side)) for side in (corpus.sources, corpus.targets)]
    nothing = np.empty(0, dtype=np.int64)
    for kind in ODD_CHARACTERS:
        found[kind] = np.union1d(*(side.get(kind, nothing) for side in sides))
    num_pairs = len(corpus.sources)
    return [_suspects(kind, numbers, survey, num_pairs) for kind, numbers in found.items() if len(numbers)]


def shifted_blocks(survey: Survey) -> list[Suspects]:
    """Long shifts, by the lengths of the lines alone."""
    shifted = find_shifted_blocks(survey.source_characters, survey.target_characters)
    return _shifts(shifted, survey, np.arange(len(survey.corpus.sources)))


def thorough_suspects(
    survey: Survey,
    sample: Sample,
    source_ids: Sequence[Sequence[int]],
    target_ids: Sequence[Sequence[int]],
    *,
    vocab_size: int,
    languages: Languages | None,
    is_own: bool,
) -> list[Suspects]:
    """What a sample of the corpus tells when it is understood a little: languages, and which line translates which.

    Args:
        languages: What its sides should be; None: not known.
        is_own: The languages were learnt from this sample.
    """
    suspects = [] if languages is None else _wrong_languages(survey, sample, languages, is_own=is_own)
    shifted = find_shifted_lines(source_ids, target_ids, numbers=sample.numbers, vocab_size=vocab_size)
    return suspects + _shifts(shifted, survey, sample.numbers)


def _wrong_languages(survey: Survey, sample: Sample, languages: Languages, *, is_own: bool) -> list[Suspects]:
    wrong = find_wrong_languages(sample.sources, sample.targets, languages, is_own=is_own)
    equal = np.array([s == t for s, t in zip(sample.sources, sample.targets, strict=True)], dtype=np.bool_)
    found = {
        "source_like_target": wrong.sources_like_targets,
        "target_like_source": wrong.targets_like_sources,
        "source_like_neither": wrong.sources_like_neither,
        "target_like_neither": wrong.targets_like_neither,
    }
    suspects = []
    for kind, positions in found.items():
        positions = positions[~equal[positions]]  # a copy is told as such
        if len(positions):
            suspects.append(_suspects(kind, sample.numbers[positions], survey, len(sample.numbers)))
    return suspects


def find_leaks(training: Sequence[Survey], held_out: Iterable[Survey]) -> list[Leak]:
    """Held-out corpora of which pairs, or sources alone, occur in training too; spaces and case do not count."""
    every = concatenate([survey.hashes for survey in training])
    starts = np.cumsum([0, *(len(survey.corpus.sources) for survey in training)])

    def place(seen: int) -> str:
        index = int(np.searchsorted(starts, seen, side="right")) - 1
        return f"{training[index].unit} {seen - int(starts[index]) + 1:,} of {training[index].key}"

    leaks = []
    for survey in held_out:
        leakage = find_leakage(survey.hashes, every)
        if not len(leakage.pairs) and not len(leakage.sources):
            continue
        examples = [
            _place(number, survey, remark=f"{what} is {place(seen)}")
            for what, numbers, places in (
                ("the pair", leakage.pairs, leakage.pairs_in_training),
                ("the source", leakage.sources, leakage.sources_in_training),
            )
            for number, seen in zip(numbers[:_NUM_EXAMPLES].tolist(), places[:_NUM_EXAMPLES].tolist(), strict=True)
        ]
        sizes = len(survey.corpus.sources), len(leakage.pairs), len(leakage.sources)
        leaks.append(Leak(survey.key, *sizes, tuple(examples[:_NUM_EXAMPLES])))
    return leaks


def _suspects(kind: str, numbers: NDArray[np.int64], survey: Survey, num_inspected: int) -> Suspects:
    examples = tuple(_place(int(number), survey) for number in numbers[:_NUM_EXAMPLES])
    return Suspects(kind, len(numbers), num_inspected, examples)


def _shifts(runs: Sequence[ShiftedLines], survey: Survey, numbers: NDArray[np.int64]) -> list[Suspects]:
    suspects = []
    for kind in ("shifted", "unrelated"):
        these = [run for run in runs if (run.offset is None) == (kind == "unrelated")]
        if not these:
            continue
        inside = sum(int(((numbers >= run.first) & (numbers <= run.last)).sum()) for run in these)
        examples = []
        for run in these[:_NUM_EXAMPLES]:
            remark = ""
            if run.offset is not None:
                lines = f"{abs(run.offset)} {survey.unit}{'s' * (abs(run.offset) > 1)}"
                remark = f"the target stands {lines} {'later' if run.offset > 0 else 'earlier'}"
            examples.append(_place(run.first, survey, last=run.last, remark=remark))
        suspects.append(Suspects(kind, inside, len(numbers), tuple(examples)))
    return suspects


def _place(number: int, survey: Survey, *, last: int | None = None, remark: str = "") -> Place:
    last = number if last is None else last
    source, target = survey.corpus.sources[number], survey.corpus.targets[number]
    return Place(survey.unit, number + 1, last + 1, source, target, remark)
