"""Where the records of a training run go: `metrics.jsonl`, trackers, and a progress bar."""

import contextlib
import hashlib
import json
import logging
import os
import time
from collections.abc import Callable
from typing import Any

from tqdm import tqdm

from translate.atomic import atomic_write, explain_write_errors, open_append, text_bytes
from translate.bars import Advance, show_progress
from translate.config.schema import Config
from translate.runs.directory import RunDirectory
from translate.runs.metrics import read_recorded
from translate.runs.progress import Progress
from translate.training.tracking.trackers import Trackers

logger = logging.getLogger(__name__)

_SECONDS_BETWEEN_TEXTS = 1.0  # reading a loss waits for the GPU


class Recorder:
    """Receives the records of a training run: writes them to `metrics.jsonl`, gives them to trackers, and shows a bar.

    The bar appears on a terminal only. Records of steps that a resumed run repeats are cut off first.

    Args:
        progress: The progress of training when it starts or is resumed.
        is_silent: Write and show nothing, as on ranks > 0.

    Raises:
        InputError: A tracker cannot start.
        RunError: The metrics cannot be read or written, here or later.
    """

    def __init__(self, run: RunDirectory, config: Config, progress: Progress, *, is_silent: bool = False) -> None:
        self._path, self._trackers, self._file = run.metrics, None, None
        if not is_silent:
            self._trackers = Trackers(run, config, step=progress.step)
            with explain_write_errors(self._path):
                _cut(run, progress)
                # Without a buffer, so that a failed write is known at once, and not again when the file is closed.
                self._file = open_append(self._path)
        self._bar = tqdm(
            total=config.training.max_steps,
            initial=progress.step,
            unit="step",
            disable=is_silent or None,  # None: if the stream is not a terminal
            dynamic_ncols=True,
            leave=False,
            bar_format="{l_bar}{bar}| {n:,}/{total:,} [{elapsed}{postfix}]",  # the postfix has our own time left
        )
        self.has_bar = not self._bar.disable
        """Whether the bar is shown."""
        self._shown_at = 0.0

    def advance(self, describe: Callable[[], str], *, num_steps: int) -> None:
        """Count one more step on the bar.

        Args:
            describe: Returns the text next to the bar; called about once per second, and only on a terminal.
            num_steps: The number of steps of the whole training, as far as known.
        """
        if not self.has_bar:
            return
        self._bar.total = num_steps
        if time.perf_counter() - self._shown_at >= _SECONDS_BETWEEN_TEXTS:
            self._bar.set_postfix_str(describe(), refresh=False)
            self._shown_at = time.perf_counter()
        self._bar.update()

    def validating(self, num_lines: int) -> contextlib.AbstractContextManager[Advance]:
        """A context with a second bar below the first; see `show_progress`."""
        self._bar.set_postfix_str("validating")
        return show_progress("Validating", num_lines, unit="lines")

    def record(self, record: dict[str, Any]) -> None:
        """Keep a record with `kind` and `step`; trackers get its numbers.

        The kind is train, validation, validation/NAME, average or evaluation.
        """
        if self._file is not None and self._trackers is not None:
            line = text_bytes(json.dumps(record, ensure_ascii=False) + "\n")
            with explain_write_errors(self._path):
                while line:
                    line = line[self._file.write(line) :]
            self._trackers.log(record)

    def sync(self) -> tuple[int, str]:
        """Wait until all records are on the disk, and return the bytes of `metrics.jsonl` and their SHA-256."""
        if self._file is None:
            return 0, ""
        with explain_write_errors(self._path):
            os.fsync(self._file.fileno())
            self._file.seek(0)
            content = self._file.read()
        return len(content), hashlib.sha256(content).hexdigest()

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Finish the files, and the services' runs."""
        self._bar.close()
        if self._file is not None and self._trackers is not None:
            self._file.close()
            self._trackers.close(is_done=error is None)


def _cut(run: RunDirectory, progress: Progress) -> None:
    """Cut `metrics.jsonl` to the records up to the progress of a checkpoint."""
    path, content = run.metrics, read_recorded(run)
    kept = content[: progress.metrics_bytes]
    if hashlib.sha256(kept).hexdigest() != progress.metrics_sha256:
        if progress.metrics_sha256 is not None:
            logger.warning(f"{path} has changed since its checkpoint; its lines up to step {progress.step} are kept")
        lines = []
        for line in content.splitlines():
            # A killed process may have left half a line.
            with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
                if json.loads(line)["step"] <= progress.step:
                    lines.append(line + b"\n")
        kept = b"".join(lines)
    if kept != content:
        with atomic_write(path) as file:
            file.write(kept)
