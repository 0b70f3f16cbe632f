"""How fast a training goes: target tokens a second, how much of the time it waits for data, how long it still takes."""

import collections
import time
from collections.abc import Iterator
from typing import NamedTuple, TypeVar

from torch.profiler import record_function

from translate.config import TrainingConfig
from translate.training.profile import WAITING_FOR_DATA
from translate.training.progress import Progress

T = TypeVar("T")

_RECENT_STEPS = 200


class Speed(NamedTuple):
    """Of the steps since the last log entry."""

    tokens_per_second: float  # target tokens
    waiting: float  # share of the time in which there was no batch to compute, 0 to 1


class Pace:
    """Measures a training from step to step; the time of validations and what else is left out does not count.

    Args:
        progress: Where the training stands, whenever something is asked for.
    """

    def __init__(self, settings: TrainingConfig, progress: Progress) -> None:
        self._settings = settings
        self._progress = progress
        self.steps_per_epoch: int | None = None
        """Of the current epoch, as soon as it is planned."""
        self._left_out = 0.0  # seconds
        self._validation_seconds = 0.0  # of the last one
        self._step_ends = collections.deque([self._now()], maxlen=_RECENT_STEPS + 1)
        self.begin_window()

    def begin_window(self) -> None:
        """A log entry is made: what `speed` says is of the time from now on."""
        self._began, self._began_with, self._waited = self._now(), self._progress.target_tokens, 0.0

    def timed(self, steps: Iterator[T]) -> Iterator[T]:
        """The same, with the time measured that each takes to come."""
        while True:
            asked = time.perf_counter()
            with record_function(WAITING_FOR_DATA):
                step = next(steps, None)
            self._waited += time.perf_counter() - asked
            if step is None:
                return
            yield step

    def end_step(self) -> None:
        """A step is done."""
        self._step_ends.append(self._now())

    def leave_out(self, seconds: float) -> None:
        """So long something took that is no part of the training's speed."""
        self._left_out += seconds

    def end_validation(self, seconds: float) -> None:
        """So long a validation took; the next ones are expected to take as long."""
        self.leave_out(seconds)
        self._validation_seconds = seconds

    def speed(self) -> Speed:
        """The speed since the last log entry."""
        seconds = self._now() - self._began
        return Speed((self._progress.target_tokens - self._began_with) / seconds, self._waited / seconds)

    @property
    def steps_left(self) -> int:
        """To `max_steps` or the end of `max_epochs`, whichever comes first, if all epochs are as long as this one."""
        settings, progress = self._settings, self._progress
        steps = settings.max_steps - progress.step
        if settings.max_epochs is not None and self.steps_per_epoch is not None:
            epochs = settings.max_epochs - progress.epoch
            steps = min(steps, epochs * self.steps_per_epoch - progress.step_in_epoch)
        return max(0, steps)

    def time_left(self) -> str:
        """How long steps and validations will take if they take as long as the last ones, behind a comma; or nothing.

        A training that may stop early takes at most so long.
        """
        steps, done, every = self.steps_left, self._progress.step, self._settings.validate_every
        if steps == 0:
            return ""
        last, ends = done + steps, self._step_ends
        validations = last // every - done // every + (last % every > 0)
        seconds = steps * (ends[-1] - ends[0]) / max(1, len(ends) - 1) + validations * self._validation_seconds
        return f", {'at most ' if self._settings.patience is not None else ''}{describe_seconds(seconds)} left"

    def _now(self) -> float:
        return time.perf_counter() - self._left_out


def describe_seconds(seconds: float) -> str:
    """As people say it: 40 s, 12 min, 3 h 20 min, 2 days 4 h."""
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    hours = round(seconds / 3600)
    return f"{hours // 24} day{'s' * (hours >= 48)} {hours % 24} h"
