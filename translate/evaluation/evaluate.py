"""Translates and scores test sets: the same code for validation during training and for `translate eval`."""

import contextlib
import dataclasses
import itertools
import json
import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from translate._version import package_versions
from translate.atomic import write_error, write_text
from translate.config.data import TextCorpus
from translate.config.schema import Config, EvaluationConfig
from translate.data.augmentation import read_held_out
from translate.data.corpora import ParallelCorpus, read_corpus
from translate.decoding import OnFinished, Translation, Translator, count_conditions, ignore_progress
from translate.distributed.process_group import SINGLE_PROCESS, World
from translate.errors import InputError
from translate.evaluation.metrics import Metric, check_bleu_tokenizer, describe_scores, score_translations
from translate.files import FileError, read_json
from translate.fingerprint import fingerprint
from translate.runs.checksums import CHECKSUMS, check_inside, write_checksums

T = TypeVar("T")

_CONDITIONS = "lines empty truncated split source_truncated repetitive length_ratio unspellable unmet"  # of a report


class Evaluation(NamedTuple):
    """Translations of a test set and their scores."""

    translations: list[Translation]
    metrics: tuple[Metric, ...]

    def score(self, name: str) -> float:
        """The score of the metric with this name."""
        return next(metric.score for metric in self.metrics if metric.name == name)

    def __repr__(self) -> str:
        scores = ", ".join(
            f"{name} {score:.2f}" + (f" [{interval.low:.2f}, {interval.high:.2f}]" if interval else "")
            for name, score, interval, _ in self.metrics
        )
        return f"<Evaluation of {len(self.translations):,} translations: {scores}>"


def evaluate(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    config: EvaluationConfig,
    *,
    effort: Literal["quick", "full"] = "full",
    world: World = SINGLE_PROCESS,
    on_finished: OnFinished = ignore_progress,
) -> Evaluation:
    """Translate the sources and score the detokenized translations against the references.

    Args:
        effort: See `score_translations`.
        world: The processes that translate together: each takes every n-th line, and gets all translations.
        on_finished: Shows the progress of this process.

    Raises:
        Cancelled: The translation was cancelled in some process; then it is in all.
        InputError: The numbers of lines differ, there are no lines, or the tokenizer's package is missing.
    """
    check_bleu_tokenizer(config)
    own = sources[world.rank :: world.size]
    translations = gather_lines(lambda: list(translator.translate_stream(own, on_finished=on_finished)), world)
    metrics = score_translations([translation.text for translation in translations], references, config, effort=effort)
    return Evaluation(translations, metrics)


def gather_lines(work: Callable[[], list[T]], world: World) -> list[T]:
    """Gather the results for all lines, in their order, from processes that each work on every n-th line."""
    shares = world.all_gather(world.run_cancellable(work))
    return [shares[line % world.size][line // world.size] for line in range(sum(map(len, shares)))]


@dataclasses.dataclass
class EvaluationReport:
    """The content of `report.json`, as far as it is read; see `write_report`."""

    name: str
    step: int
    metrics: list[Metric]
    decoding: dict[str, Any]
    source: str = ""
    averaged: list[int] = dataclasses.field(default_factory=list)


def report_folder(evaluation: Path, name: str, *, source: Path | None, set_names: Collection[str]) -> Path:
    """The folder for the report on a test set. Every other test set, and every other file of that name, has its own.

    Args:
        source: The file that was translated; None: a test set of the config, whose folder has its name.
        set_names: The names of the config's test sets.
    """
    if source is None:
        return evaluation / name
    for number in itertools.count(1):
        folder, reported = evaluation / (name if number == 1 else f"{name}-{number}"), ""
        with contextlib.suppress(FileError):
            reported = read_json(folder / "report.json", EvaluationReport).source
        if folder.name not in set_names and reported in ("", os.path.realpath(source)):
            break
    return folder


def write_report(
    directory: Path,
    evaluation: Evaluation,
    *,
    name: str,
    step: int,
    settings: dict[str, object],
    source: Path | None = None,
    averaged: Sequence[int] = (),
    conventions: Sequence[Metric] = (),
    warnings: Sequence[str] = (),
) -> dict[str, Any]:
    """Write `hypotheses.txt` and `report.json` into a directory, which is created if necessary.

    Returns:
        The report.

    Args:
        settings: The settings of the search.
        source: The file that was translated; None: a test set of the config.
        averaged: The steps of the checkpoints whose average was evaluated, if one was.
        conventions: Scores by other conventions.
        warnings: Signs that the wrong texts were scored.

    Raises:
        RunError: The files cannot be written, or the directory is a link that leaves the run.
    """
    check_inside(directory, directory.parent)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / CHECKSUMS).unlink(missing_ok=True)  # from an earlier evaluation
    except OSError as error:
        raise write_error(directory, error) from error
    hypotheses = directory / "hypotheses.txt"
    write_text(hypotheses, "".join(f"{translation.text}\n" for translation in evaluation.translations))
    counts = count_conditions(evaluation.translations)
    report = {
        "name": name,
        **({} if source is None else {"source": os.path.realpath(source)}),
        "step": step,
        **({"averaged": averaged} if averaged else {}),
        "hypotheses": f"sha256:{fingerprint(hypotheses)}",
        **{f"num_{condition}": counts[condition] for condition in _CONDITIONS.split()},
        **describe_scores(evaluation.metrics, conventions, warnings),
        "decoding": settings,
        "versions": package_versions(),
    }
    scores = directory / "report.json"
    write_text(scores, json.dumps(report, indent=2) + "\n")  # in ASCII, because a name may not be UTF-8
    write_checksums(directory, {file.name: fingerprint(file) for file in (hypotheses, scores)})
    return report


def choose_test_sets(
    config: Config, *, source: Path | None, reference: Path | None, name: str | None
) -> dict[str, ParallelCorpus]:
    """Read the test sets to evaluate: two given files, the config's set of this name, or all test sets of the config.

    Raises:
        InputError: There is no such set, or its files cannot be used.
    """
    if (source is None) != (reference is None) or (source is not None and name is not None):
        raise InputError("--source and --reference go together, and not with --set")
    if source is not None and reference is not None:
        corpus = TextCorpus(source=source, target=reference)
        return {source.name: read_corpus(corpus, key="--source and --reference")}
    corpora = {each: (f"data.test.{each}", corpus) for each, corpus in config.data.test.items()}
    if name is None and not corpora:
        raise InputError("the run's config names no data.test: give --source and --reference, or --set validation")
    if name is not None:
        also = config.data.validation_also
        corpora = {each: (f"data.validation_also.{each}", corpus) for each, corpus in also.items()} | corpora
        if config.data.validation is not None:
            corpora.setdefault("validation", ("data.validation", config.data.validation))
        if name not in corpora:
            raise InputError(f"--set {name}: the run's sets are {', '.join(corpora) or 'none'}")
        corpora = {name: corpora[name]}
    return {each: read_held_out(corpus, key=key) for each, (key, corpus) in corpora.items()}


def choose_test_set(
    config: Config, *, source: Path | None = None, reference: Path | None = None, name: str | None
) -> tuple[str, ParallelCorpus]:
    """Choose a test set as `choose_test_sets` does, where one is needed; returns its name too.

    Raises:
        InputError: There is no such set, its files cannot be used, or the config has several and `name` is None.
    """
    test_sets = choose_test_sets(config, source=source, reference=reference, name=name)
    if len(test_sets) > 1:
        one = f"--set {[*test_sets][0]}, or test_set={[*test_sets][0]!r} in Python"
        raise InputError(f"the run has the test sets {', '.join(test_sets)}: name one, as {one}")
    (chosen,) = test_sets.items()
    return chosen


def spread_samples(total: int, wanted: int) -> list[int]:
    """The indices of at most `wanted` lines, evenly spaced over `total`."""
    wanted = min(wanted, total)
    return [number * total // wanted for number in range(wanted)]
