"""Translates and scores test sets: the same code for validation during training and for `translate eval`."""

import contextlib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from translate._version import package_versions
from translate.atomic import explain_write_errors, write_text
from translate.bars import show_progress
from translate.bleu import load_bleu
from translate.config.schema import Config, EvaluationConfig
from translate.data.corpora import ParallelCorpus
from translate.decoding import OnFinished, Translation, Translator, count_conditions, ignore_progress
from translate.decoding.loading import LoadedTranslator
from translate.decoding.output.flags import FLAGS
from translate.distributed.process_group import SINGLE_PROCESS, World
from translate.errors import RunError
from translate.evaluation.metrics import References, score_translations
from translate.evaluation.scorer import Scorer
from translate.files import FileError, read_json
from translate.fingerprint import fingerprint
from translate.runs.checksums import CHECKSUMS, check_inside, write_checksums
from translate.runs.directory import Checkpoint
from translate.runs.metadata import describe_moment
from translate.runs.report import EvaluationReport, Metric

T = TypeVar("T")


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
    references: References,
    config: EvaluationConfig,
    *,
    effort: Literal["quick", "full"] = "full",
    world: World = SINGLE_PROCESS,
    on_finished: OnFinished = ignore_progress,
) -> Evaluation:
    """Translate the sources and score the detokenized translations against the references.

    Args:
        effort: See `score_translations`.
        world: The processes that translate together: each takes a part of the lines, and gets all translations.
        on_finished: Shows the progress of this process.

    Raises:
        Cancelled: The translation was cancelled in some process; then it is in all.
        InputError: The numbers of lines differ, there are no lines, or the tokenizer's package is missing.
    """
    load_bleu(config.bleu_tokenizer)  # before the search: its package may be missing
    own = world.share(len(sources))
    translate = partial(translator.translate_stream, first_number=own.start, on_finished=on_finished)
    translations = gather_lines(lambda: list(translate(sources[own])), world)
    metrics = score_translations([translation.text for translation in translations], references, config, effort=effort)
    return Evaluation(translations, metrics)


def gather_lines(work: Callable[[], list[T]], world: World) -> list[T]:
    """Gather the results for all lines, in their order, from processes that each work on their share."""
    return list(itertools.chain.from_iterable(world.all_gather(world.run_cancellable(work))))


class ReportedSet(NamedTuple):
    """A test set's evaluation, as `translate eval` shows it."""

    title: str
    report: dict[str, Any]  # with samples
    error: RunError | None  # why the report could not be written


def evaluate_run(
    loaded: LoadedTranslator,
    test_sets: Mapping[str, ParallelCorpus],
    scorer: Scorer,
    *,
    checkpoint: Checkpoint,
    languages: Mapping[str, str | None],
    given: Mapping[str, object],
    num_samples: int = 0,
) -> Iterator[ReportedSet]:
    """Translate and score test sets, and write a report on each into the run, where that is possible.

    Args:
        checkpoint: The name of the loaded checkpoint.
        languages: Arguments of `Translator.toward` for a test set that does not name its own.
        given: What the command line gave; see `report_folder`.
        num_samples: The number of translations that each report shows.
    """
    translator, run = loaded.translator, loaded.model.run
    moment: dict[str, Any] = {"step": loaded.model.step, "averaged": loaded.model.averaged}
    engine = translator.engine.prepare(sum(len(pairs.sources) for pairs in test_sets.values()))
    settings = {**translator.config.model_dump(mode="json"), "engine": engine}
    for name, pairs in test_sets.items():
        sources, references = pairs.sources, [pairs.targets, *pairs.more_targets]
        searching = translator.toward(pairs.direction, **languages)
        with show_progress(f"Translating {name}", len(sources), unit="lines") as advance:
            translations, metrics = evaluate(searching, sources, references, scorer.config, on_finished=advance)
        texts, error = [translation.text for translation in translations], None
        scores = scorer.score(texts, references, sources, metrics=metrics)
        folder = report_folder(run.files.evaluation, name, given=given, config=run.config)
        try:
            report = write_report(folder, translations, scores, name=name, settings=settings, given=given, **moment)
            report["folder"] = str(folder)
        except RunError as caught:
            error, report = caught, {"name": name, "num_lines": len(texts), **scores}
        if shown := spread_samples(len(sources), num_samples):
            columns = {"source": sources, "reference": pairs.targets, "translation": texts}
            report["samples"] = [{side: lines[index] for side, lines in columns.items()} for index in shown]
        what = f"{name}, {checkpoint} checkpoint ({describe_moment(**moment)}), {translator.config.brief}"
        yield ReportedSet(f"{what}: {count_conditions(translations)}", report, error)


def report_folder(evaluation: Path, name: str, *, given: Mapping[str, object], config: Config) -> Path:
    """The folder for the report on a test set: NAME, or NAME-2 and so on for other files, and for other settings.

    Args:
        given: `source` and `reference`, files that are not a set of the config, and `changed`, settings that are not
            the run's own. If there is nothing, it is the run's own evaluation of a set of its config.
        config: The run's own.
    """
    if not given:
        return evaluation / name
    for number in itertools.count(2 if "changed" in given else 1):
        folder, is_same = evaluation / (name if number == 1 else f"{name}-{number}"), True
        with contextlib.suppress(FileError):
            report = read_json(folder / "report.json", EvaluationReport)
            changed = report.changed_settings(config)
            found = {"source": report.source, "reference": report.reference, "changed": changed}
            is_same = {key: value for key, value in found.items() if value} == given
        if is_same and folder.name not in config.data.keys_by_name():
            break
    return folder


def write_report(
    directory: Path,
    translations: Sequence[Translation],
    scores: Mapping[str, Any],
    *,
    name: str,
    step: int,
    settings: dict[str, object],
    given: Mapping[str, object] | None = None,
    averaged: Sequence[int] = (),
) -> dict[str, Any]:
    """Write `hypotheses.txt` and `report.json` into a directory, which is created if necessary.

    Returns:
        The report.

    Args:
        scores: As `Scorer.score` gives them.
        settings: The settings of the search.
        given: See `report_folder`.
        averaged: The steps of the checkpoints whose average was evaluated, if one was.

    Raises:
        RunError: The files cannot be written, or the directory is a link that leaves the run.
    """
    check_inside(directory, directory.parent)
    with explain_write_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
        (directory / CHECKSUMS).unlink(missing_ok=True)  # from an earlier evaluation
    hypotheses = directory / "hypotheses.txt"
    write_text(hypotheses, "".join(f"{translation.text}\n" for translation in translations))
    counts = count_conditions(translations)
    report = {
        "name": name,
        **(given or {}),
        "step": step,
        **({"averaged": averaged} if averaged else {}),
        "hypotheses": f"sha256:{fingerprint(hypotheses)}",
        **{f"num_{condition}": counts[condition] for condition in ("lines", *FLAGS)},
        **scores,
        "decoding": settings,
        "versions": package_versions(),
    }
    file = directory / "report.json"
    write_text(file, json.dumps(report, indent=2) + "\n")  # in ASCII, because a name may not be UTF-8
    write_checksums(directory, {written.name: fingerprint(written) for written in (hypotheses, file)})
    return report


def spread_samples(total: int, wanted: int) -> list[int]:
    """The indices of at most `wanted` lines, evenly spaced over `total`."""
    wanted = min(wanted, total)
    return [number * total // wanted for number in range(wanted)]
