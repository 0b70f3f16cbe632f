"""The log of training steps: totals of a window, its speed, its record in `metrics.jsonl`, and its log line.

To add a number that a step reports, add its field to `StepResult` and its value to `LogWindow.numbers`. If the log line
should show it, add its text to `describe_step`.
"""

import math
import time
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from torch import Tensor

from translate.config.schema import Config
from translate.messages import describe_seconds
from translate.model.device import copy_to_host
from translate.runs.progress import Progress
from translate.training.step import StepResult

T = TypeVar("T")


class LogWindow:
    """The steps since the last log entry: totals, and how fast they were. The time of validations does not count.

    A checkpoint holds the totals of the open window by name, and its `seconds`. A continued run begins with them, and
    measures the speed of its own steps. A total missing from an older checkpoint starts at 0.
    """

    def __init__(self, config: Config, progress: Progress) -> None:
        self._settings, self._progress = config.training, progress
        self.steps_per_epoch: int | None = None  # of the current epoch, once it is planned
        self._left_out = 0.0  # seconds of all validations
        self._validation_seconds = 0.0 if config.data.validation is None else None  # of the last one, once it is known
        self.restart()
        self._totals |= progress.window

    def restart(self) -> None:
        """Begin a new window, whose speed is measured from now on."""
        self._totals: dict[str, float | Tensor] = {}
        self._began, self._waited = time.perf_counter() - self._left_out, 0.0
        self._first_step, self._own_tokens = self._progress.step, 0

    def add(self, result: StepResult) -> None:
        """Count one more step. Its tensors are not read, because on a GPU that would wait for the step."""
        for name, number in {"steps": 1, **result._asdict()}.items():
            precise = number.to(result.loss) if isinstance(number, Tensor) else number
            self._totals[name] = self._totals.get(name, 0) + precise
        self._own_tokens += result.tokens

    def __bool__(self) -> bool:
        return bool(self._totals.get("steps"))

    def read(self) -> dict[str, int | float]:
        """The totals by name, for a checkpoint; on a GPU this waits for the steps, once for all totals."""
        tensors = {name: total for name, total in self._totals.items() if isinstance(total, Tensor)}
        copies = dict(zip(tensors, copy_to_host(*tensors.values()), strict=True))
        totals = self._totals | copies | {"seconds": float(self._totals.get("seconds", 0.0)) + self._seconds}
        return {name: total if isinstance(total, int) else float(total) for name, total in totals.items()}

    def numbers(self) -> dict[str, float]:
        """The window's numbers by their key in `metrics.jsonl`."""
        totals = self.read()
        nll = totals["nll"] / totals["tokens"]
        return {
            "loss": totals["loss"] / totals["tokens"],  # in nats per target token
            "nll": nll,  # without label smoothing
            "perplexity": math.exp(min(nll, 700.0)),
            "gradient_norm": totals["gradient_norm"] / totals["steps"],  # before clipping
            "target_tokens_per_second": self.tokens_per_second,
            "waiting": round(self._waited / self._seconds, 4),  # the share of the time spent waiting for batches
        }

    @property
    def tokens_per_second(self) -> float:
        """Target tokens per second."""
        return round(self._own_tokens / self._seconds, 1)

    @property
    def _seconds(self) -> float:
        return time.perf_counter() - self._left_out - self._began

    def timed(self, steps: Iterator[T]) -> Iterator[T]:
        """Yield the same steps, and measure the time spent waiting for them."""
        while True:
            asked = time.perf_counter()
            step = next(steps, None)
            self._waited += time.perf_counter() - asked
            if step is None:
                return
            yield step

    def end_validation(self, seconds: float) -> None:
        """Leave the time of a validation out of the speed, and expect later validations to take as long."""
        self._left_out += seconds
        self._validation_seconds = seconds

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

        Steps are expected to take as long as in this log window. ≤ marks a training run that may stop early.
        """
        steps, done, every = self.steps_left, self._progress.step, self._settings.validate_every
        if steps == 0:
            return ""
        last = done + steps
        validations = last // every - done // every + (last % every > 0)
        seconds_per_step = self._seconds / max(1, done - self._first_step)
        time_left = describe_seconds(steps * seconds_per_step + validations * (self._validation_seconds or 0.0))
        if self._validation_seconds is None and validations:
            time_left += f" and {validations:,} validation{'s' * (validations > 1)}"
        return f", {'≤ ' if self._settings.patience is not None else ''}{time_left} left"


def describe_step(record: Mapping[str, Any]) -> tuple[str, str]:
    """The log line of a train record in two parts: the quality, and the rest, which is dimmed on a terminal."""
    quality = f"loss {record['nll']:.3f}, ppl {describe_perplexity(record['perplexity'])}"
    rate = f"{record['learning_rate']:.1e}" if record["learning_rate"] else "0"
    return f"Step {record['step']:,}: {quality}", f", lr {rate}, {record['target_tokens_per_second']:,.0f} tok/s"


def describe_perplexity(perplexity: float) -> str:
    """A perplexity in at most seven characters: 3.43, 187, 22,026, 1e+06."""
    if perplexity < 99.995:
        return f"{perplexity:.2f}"
    return f"{perplexity:,.0f}" if perplexity < 999_999.5 else f"{perplexity:.0e}"
