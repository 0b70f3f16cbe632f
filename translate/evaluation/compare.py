"""Compares translations of one test set by two or more systems: scores, significance, and where they differ."""

from bisect import bisect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from sacrebleu.metrics.base import Metric as SacreMetric
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from translate.bars import show_progress
from translate.bleu import load_bleu
from translate.config.data import Direction
from translate.config.schema import EvaluationConfig
from translate.data.corpora import ParallelCorpus
from translate.data.text import read_lines
from translate.errors import InputError
from translate.evaluation.metrics import (
    LineScores,
    References,
    choose_scores,
    describe_kept,
    kept_placeholders,
    list_references,
)
from translate.evaluation.mistakes import find_mistakes
from translate.evaluation.programs import MetricProgram, run_programs
from translate.runs.run import SavedRun

Systems = Mapping[str, Sequence[str]]  # the translations of each
Tokenize = Callable[[str], str]  # by sacreBLEU: words with spaces between them

_FEW_LINES = 100  # tests of significance with fewer say little
_LENGTHS = (1, 6, 11, 16, 21, 31, 51)  # smallest number of words in each bucket of sentences


class ComparedScore(NamedTuple):
    """A system's corpus score, compared with the first system's."""

    value: float
    margin: float | None  # half of its 95 % bootstrap interval; None: no samples, or a program that scores no lines
    difference: float | None = None  # from the first system; None: this is the first
    bootstrap_p: float | None = None  # of the difference
    randomization_p: float | None = None


class Bucket(NamedTuple):
    """A part of the test set, and each system's value on it."""

    name: str
    size: int
    values: tuple[float, ...]


class Change(NamedTuple):
    """A sentence that a system translates better or worse than the first system."""

    system: str
    line: int  # from 1
    difference: float  # in points of sentence chrF
    source: str
    reference: str
    first: str
    other: str


class Comparison(NamedTuple):
    """Translations of one test set by several systems, side by side; the first system is the baseline."""

    systems: tuple[str, ...]
    num_lines: int
    metrics: dict[str, tuple[ComparedScore, ...]]  # by name, such as BLEU; one score per system
    signatures: dict[str, str]
    lengths: tuple[Bucket, ...]  # chrF of sentences by the length of the reference
    changes: tuple[Change, ...]
    warnings: tuple[str, ...] = ()


def translate_systems(
    systems: Mapping[str, SavedRun | Path], pairs: ParallelCorpus, *, set_name: str, languages: Mapping[str, str | None]
) -> dict[str, list[str]]:
    """The translations of a test set by each system, a run or a file; all are checked before a run translates.

    Args:
        languages: Arguments of `Translator.toward` for a test set that does not name its own.

    Raises:
        InputError: A file has another number of lines, or a run does not translate in the direction of the test set.
    """
    found: dict[str, list[str]] = {}
    for name, system in systems.items():
        if isinstance(system, SavedRun):
            _check_direction(system, pairs.direction, set_name=set_name)
        else:
            found[name] = read_lines(system)
            if len(found[name]) != len(pairs.targets):
                here, there = f"{len(found[name]):,}", f"{len(pairs.targets):,}"
                raise InputError(f"{name} has {here} lines, but the test set {set_name} has {there}")
    for name, system in systems.items():
        if isinstance(system, SavedRun):
            found[name] = _translate(system, pairs, languages)
    return {name: found[name] for name in systems}


def _check_direction(run: SavedRun, direction: Direction | None, *, set_name: str) -> None:
    """Check that a run can translate in the direction of a test set; a set that names none passes."""
    languages, is_tuned = run.languages, run.config.training.initialize_from is not None
    if direction and (translated := languages.instead_of(languages.respell(direction), is_tuned=is_tuned)):
        raise InputError(
            f"{run} translates {translated}, but the test set {set_name} is {direction}: leave this run out, or give"
            " --source and --reference"
        )


def _translate(run: SavedRun, pairs: ParallelCorpus, languages: Mapping[str, str | None]) -> list[str]:
    from translate.decoding.loading import load_translator  # after all checks, because it imports torch

    translator = load_translator(run, token_scores=False).translator.toward(pairs.direction, **languages)
    with show_progress("Translating", len(pairs.sources), unit="lines") as advance:
        translations = translator.translate_stream(pairs.sources, on_finished=advance)
        return [translation.text for translation in translations]


def compare(
    systems: Systems,
    sources: Sequence[str],
    references: References,
    config: EvaluationConfig,
    *,
    num_changes: int = 5,
    programs: Sequence[MetricProgram] = (),
    translated_here: Collection[str] = (),
) -> Comparison:
    """Compare the translations of two or more systems with the first system's.

    Two tests estimate how probable so large a difference would be between systems of equal quality: paired bootstrap
    resampling and approximate randomisation, both by sacreBLEU.

    Args:
        systems: The translations of each system, by its name.
        num_changes: The number of largest gains, and of largest losses, to list for each system.
        programs: More scores. If a program scores lines, its scores are tested like sacreBLEU's. If a program fails,
            its scores are missing, and the log says why.
        translated_here: The systems whose translations a model has just made.

    Raises:
        InputError: The tokenizer's package is missing.

    Source: Koehn 2004, W04-3250; Riezler and Maxwell 2005, W05-0908; the buckets: Neubig et al. 2019, N19-4007.
    """
    tokenize, listed = load_bleu(config.bleu_tokenizer).tokenizer, list_references(references)
    metrics, signatures = {}, {}
    for row in choose_scores([*systems.values(), *listed]):
        scorer = row.scorer(config.bleu_tokenizer, references=listed)
        metrics[row.name], signatures[row.name] = _test_significance(systems, scorer, config.bootstrap_samples)
    kept = {name: kept_placeholders(sources, texts) for name, texts in systems.items()}
    if of_first := next(iter(kept.values())):
        metrics["placeholders"], _ = _test_significance(kept, LineScores("placeholders"), config.bootstrap_samples)
        signatures["placeholders"] = describe_kept(len(of_first))
    scored = run_programs(programs, list(systems.values()), sources=sources, references=listed[0])
    for program, found in scored.items():
        of_lines = {name: scores.of_lines for name, scores in zip(systems, found, strict=True)}
        if all(of_lines.values()):
            metrics[program.name], _ = _test_significance(of_lines, LineScores(program.name), config.bootstrap_samples)
        else:
            metrics[program.name] = _without_tests([scores.score for scores in found])
        signatures[program.name] = program.signature
    warnings = [*find_mistakes(systems, listed, sources, config.bleu_tokenizer, translated_here=translated_here)]
    if len(sources) < _FEW_LINES:
        warnings.append(f"p and ± mean little with so few lines ({len(sources)}): use {_FEW_LINES} or more")
    return Comparison(
        systems=tuple(systems),
        num_lines=len(sources),
        metrics=metrics,
        signatures=signatures,
        lengths=tuple(_by_length(systems, listed, tokenize)),
        changes=tuple(_largest_changes(systems, sources, listed, num_changes)),
        warnings=tuple(warnings),
    )


def _without_tests(values: Sequence[float]) -> tuple[ComparedScore, ...]:
    first, *others = values
    return ComparedScore(first, None), *(ComparedScore(value, None, value - first) for value in others)


def _test_significance(
    systems: Mapping[str, Any], scorer: SacreMetric, num_samples: int
) -> tuple[tuple[ComparedScore, ...], str]:
    """Each system's score with the p-values of its difference from the first, and the signature of the test.

    Args:
        systems: The translations of each, or for `LineScores` their scores.
        num_samples: The number of samples of each test; with less than two there are no tests.
    """
    if num_samples < 2:  # sacreBLEU takes 0 for its own defaults
        values = [float(scorer.corpus_score(texts, None).score) for texts in systems.values()]
        return _without_tests(values), str(scorer.get_signature())
    results: list[Any] = []
    for kind in ("ar", "bs"):
        test = PairedTest(list(systems.items()), {"": scorer}, references=None, test_type=kind, n_samples=num_samples)
        signatures, columns = test()
        ((name, signature),) = signatures.items()  # sacreBLEU's own name of the score
        results.append(columns[name])
    first = float(results[0][0].score)
    scores = [ComparedScore(first, float(results[1][0].ci))]
    for other, one in list(zip(*results, strict=True))[1:]:
        difference = float(one.score) - first
        # sacreBLEU counts resamples with a larger difference; where all are 0, that would be significant.
        tests = (one.p_value, other.p_value) if difference else (1.0, 1.0)
        scores.append(ComparedScore(float(one.score), float(one.ci), difference, *tests))
    return tuple(scores), str(signature)


def _by_length(systems: Systems, references: Sequence[Sequence[str]], tokenize: Tokenize) -> Iterator[Bucket]:
    names = [*(f"{low}–{end - 1}" for low, end in pairwise(_LENGTHS)), f"{_LENGTHS[-1]} or more"]
    buckets = [bisect(_LENGTHS[1:], len(tokenize(reference).split())) for reference in references[0]]
    for number, name in enumerate(names):
        lines = [line for line, bucket in enumerate(buckets) if bucket == number]
        if lines:
            chosen = [[of_lines[line] for line in lines] for of_lines in references]
            scores = (CHRF().corpus_score([texts[line] for line in lines], chosen) for texts in systems.values())
            yield Bucket(name, len(lines), tuple(float(score.score) for score in scores))


def _largest_changes(
    systems: Systems, sources: Sequence[str], references: Sequence[Sequence[str]], num_changes: int
) -> Iterator[Change]:
    (_, first), *others = systems.items()
    score, of_lines = CHRF().sentence_score, [*zip(*references, strict=True)]
    baseline = [score(text, known).score for text, known in zip(first, of_lines, strict=True)]
    for name, texts in others:
        scored = zip(texts, of_lines, baseline, strict=True)
        differences = [score(text, known).score - other for text, known, other in scored]
        order = sorted(range(len(of_lines)), key=lambda line: -differences[line])
        gains = [line for line in order if differences[line] > 0][:num_changes]
        losses = [line for line in order[::-1] if differences[line] < 0][:num_changes]
        for line in [*gains, *losses]:
            shown = sources[line], of_lines[line][0], first[line], texts[line]
            yield Change(name, line + 1, differences[line], *shown)
