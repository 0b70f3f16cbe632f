"""What training steps report: totals of a log window, its speed, the record in `metrics.jsonl`, the line in the log.

To add a number, add its total over the steps to `_TOTALS`, its value to `LogWindow.numbers`, and, if the log line
should show it, a row to `_SHOWN`.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from torch import Tensor
from torch.profiler import record_function

from translate.config.schema import TrainingConfig
from translate.runs.progress import Progress
from translate.training.step import StepResult
from translate.training.tracking.profile import WAITING_FOR_DATA

T = TypeVar("T")
Total = float | Tensor
"""A number on a GPU stays there until it is read."""

# How each total of a log window changes with a step. All start at 0, also in a run whose checkpoint is older than the
# total. A checkpoint holds those of the open window by these names; older checkpoints need the names that are here.
_TOTALS: dict[str, Callable[[Total, StepResult], Total]] = {
    "steps": lambda total, result: total + 1,
    "loss": lambda total, result: total + result.loss,
    "nll": lambda total, result: total + result.nll,
    "tokens": lambda total, result: total + result.tokens,
    "gradient_norm": lambda total, result: total + result.gradient_norm.to(result.loss),
}

# What the log line shows of a record, in order. With the longest values it has 80 columns.
_SHOWN: tuple[Callable[[Mapping[str, Any]], str], ...] = (
    lambda record: f"loss {record['nll']:.3f}",
    lambda record: f"ppl {describe_perplexity(record['perplexity'])}",
    lambda record: f"lr {record['learning_rate']:.1e}" if record["learning_rate"] else "lr 0",
    lambda record: f"{record['target_tokens_per_second']:,.0f} tok/s",
)
_NUM_PROMINENT = 2  # the others are dimmed on a terminal


class LogWindow:
    """Totals of the steps since the last log entry; a window that is continued begins with some."""

    def __init__(self, totals: Mapping[str, int | float] = MappingProxyType({})) -> None:
        self._totals: dict[str, Total] = {name: totals.get(name, 0) for name in _TOTALS}

    def add(self, result: StepResult) -> None:
        """Count one more step, without reading its tensors."""
        self._totals = {name: add(self._totals[name], result) for name, add in _TOTALS.items()}

    def __bool__(self) -> bool:
        return bool(self._totals["steps"])

    def read(self) -> dict[str, int | float]:
        """The totals by name, for a checkpoint; on a GPU this waits for the steps."""
        return {name: total if isinstance(total, int) else float(total) for name, total in self._totals.items()}

    def numbers(self) -> dict[str, float]:
        """The window's numbers by their key in `metrics.jsonl`."""
        totals = self.read()
        nll = totals["nll"] / totals["tokens"]
        return {
            "loss": totals["loss"] / totals["tokens"],  # in nats per target token
            "nll": nll,  # without label smoothing
            "perplexity": math.exp(min(700.0, nll)),
            "gradient_norm": totals["gradient_norm"] / totals["steps"],  # before clipping
        }


class Throughput:
    """Measures how fast a training is; the time of validations does not count."""

    def __init__(self, settings: TrainingConfig, progress: Progress) -> None:
        self._settings, self._progress = settings, progress
        self.steps_per_epoch: int | None = None  # of the current epoch, as soon as it is planned
        self._left_out = self._validation_seconds = 0.0  # of all validations, and of the last one
        self.begin_window()

    def begin_window(self) -> None:
        """Begin a new log window, whose speed is measured from now on."""
        self._began, self._waited = time.perf_counter() - self._left_out, 0.0
        self._first_step, self._first_token = self._progress.step, self._progress.target_tokens

    def timed(self, steps: Iterator[T]) -> Iterator[T]:
        """Yield the same steps, and measure the time spent waiting for them."""
        while True:
            asked = time.perf_counter()
            with record_function(WAITING_FOR_DATA):
                step = next(steps, None)
            self._waited += time.perf_counter() - asked
            if step is None:
                return
            yield step

    def end_validation(self, seconds: float) -> None:
        """Leave the time of a validation out of the speed, and expect later validations to take as long."""
        self._left_out += seconds
        self._validation_seconds = seconds

    def speed(self) -> tuple[float, float]:
        """Target tokens per second in this log window, and the share of its time spent waiting for batches."""
        seconds = time.perf_counter() - self._left_out - self._began
        return (self._progress.target_tokens - self._first_token) / seconds, self._waited / seconds

    @property
    def steps_left(self) -> int:
        """Steps to `max_steps` or the end of `max_epochs`, whichever comes first, if all epochs are as long as this."""
        settings, progress = self._settings, self._progress
        steps = settings.max_steps - progress.step
        if settings.max_epochs is not None and self.steps_per_epoch is not None:
            epochs = settings.max_epochs - progress.epoch
            steps = min(steps, epochs * self.steps_per_epoch - progress.step_in_epoch)
        return max(0, steps)

    def time_left(self) -> str:
        """The expected time of the remaining steps and validations, as text after a comma; empty at the end.

        Steps are expected to take as long as those of this log window. ≤ marks a training that may stop early.
        """
        steps, done, every = self.steps_left, self._progress.step, self._settings.validate_every
        if steps == 0:
            return ""
        last = done + steps
        validations = last // every - done // every + (last % every > 0)
        seconds_per_step = (time.perf_counter() - self._left_out - self._began) / max(1, done - self._first_step)
        seconds = steps * seconds_per_step + validations * self._validation_seconds
        return f", {'≤ ' if self._settings.patience is not None else ''}{describe_seconds(seconds)} left"


def describe_step(record: Mapping[str, Any]) -> tuple[str, str]:
    """The log line of a train record in two parts: the prominent one, and the rest, which is dimmed on a terminal."""
    shown = [show(record) for show in _SHOWN]
    prominent, rest = shown[:_NUM_PROMINENT], shown[_NUM_PROMINENT:]
    return f"Step {record['step']:,}: {', '.join(prominent)}", f", {', '.join(rest)}"


def describe_perplexity(perplexity: float) -> str:
    """A perplexity in at most seven characters: 3.43, 187, 22,026, 1e+06."""
    if perplexity < 99.995:
        return f"{perplexity:.2f}"
    return f"{perplexity:,.0f}" if perplexity < 999_999.5 else f"{perplexity:.0e}"


def describe_seconds(seconds: float) -> str:
    """A time in at most eight characters: 40 s, 12 min, 3.3 h, 2.2 days."""
    units = (("s", 1, 59.5), ("min", 60, 59.5), ("h", 3600, 23.95), ("days", 86400, math.inf))
    unit, number = next((unit, seconds / length) for unit, length, limit in units if seconds / length < limit)
    return f"{number:.1f} {unit}" if unit in ("h", "days") and number < 9.95 else f"{number:.0f} {unit}"
