"""Where a training stands, besides the tensors that checkpoints hold, and how fast it goes."""

import collections
import dataclasses
import json
import math
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.profiler import record_function

from translate.config import TrainingConfig
from translate.errors import RunError
from translate.training.precision import LossScale
from translate.training.profile import WAITING_FOR_DATA

T = TypeVar("T")

# The names of fields in checkpoints of versions up to 0.3.0.
_OLD_NAMES = {"nats": "loss", "cross_entropy": "nll", "circumstances": "environment"}
_RECENT_STEPS = 200


class MetricsMark(NamedTuple):
    """The beginning of metrics.jsonl that a checkpoint was written with."""

    num_bytes: int
    sha256: str


class StepResult(NamedTuple):
    """The loss and gradient of one step. On a GPU the numbers may still be computed: reading one waits for the step."""

    loss: Float[Tensor, ""]  # in nats, summed over targets
    nll: Float[Tensor, ""]  # the loss without label smoothing, summed over targets
    tokens: int  # targets that are not padding
    gradient_norm: Float[Tensor, ""]  # before clipping

    @property
    def mean_loss(self) -> float:
        """Nats a target token; reads the tensor."""
        return float(self.loss) / self.tokens


@dataclasses.dataclass
class LogWindow:
    """Sums over the steps since the last log entry; `add` updates only the counts, and `read` the other sums."""

    steps: int = 0
    loss: float = 0.0
    nll: float = 0.0
    tokens: int = 0
    gradient_norm: float = 0.0

    def __post_init__(self) -> None:
        self._unread: list[StepResult] = []

    def add(self, result: StepResult) -> None:
        """Count one more step, without reading its tensors."""
        self.steps += 1
        self.tokens += result.tokens
        self._unread.append(result)

    def read(self) -> None:
        """Read the results of all steps at once; the sums are the same as if each had been read by itself."""
        if self._unread:
            losses, nlls, _, gradient_norms = zip(*self._unread, strict=True)
            self.loss = _add(self.loss, losses)
            self.nll = _add(self.nll, nlls)
            self.gradient_norm = _add(self.gradient_norm, gradient_norms)
            self._unread = []

    def means(self) -> dict[str, Any]:
        """Loss in nats a token, perplexity without label smoothing, and the gradient's norm a step."""
        self.read()
        return {
            "loss": self.loss / self.tokens,
            "perplexity": math.exp(min(700.0, self.nll / self.tokens)),
            "gradient_norm": self.gradient_norm / self.steps,
        }


def _add(total: float, values: Sequence[Tensor]) -> float:
    for value in torch.stack(list(values)).tolist():  # `sum` would round otherwise, and depend on when it is read
        total += value
    return total


@dataclasses.dataclass
class Progress:
    """Counters of a training; each checkpoint has them as JSON."""

    data_fingerprint: str  # of the training pairs and the tokenizers
    step: int = 0  # optimizer steps done
    epoch: int = 0  # passes over the data done
    step_in_epoch: int = 0  # optimizer steps done of the current pass
    target_tokens: int = 0  # seen so far, padding not counted
    validated_step: int | None = None  # of the last validation
    best_step: int | None = None
    best_score: float | None = None  # more is better: BLEU, or the loss negated
    validations_without_better: int = 0
    window: LogWindow = dataclasses.field(default_factory=LogWindow)
    # Of metrics.jsonl when the checkpoint was written; checkpoints of version 0.1.0 do not have it.
    metrics_bytes: int | None = None
    metrics_sha256: str | None = None
    loss_scale: LossScale = dataclasses.field(default_factory=LossScale)  # of fp16
    environment: dict[str, str] = dataclasses.field(default_factory=dict)  # see `describe_environment`
    stream: dict[str, Any] | None = None  # where this epoch begins in streamed corpora; see `StreamedBatches.position`

    @property
    def metrics(self) -> MetricsMark | None:
        """How much of metrics.jsonl belongs to the checkpoint, if it is known."""
        if self.metrics_bytes is None or self.metrics_sha256 is None:
            return None
        return MetricsMark(self.metrics_bytes, self.metrics_sha256)

    def to_json(self) -> str:
        """The text that `from_json` reads."""
        self.window.read()
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Progress":
        """Read the progress that `to_json` wrote, in this version or an older one.

        Raises:
            RunError: The text is something else.
        """
        try:
            values = {_OLD_NAMES.get(name, name): value for name, value in json.loads(text).items()}
            scale = LossScale(**values.get("loss_scale", {}))  # older versions have none
            window = {_OLD_NAMES.get(name, name): value for name, value in values["window"].items()}
            return cls(**{**values, "window": LogWindow(**window), "loss_scale": scale})
        except (ValueError, TypeError, KeyError) as error:
            raise RunError(f"the checkpoint's progress is unreadable: {error}") from error


class Speed(NamedTuple):
    """The speed of the steps since the last log entry."""

    tokens_per_second: float  # target tokens
    waiting: float  # share of the time in which there was no batch to compute, 0 to 1


class Throughput:
    """Measures how fast a training goes; the time of validations, and what else is left out, does not count.

    Args:
        progress: Where the training stands; it is read whenever a number is asked for.
    """

    def __init__(self, settings: TrainingConfig, progress: Progress) -> None:
        self._settings = settings
        self._progress = progress
        self.steps_per_epoch: int | None = None
        """The steps of the current epoch, as soon as it is planned."""
        self._left_out = 0.0  # seconds
        self._validation_seconds = 0.0  # of the last one
        self._step_ends = collections.deque([self._now()], maxlen=_RECENT_STEPS + 1)
        self.begin_window()

    def begin_window(self) -> None:
        """Begin a new log window, to which `speed` applies from now on."""
        self._began, self._began_with, self._waited = self._now(), self._progress.target_tokens, 0.0

    def timed(self, steps: Iterator[T]) -> Iterator[T]:
        """Yield the same steps, and measure how long each takes to come."""
        while True:
            asked = time.perf_counter()
            with record_function(WAITING_FOR_DATA):
                step = next(steps, None)
            self._waited += time.perf_counter() - asked
            if step is None:
                return
            yield step

    def end_step(self) -> None:
        """Count one more step as done."""
        self._step_ends.append(self._now())

    def leave_out(self, seconds: float) -> None:
        """Leave out a time that was no part of the training's speed."""
        self._left_out += seconds

    def end_validation(self, seconds: float) -> None:
        """Leave out the time of a validation, and expect the next ones to take as long."""
        self.leave_out(seconds)
        self._validation_seconds = seconds

    def speed(self) -> Speed:
        """The speed since the last log entry."""
        seconds = self._now() - self._began
        return Speed((self._progress.target_tokens - self._began_with) / seconds, self._waited / seconds)

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
        """The expected time of the remaining steps and validations, as text behind a comma; empty at the end.

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
    """A time as people say it: 40 s, 12 min, 3 h 20 min, 2 days 4 h."""
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    hours = round(seconds / 3600)
    return f"{hours // 24} day{'s' * (hours >= 48)} {hours % 24} h"
