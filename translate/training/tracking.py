"""What a training shows while it runs: `metrics.jsonl`, a progress bar, its speed, and the lines of its log."""

import contextlib
import hashlib
import json
import logging
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO, TypeVar

from torch.profiler import record_function
from tqdm import tqdm

from translate.atomic import atomic_write, write_error
from translate.config.schema import TrainingConfig
from translate.runs.directory import RunDirectory
from translate.runs.progress import Progress
from translate.training.profile import WAITING_FOR_DATA
from translate.training.trackers import Trackers

logger = logging.getLogger(__name__)

T = TypeVar("T")

_COLUMNS = 80  # of a line in the log
_SECONDS_BETWEEN_TEXTS = 1.0  # to read a loss, a GPU must be waited for
_BAR = "{l_bar}{bar}| {n:,}/{total:,} [{elapsed}{postfix}]"  # the text beside it has our own time left


class Recorder:
    """Receives the records of a training: writes them to `metrics.jsonl`, gives them to trackers, and shows a bar.

    The bar appears on a terminal only. Records of steps that a continued training will repeat are cut off first.

    Args:
        progress: Where the training stands when it begins or is continued.
        is_silent: Write and show nothing, as on ranks > 0.
        stream: Shows the bar; None: standard error.

    Raises:
        RunError: The metrics cannot be read or written.
    """

    def __init__(
        self,
        run: RunDirectory,
        settings: TrainingConfig,
        progress: Progress,
        *,
        trackers: Trackers | None = None,
        is_silent: bool = False,
        stream: TextIO | None = None,
    ) -> None:
        self._path, self._trackers = run.metrics, trackers
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

    @contextlib.contextmanager
    def validating(self, num_lines: int) -> Iterator[Callable[[int], object]]:
        """A context with a second bar below the first, which is cleared in the end; yields what advances it."""
        with tqdm(
            total=num_lines,
            desc="validating",
            file=self._bar.fp if not self._bar.disable else None,
            disable=self._bar.disable,
            dynamic_ncols=True,
            leave=False,
            bar_format="{l_bar}{bar}| [{elapsed}, {remaining} left]",
        ) as bar:
            yield bar.update

    def record(self, record: dict[str, Any]) -> None:
        """Keep a record.

        Args:
            record: A record with `kind` (train, validation, validation/NAME, average or evaluation) and `step`;
                trackers get its numbers too.

        Raises:
            RunError: It cannot be written.
        """
        if self._file is not None:
            line = json.dumps(record, ensure_ascii=False).encode() + b"\n"
            with self._explain_errors():
                written = 0
                while written < len(line):
                    written += self._file.write(line[written:])
        if self._trackers is not None:
            self._trackers.log(record)

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

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Finish the files, and the services' runs."""
        self._bar.close()
        if self._file is not None:
            self._file.close()
        if self._trackers is not None:
            self._trackers.close(is_done=error is None)

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
        kept = b""
        for line in content.splitlines(keepends=True):
            # A process that was killed has left half a line.
            with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
                kept += line if json.loads(line)["step"] <= progress.step else b""
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
        """Yield the same steps, and measure how long each is waited for."""
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
        """Target tokens a second in this log window, and the share of its time spent waiting for batches."""
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

        Steps are expected to take as long as those of this log window. A training that may stop early has ≤ before it.
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


def describe_step(record: Mapping[str, Any]) -> tuple[str, str]:
    """The log line of a train record in two parts: the loss without label smoothing, and the rate and speed."""
    rate = f"{record['learning_rate']:.1e}" if record["learning_rate"] else "0"
    quality = f"Step {record['step']:,}: loss {record['nll']:.3f}, ppl {_perplexity(record['perplexity'])}"
    return quality, f", lr {rate}, {record['target_tokens_per_second']:,.0f} tok/s"


def describe_validation(
    record: Mapping[str, Any], *, is_best: bool = False, name: str | None = None
) -> tuple[str, str]:
    """The log line of a validation record in two parts: its scores and the rest, with the time if that still fits.

    Args:
        name: Of a corpus of `data.validation_also`; None: `data.validation`.
    """
    what = f"Step {record['step']:,}: validation" if name is None else f"  {name}:"
    scores = f"{what} BLEU {record['BLEU']:.2f}, chrF {record['chrF']:.2f}"
    loss = f", loss {record['loss']:.3f}, ppl {_perplexity(record['perplexity'])}{', best' if is_best else ''}"
    seconds = f", {describe_seconds(record['seconds'])}"
    return scores, loss + (seconds if len(scores + loss + seconds) <= _COLUMNS else "")


def _perplexity(perplexity: float) -> str:
    """A perplexity in at most seven characters: 3.43, 187, 22,026, 1e+06."""
    if perplexity < 99.995:
        return f"{perplexity:.2f}"
    return f"{perplexity:,.0f}" if perplexity < 999_999.5 else f"{perplexity:.0e}"
