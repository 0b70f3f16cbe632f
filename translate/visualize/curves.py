"""Learning curves of runs from their `metrics.jsonl`, over steps or time, all runs in one picture."""

import itertools
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from translate.errors import InputError
from translate.evaluation.metrics import HEADLINES
from translate.messages import distinct_names
from translate.runs.metadata import describe_moment
from translate.runs.metrics import averaged_steps, best_checkpoint_record, read_metrics
from translate.runs.run import SavedRun, open_run
from translate.visualize.panels import Curves, Panel, Picture, Series, Table

_CHARTS = [  # title, vertical axis, key of the records, kinds of records that have it
    ("Loss", "nats per token", "nll", ("train", "validation")),
    ("BLEU on validation", "BLEU", "BLEU", ("validation",)),
    ("Learning rate", "learning rate", "learning_rate", ("train",)),
    ("Speed", "target tokens per second", "target_tokens_per_second", ("train",)),
    ("Gradient norm", "norm before clipping", "gradient_norm", ("train",)),
]
_NOTE = (
    "Training and validation losses are both without label smoothing, so they are comparable, but dropout is on only in"
    " training. Minutes count training and validation: the target tokens of each log entry divided by their speed, plus"
    " the seconds of each validation. Saving, and pauses between a stop and --resume, do not count."
)


def curves_picture(runs: Sequence[SavedRun | Path], *, over: Literal["step", "minutes"] = "step") -> Picture:
    """Loss, BLEU, learning rate, speed and gradient norm of finished or training runs, overlaid, and a table of them.

    Args:
        over: The horizontal axis.

    Raises:
        InputError: A path is not a run or is given twice, or no run has recorded anything yet.
        RunError: A run is damaged.
    """
    opened_runs = [*map(open_run, runs)]
    names = distinct_names([run.path for run in opened_runs])
    opened = dict(zip(names, opened_runs, strict=True))
    records = {name: read_metrics(run.files) for name, run in opened.items()}
    best = {
        name: best_checkpoint_record(run.files, records[name], run.config.training.best_metric)
        for name, run in opened.items()
    }
    if not any(records.values()):
        raise InputError(
            f"{', '.join(map(str, runs))}: nothing is recorded yet; training writes a record every"
            " training.log_every steps"
        )
    panels: list[Panel] = []
    recorded = dict.fromkeys(record["kind"] for of_run in records.values() for record in of_run)
    others = [kind for kind in recorded if kind.startswith("validation/")]
    for title, y_axis, key, kinds in _CHARTS:
        kinds = (*kinds, *others) if "validation" in kinds else kinds  # corpora of their own, `validation/NAME`
        series = []
        for (name, of_run), kind in itertools.product(records.items(), kinds):
            shown = [record for record in of_run if record["kind"] == kind and key in record]
            if shown:
                xs = [row["step"] if over == "step" else round(row["minutes_so_far"], 2) for row in shown]
                ys = [record[key] if math.isfinite(record[key]) else None for record in shown]
                form = ".2f" if key == "BLEU" else ".4g"
                marks = [(place, f"best {row[key]:{form}}") for place, row in enumerate(shown) if row is best[name]]
                kind = {"train": "training"}.get(kind, kind.removeprefix("validation/"))
                series.append(Series(name, xs, ys, kind, marks[0] if marks else None))
        if series:
            is_log, is_speed = key in ("nll", "gradient_norm"), key == "target_tokens_per_second"
            panels.append(Curves(title, over, y_axis, series, is_log=is_log, begins_at_zero=is_speed))
    rows: dict[str, list[str]] = {}
    for name, of_run in records.items():
        speeds = [record["target_tokens_per_second"] for record in of_run if "target_tokens_per_second" in record]
        last, found = (of_run or [{}])[-1], best[name] or {}
        moment = {"moment": describe_moment(int(found["step"]), averaged_steps(found))} if found else {}
        for title, record, key, form in (
            ("Steps", last, "step", ",.0f"),
            ("Minutes", last, "minutes_so_far", ",.1f"),
            ("Tokens per second", {"median": statistics.median(speeds)} if speeds else {}, "median", ",.0f"),
            ("Best checkpoint", moment, "moment", ""),
            *((score.name, found, score.name, ".2f") for score in HEADLINES),
            ("Loss", found, "nll", ".4f"),
            ("Perplexity", found, "perplexity", ",.2f"),
        ):
            rows.setdefault(title, [title]).append(f"{record[key]:{form}}" if key in record else "")
    note = "Scores, loss and perplexity come from the validation of the best checkpoint."
    panels.append(Table("Runs", ["", *records], list(rows.values()), note))
    return Picture(f"Training of {', '.join(names)}", [_NOTE], panels, columns=3)
