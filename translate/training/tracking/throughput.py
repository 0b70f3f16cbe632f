"""How fast a training is, and how long it will still take."""

import math
import time
from collections.abc import Iterator
from typing import TypeVar

from torch.profiler import record_function

from translate.config.schema import TrainingConfig
from translate.runs.progress import Progress
from translate.training.tracking.profile import WAITING_FOR_DATA

T = TypeVar("T")


class Throughput:
    """Measures how fast a training is; the time of validations does not count.

    Args:
        progress: The progress of the training; it is read whenever a number is asked for.
    """

    def __init__(self, settings: TrainingConfig, progress: Progress) -> None:
        self._settings, self._progress = settings, progress
        self.steps_per_epoch: int | None = None  # of the current epoch, as soon as it is planned
        self._left_out = 0.0  # seconds
        self._validation_seconds = 0.0  # of the last one
        self.begin_window()

    def begin_window(self) -> None:
        """Begin a new log window, whose speed is measured from now on."""
        self._began, self._waited = self._now(), 0.0
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
        seconds = self._now() - self._began
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
        seconds_per_step = (self._now() - self._began) / max(1, done - self._first_step)
        seconds = steps * seconds_per_step + validations * self._validation_seconds
        return f", {'≤ ' if self._settings.patience is not None else ''}{describe_seconds(seconds)} left"

    def _now(self) -> float:
        return time.perf_counter() - self._left_out


def describe_seconds(seconds: float) -> str:
    """A time in at most eight characters: 40 s, 12 min, 3.3 h, 2.2 days."""
    units = (("s", 1, 59.5), ("min", 60, 59.5), ("h", 3600, 23.95), ("days", 86400, math.inf))
    unit, number = next((unit, seconds / length) for unit, length, limit in units if seconds / length < limit)
    return f"{number:.1f} {unit}" if unit in ("h", "days") and number < 9.95 else f"{number:.0f} {unit}"
