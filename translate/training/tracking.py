"""What remains of a training besides its checkpoints: log lines and a bar, `metrics.jsonl`, TensorBoard if asked."""

import contextlib
import hashlib
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO, TypeVar

from torch.profiler import record_function
from tqdm import tqdm

from translate.atomic import atomic_write, write_error
from translate.config.schema import TrainingConfig
from translate.errors import InputError, install_hint
from translate.runs.directory import RunDirectory
from translate.runs.progress import Progress
from translate.training.profile import WAITING_FOR_DATA

logger = logging.getLogger(__name__)

T = TypeVar("T")

_SECONDS_BETWEEN_TEXTS = 1.0  # to read a loss, a GPU must be waited for
_BAR = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"  # the text beside it has our own time left


class Tracker:
    """Receives the records of a training: writes them to `metrics.jsonl` and TensorBoard, logs them, and shows a bar.

    The bar appears on a terminal only. What a continued training computes again is cut off from `metrics.jsonl` first.

    Args:
        progress: Where the training stands when it begins or is continued.
        is_silent: Write and show nothing, as on ranks > 0.
        stream: Shows the bar; None: standard error.

    Raises:
        InputError: TensorBoard is asked for and not installed.
        RunError: The metrics cannot be read or written.
    """

    def __init__(
        self,
        run: RunDirectory,
        settings: TrainingConfig,
        progress: Progress,
        *,
        is_silent: bool = False,
        stream: TextIO | None = None,
    ) -> None:
        self._path = run.metrics
        self._file = None
        if not is_silent:
            with self._explain_errors():
                _cut(self._path, progress)
                # Without a buffer, so that a failed write is known at once, and not again when the file is closed.
                self._file = self._path.open("a+b", buffering=0)
        self._bar = tqdm(
            total=settings.max_steps,
            initial=progress.step,
            unit="step",
            file=stream or sys.stderr,
            disable=is_silent or None,  # None: where the stream is no terminal
            dynamic_ncols=True,
            bar_format=_BAR,
        )
        self._shown_at = 0.0
        self._writer = None
        if settings.tensorboard and not is_silent:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError as error:
                raise InputError(
                    f"training.tensorboard = true needs TensorBoard: {install_hint('tensorboard')}"
                ) from error
            self._writer = SummaryWriter(run.tensorboard, purge_step=progress.step + 1)

    def advance(self, describe: Callable[[], str], *, num_steps: int) -> None:
        """Count one more step on the bar.

        Args:
            describe: Returns the text beside the bar; called about once a second, and never without a terminal.
            num_steps: The steps of the whole training, as far as is known.
        """
        if self._bar.disable:
            return
        self._bar.total = num_steps
        if time.perf_counter() - self._shown_at >= _SECONDS_BETWEEN_TEXTS:
            self._bar.set_postfix_str(describe(), refresh=False)
            self._shown_at = time.perf_counter()
        self._bar.update()

    def record(self, record: dict[str, Any], *, summary: str) -> None:
        """Keep a record, and log its summary.

        Args:
            record: A record with `kind` (train or validation) and `step`; its numbers go to TensorBoard too.

        Raises:
            RunError: It cannot be written.
        """
        if self._file is not None:
            line = json.dumps(record, ensure_ascii=False).encode() + b"\n"
            with self._explain_errors():
                written = 0
                while written < len(line):
                    written += self._file.write(line[written:])
        if self._writer is not None:
            for name, value in record.items():
                if isinstance(value, int | float) and name != "step":
                    self._writer.add_scalar(f"{record['kind']}/{name}", value, record["step"])
        logger.info(f"step {record['step']}: {summary}")

    def sync(self) -> tuple[int, str]:
        """Wait until all records are on the disk, and return the bytes of `metrics.jsonl` and their SHA-256.

        Raises:
            RunError: The disk refuses them.
        """
        if self._file is None:
            return 0, ""
        with self._explain_errors():
            os.fsync(self._file.fileno())
            self._file.seek(0)
            content = self._file.read()
        return len(content), hashlib.sha256(content).hexdigest()

    def close(self) -> None:
        """Finish the files."""
        self._bar.close()
        if self._file is not None:
            self._file.close()
        if self._writer is not None:
            self._writer.close()

    @contextlib.contextmanager
    def _explain_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise write_error(self._path, error) from error


def _cut(path: Path, progress: Progress) -> None:
    """Cut `metrics.jsonl` to the records that a training has at this point."""
    content = path.read_bytes() if path.exists() else b""
    kept = content[: progress.metrics_bytes]
    if hashlib.sha256(kept).hexdigest() != progress.metrics_sha256:
        if progress.metrics_sha256 is not None:
            logger.warning(f"{path} has changed since its checkpoint; its lines up to step {progress.step} are kept")
        lines = []
        for line in content.splitlines(keepends=True):
            with contextlib.suppress(
                ValueError, KeyError, TypeError, RecursionError
            ):  # a killed process left half a line
                if json.loads(line)["step"] <= progress.step:
                    lines.append(line)
        kept = b"".join(lines)
    if kept != content:
        with atomic_write(path) as file:
            file.write(kept)


class Throughput:
    """Measures how fast a training goes; the time of validations does not count.

    Args:
        progress: Where the training stands; it is read whenever a number is asked for.
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
        """Yield the same steps, and measure how long each takes to come."""
        while True:
            asked = time.perf_counter()
            with record_function(WAITING_FOR_DATA):
                step = next(steps, None)
            self._waited += time.perf_counter() - asked
            if step is None:
                return
            yield step

    def end_validation(self, seconds: float) -> None:
        """Leave out the time of a validation, and expect the next ones to take as long."""
        self._left_out += seconds
        self._validation_seconds = seconds

    def speed(self) -> tuple[float, float]:
        """Target tokens a second in this log window, and the share of its time without a batch to compute."""
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
        """The expected time of the remaining steps and validations, as text behind a comma; empty at the end.

        Steps are expected to take as long as those of this log window. A training that may stop early takes at most
        so long.
        """
        steps, done, every = self.steps_left, self._progress.step, self._settings.validate_every
        if steps == 0:
            return ""
        last = done + steps
        validations = last // every - done // every + (last % every > 0)
        seconds_per_step = (self._now() - self._began) / max(1, done - self._first_step)
        seconds = steps * seconds_per_step + validations * self._validation_seconds
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
