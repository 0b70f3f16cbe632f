"""Learning curves of runs from their `metrics.jsonl`, over steps and over time, all runs in one picture."""

import itertools
import json
import logging
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from translate.errors import InputError
from translate.runs.directory import open_run
from translate.visualize.panels import Curves, Picture, Series

logger = logging.getLogger(__name__)

Record = dict[str, Any]

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
        RunError: A run is damaged.
    """
    names = [run.resolve().name for run in runs]
    if len(set(names)) < len(names):
        names = [str(run) for run in runs]
    names = [name.encode(errors="backslashreplace").decode() for name in names]  # a path may be no UTF-8
    records = {name: read_metrics(run) for name, run in zip(names, runs, strict=True)}
    if not any(records.values()):
        raise InputError(
            f"{', '.join(map(str, runs))}: nothing is recorded yet; a training records itself every"
            " training.log_every steps"
        )
    states = [f"{name} up to step {of_run[-1]['step']:.0f}" for name, of_run in records.items() if of_run]
    states += [f"{name}: nothing yet" for name, of_run in records.items() if not of_run]
    panels = []
    for title, y_axis, key, kinds in _CHARTS:
        for x_key, x_axis, over in (("step", "step", "over steps"), ("minutes_so_far", "minutes", "over time")):
            if series := _series(records, key, kinds, x_key=x_key):
                panels.append(Curves(f"{title} {over}", x_axis, y_axis, series, title in _LOGARITHMIC))
    paragraphs = [
        f"{'; '.join(states)}. The training loss is that which is minimised, with label smoothing; perplexities and the"
        " validation loss are without it.",
        _TIME_NOTE,
    ]
    return Picture(f"Training of {', '.join(names)}", paragraphs, panels, columns=2)


def read_metrics(run: Path) -> list[Record]:
    """The records of a run, each with its `kind` and `step`, and as `minutes_so_far` the time until then.

    A line that is no record, as the training may still be writing one, is left out with a warning.

    Raises:
        InputError: `run` is no run.
        RunError: The run is damaged.
    """
    file = open_run(run).metrics
    records: list[Record] = []
    seconds, tokens = 0.0, 0.0
    for number, line in enumerate(file.read_bytes().splitlines() if file.exists() else [], start=1):
        try:
            record = json.loads(line, parse_int=float)  # to which numbers of any length are numbers
            numbers = {key: value for key, value in record.items() if isinstance(value, float)}
            kind, step = record["kind"], numbers["step"]
            if not (isinstance(kind, str) and math.isfinite(step)):
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            logger.warning(f"{file}: line {number} is left out: it is no record, or it is still being written")
            continue
        lasted = 0.0
        if kind == "validation":
            lasted = numbers.get("seconds", 0.0)
        elif speed := numbers.get("target_tokens_per_second"):
            before, tokens = tokens, numbers.get("target_tokens", tokens)
            lasted = (tokens - before) / speed
        seconds += lasted if math.isfinite(lasted) else 0.0
        records.append({"kind": kind, **numbers, "minutes_so_far": seconds / 60})
    return records


def _series(records: dict[str, list[Record]], key: str, kinds: Sequence[str], *, x_key: str) -> list[Series]:
    """The curves of one chart, named by the run and the kind of its records, as far as there are several."""
    series = []
    for (name, of_run), kind in itertools.product(records.items(), kinds):
        names = [name] if len(records) > 1 or len(kinds) == 1 else []
        if len(kinds) > 1:
            names.append({"train": "training"}.get(kind, kind))
        shown = [record for record in of_run if record["kind"] == kind and key in record]
        if shown:
            xs = [float(record[x_key]) for record in shown]
            ys = [float(record[key]) if math.isfinite(record[key]) else None for record in shown]
            series.append(Series(", ".join(names), xs, ys))
    return series
