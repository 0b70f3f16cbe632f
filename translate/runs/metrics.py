"""Reads the numbers that a training run wrote to `metrics.jsonl`. Curves, model cards and run summaries need them."""

import contextlib
import json
import logging
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

from safetensors import SafetensorError

from translate.config.schema import Config
from translate.errors import RunError
from translate.files import read_input
from translate.runs.directory import RunDirectory
from translate.runs.metadata import read_metadata, read_moment
from translate.runs.progress import Progress

logger = logging.getLogger(__name__)

Record = dict[str, Any]


def read_metrics(run: RunDirectory) -> list[Record]:
    """The records of a run: `kind`, numbers, the steps `averaged`, and as `minutes_so_far` the time until then.

    `nll` is the loss without label smoothing. Only training has another `loss`, with label smoothing.

    A line that is not a record is left out with a warning: training may still be writing it.
    """
    file = run.metrics
    records: list[Record] = []
    seconds, tokens = 0.0, 0.0
    for number, line in enumerate(read_recorded(run).splitlines(), start=1):
        try:
            record = json.loads(line, parse_int=float)  # float accepts numbers of any length
            numbers = {key: value for key, value in record.items() if isinstance(value, float) or key == "averaged"}
            kind, step = record["kind"], numbers["step"]
            steps = [step, *(numbers["averaged"] if kind == "average" else ())]
            if not (isinstance(kind, str) and all(map(math.isfinite, steps))):
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            logger.warning(f"{file}: line {number} is left out: it is not a record, or it is still being written")
            continue
        lasted = 0.0
        if kind.startswith("validation"):
            lasted = numbers.get("seconds", 0.0)
        elif speed := numbers.get("target_tokens_per_second"):
            before, tokens = tokens, numbers.get("target_tokens", tokens)
            lasted = (tokens - before) / speed
        seconds += lasted if math.isfinite(lasted) else 0.0
        if kind != "train" and "loss" in numbers:
            numbers["nll"] = numbers["loss"]
        records.append({"kind": kind, **numbers, "minutes_so_far": seconds / 60})
    return records


def read_recorded(run: RunDirectory) -> bytes:
    """The content of `metrics.jsonl`; empty if nothing was recorded."""
    return read_input(run.metrics, at_most=2**30) if run.metrics.exists() else b""


def is_finished(progress: Progress, config: Config, read_records: Callable[[], Sequence[Record]]) -> bool:
    """Whether a training run is complete: it needs no further step, validation, log line or evaluation.

    `translate average` may have added records of averages. The records are read only if the last step has been made,
    because reading those of a killed run may warn of half a line.
    """
    if progress.limit_reached(config.training) is None:
        return False
    moments = [(record["kind"], record["step"]) for record in read_records() if record["kind"] != "average"]
    if moments and moments[-1][0].startswith("evaluation"):  # the last record, if there is to be one
        return True
    is_logged = not progress.window.get("steps") or ("train", progress.step) in moments
    return progress.validated_step == progress.step and is_logged and not config.evaluates_at_end


def best_checkpoint_record(
    run: RunDirectory, records: Sequence[Record], metric: Literal["bleu", "loss"]
) -> Record | None:
    """The last record of the weights in the best checkpoint. Without a record of them, see `best_record`.

    A validation with a higher score may be older and not comparable, such as on another validation set.
    """
    if moment := best_moment(run):
        step, averaged = moment
        key, kind, value = ("averaged", "average", [*averaged]) if averaged else ("step", "validation", step)
        for record in reversed(records):
            if (record["kind"], record.get(key)) == (kind, value):
                return record
    return best_record(records, metric)


def averaged_steps(record: Record) -> list[int]:
    """The steps of the checkpoints whose average a record is about; none for other kinds of records."""
    return list(map(int, record["averaged"])) if record.get("kind") == "average" else []


def best_moment(run: RunDirectory) -> tuple[int, tuple[int, ...]] | None:
    """The step of the best checkpoint, and of an average all its steps; None: there is none, or it is damaged."""
    if (best := run.checkpoint("best")).is_file():
        with contextlib.suppress(OSError, SafetensorError, RunError):
            return read_moment(best, read_metadata(best))
    return None


def best_record(records: Sequence[Record], metric: Literal["bleu", "loss"]) -> Record | None:
    """The first validation with the best score, by the metric that the config calls `best_metric`."""
    key, sign = ("BLEU", 1) if metric == "bleu" else ("nll", -1)
    validations = [
        record
        for record in records
        if record["kind"] == "validation"
        and math.isfinite(record.get(key, math.nan))
        and not math.isnan(record.get("nll", 0.0))
    ]
    return max(validations, key=lambda record: sign * record[key], default=None)
