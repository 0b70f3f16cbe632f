"""Learning curves of runs from their `metrics.jsonl`, over steps and over time, all runs in one picture."""

import json
import math
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from translate.errors import InputError, RunError
from translate.runs.directory import open_run
from translate.visualize.panels import Curves, Picture, Series

Record = dict[str, Any]


class Metrics(NamedTuple):
    """The records of a run so far."""

    name: str
    records: list[Record]  # each with `kind`, `step` and `minutes_so_far`
    num_unreadable: int  # lines that are damaged, or that the training is still writing


_CHARTS = [  # title, vertical axis, the key of the records, and which kinds of records have it
    ("Loss", "nats a token", "loss", ("train", "validation")),
    ("Perplexity", "perplexity", "perplexity", ("train", "validation")),
    ("BLEU on validation", "BLEU", "BLEU", ("validation",)),
    ("Learning rate", "learning rate", "learning_rate", ("train",)),
    ("Speed", "target tokens a second", "target_tokens_per_second", ("train",)),
    ("Gradient norm", "norm before clipping", "gradient_norm", ("train",)),
]
_LOGARITHMIC = ("Perplexity", "Gradient norm")
_TIME_NOTE = (
    "Time is the time of training and validating: for each log entry its target tokens divided by their speed, and the"
    " seconds of each validation. Saving, and pauses between a stop and --resume, are not in it."
)


def curves_picture(runs: Sequence[Path]) -> Picture:
    """Loss, perplexity, BLEU, learning rate, speed and gradient norm of finished or training runs, overlaid.

    Raises:
        InputError: A path is no run, or no run has recorded anything yet.
        RunError: A file of metrics cannot be read.
    """
    names = [run.resolve().name for run in runs]
    if len(set(names)) < len(names):
        names = [str(run) for run in runs]
    metrics = [read_metrics(run, name=name) for run, name in zip(runs, names, strict=True)]
    if not any(each.records for each in metrics):
        raise InputError(
            f"{', '.join(map(str, runs))}: nothing is recorded yet; a training records itself every"
            " training.log_every steps"
        )
    unreadable = [f"{each.name}: {each.num_unreadable} unreadable lines" for each in metrics if each.num_unreadable]
    states = [f"{each.name} up to step {each.records[-1]['step']}" for each in metrics if each.records]
    states += [f"{each.name}: nothing yet" for each in metrics if not each.records]
    panels = []
    for title, y_axis, key, kinds in _CHARTS:
        for x_key, x_axis, over in (("step", "step", "over steps"), ("minutes_so_far", "minutes", "over time")):
            by_run = [_series(each, key, kinds, x_key=x_key, has_name=len(metrics) > 1) for each in metrics]
            if series := [one for run in by_run for one in run]:
                panels.append(Curves(f"{title} {over}", x_axis, y_axis, series, title in _LOGARITHMIC))
    paragraphs = [
        f"{'; '.join(states)}. The training loss is that which is minimised, with label smoothing; perplexities and the"
        " validation loss are without it.",
        _TIME_NOTE,
    ]
    if unreadable:
        reason = "as a training that is being written or was killed leaves them"
        paragraphs.append(f"Left out, {reason}: {', '.join(unreadable)}.")
    title = f"Training of {', '.join(names)}"
    return Picture(title, paragraphs, panels, columns=2)


def read_metrics(run: Path, *, name: str) -> Metrics:
    """The records of a run in the order of their steps, with the time at which each was reached.

    Lines that are no record are left out and counted. Where a resumed training repeated steps, the last records count.

    Raises:
        InputError: `run` is no run.
        RunError: The file cannot be read.
    """
    file = open_run(run).metrics
    try:
        lines = file.read_bytes().splitlines() if file.exists() else []
    except OSError as error:
        raise RunError(f"{file}: cannot be read: {error.strerror}") from error
    records: list[Record] = []
    num_unreadable = 0
    for line in lines:
        record = _parse(line)
        if record is None:
            num_unreadable += 1
            continue
        first = bisect_left(records, record["step"], key=lambda other: other["step"])  # a resumed run repeats steps
        if any(other["step"] > record["step"] or other["kind"] == record["kind"] for other in records[first:]):
            del records[first:]
        records.append(record)
    _add_time(records)
    return Metrics(name, records, num_unreadable)


def _parse(line: bytes) -> Record | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_record = isinstance(record, dict) and isinstance(record.get("kind"), str) and type(record.get("step")) is int
    return record if is_record else None


def _add_time(records: list[Record]) -> None:
    """Add `minutes_so_far` to each record."""
    seconds, tokens = 0.0, 0.0
    for record in records:
        if record["kind"] == "train":
            so_far, speed = _number(record, "target_tokens"), _number(record, "target_tokens_per_second")
            if so_far is not None and speed:
                seconds += max(0.0, so_far - tokens) / speed
                tokens = so_far
        else:
            seconds += _number(record, "seconds") or 0.0
        record["minutes_so_far"] = seconds / 60


def _series(metrics: Metrics, key: str, kinds: Sequence[str], *, x_key: str, has_name: bool) -> list[Series]:
    """The curves of one run in one chart; several kinds of records have their names in the legend."""
    series = []
    for kind in kinds:
        records = [record for record in metrics.records if record["kind"] == kind and key in record]
        if records:
            what = {"train": "training"}.get(kind, kind) if len(kinds) > 1 else ""
            name = ", ".join(part for part in (metrics.name if has_name or not what else "", what) if part)
            ys = [_number(record, key) for record in records]
            series.append(Series(name, [float(record[x_key]) for record in records], ys))
    return series


def _number(record: Record, key: str) -> float | None:
    """The number under a key, or None if it is missing or not finite, which is a gap in the curve."""
    value = record.get(key)
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_number and value is not None else None
