"""The main facts about a run, read without importing torch: languages, data, size, steps, quality, state."""

import contextlib
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from safetensors import SafetensorError, safe_open

from translate.config.data import corpus_title
from translate.config.schema import Config
from translate.config.yaml import shown_path
from translate.errors import InputError, RunError
from translate.files import read_json
from translate.runs.directory import RunDirectory
from translate.runs.lock import is_locked
from translate.runs.metadata import read_metadata
from translate.runs.metrics import (
    averaged_steps,
    best_checkpoint_record,
    best_moment,
    is_finished,
    read_metrics,
)
from translate.runs.progress import Progress
from translate.runs.report import EvaluationReport
from translate.runs.run import SavedRun, open_run

State = Literal["in training", "finished", "can be resumed", "imported", "without a checkpoint to resume"]


class RunSummary(NamedTuple):
    """The facts about a run, in the order in which they are shown."""

    run: str
    languages: list[str]  # such as de-en
    data: list[str]  # of the training corpora
    model: str
    num_parameters: int | None  # None: there are no weights yet
    num_bytes: int  # of all its files
    step: int
    max_steps: int | None
    minutes: float
    base: str | None  # the run that it was fine-tuned from, and the step
    best_bleu: float | None
    best_step: int | None
    best_averaged: list[int]  # the steps of the checkpoints whose average is the best one; usually none
    test_bleu: dict[str, float]  # of the best checkpoint, by the name of the test set, from the reports of `eval`
    checkpoints: list[str]
    created: str
    version: str | None
    command: list[str]
    state: State


def summarize_run(run: SavedRun | Path) -> RunSummary:
    """Read the facts about a run.

    Raises:
        InputError: It is not a run, or was written by a newer version.
        RunError: A file of it is damaged.
    """
    run = open_run(run)
    files, config, description, records = run.files, run.config, run.description, read_metrics(run.files)
    best = best_checkpoint_record(files, records, config.training.best_metric) or {}
    step, progress = int(max((record["step"] for record in records), default=0)), _read_progress(files)
    origin = description.initialized_from
    base = Path(os.path.normpath(run.path / str(origin.get("run"))))
    minutes = records[-1]["minutes_so_far"] if records else 0.0
    logged = max((record["step"] for record in records if record["kind"] == "train"), default=0)
    if progress is not None and progress.step > logged:
        minutes += progress.window.get("seconds", 0.0) / 60
    weights = [file for file in (files.checkpoint("best"), files.checkpoint("last")) if file.is_file()]
    state: State = "without a checkpoint to resume"
    if description.imported:
        state = "imported"
    elif is_locked(files.lock):
        state, step = "in training", max(step, 0 if progress is None else progress.step)
    elif progress is not None:
        step = progress.step
        state = "finished" if is_finished(progress, config, lambda: records) else "can be resumed"
    return RunSummary(
        run=str(run),
        languages=list(map(str, run.languages.directions)),
        data=list(map(corpus_title, config.data.training_corpora)),
        model=config.model.brief,
        num_parameters=_count_parameters(weights[0]) if weights else None,
        num_bytes=sum(_sizes(run.path)),
        step=step,
        max_steps=None if description.imported else config.training.max_steps,
        minutes=minutes,
        base=f"{shown_path(base)}, step {origin.get('step')}" if origin else None,
        best_bleu=best.get("BLEU"),
        best_step=int(best["step"]) if best else None,
        best_averaged=averaged_steps(best),
        test_bleu=dict(_test_scores(files, config)),
        checkpoints=[file.stem for file in sorted(files.checkpoints.glob("*.safetensors"))],
        created=description.created,
        version=description.versions.get("translate"),
        command=description.command,
        state=state,
    )


def _read_progress(run: RunDirectory) -> Progress | None:
    """The progress in the newest checkpoint that training can resume from; None: there is no such checkpoint."""
    for path in (run.checkpoint("last"), run.previous):
        with contextlib.suppress(InputError, OSError, SafetensorError, RunError):
            return Progress.from_json(read_metadata(path).get("progress", ""))
    return None


def _sizes(path: Path) -> Iterator[int]:
    for folder, _, files in os.walk(path):
        for file in files:
            with contextlib.suppress(OSError):  # a broken link, or a training run has replaced the file
                yield os.path.getsize(os.path.join(folder, file))


def _count_parameters(file: Path) -> int:
    """The numbers in the weights of a checkpoint, from its header."""
    try:
        with safe_open(file, framework="np") as tensors:
            names = [name for name in tensors.keys() if not name.startswith("optimizer.") and "lora" not in name]  # noqa: SIM118
            shapes = {name.partition(".")[2]: tensors.get_slice(name).get_shape() for name in names}
    except (OSError, SafetensorError) as error:
        raise RunError(f"{file}: cannot be read: {error}; copy it again from its source") from error
    return sum(map(math.prod, shapes.values()))


def _test_scores(run: RunDirectory, config: Config) -> Iterator[tuple[str, float]]:
    (step, averaged), keys = best_moment(run) or (None, ()), config.data.keys_by_name()
    for file in sorted(run.evaluation.glob("*/report.json")):
        is_test = keys.get(file.parent.name, "data.test").startswith("data.test")  # also a text given to `eval`
        with contextlib.suppress(InputError):
            report = read_json(file, EvaluationReport)
            is_own = not report.changed_settings(config)
            if is_test and is_own and (report.step, report.averaged) == (step, [*averaged]):
                yield from ((file.parent.name, metric.score) for metric in report.metrics if metric.name == "BLEU")
