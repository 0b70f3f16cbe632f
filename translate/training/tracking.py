"""What remains of a training besides its checkpoints: log lines and a bar, `metrics.jsonl`, TensorBoard if asked."""

import contextlib
import hashlib
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from tqdm import tqdm

from translate.atomic import atomic_write, write_error
from translate.decoding import count_conditions
from translate.errors import InputError
from translate.evaluation.evaluate import spread_samples
from translate.training.progress import MetricsMark
from translate.training.validation import Validation

logger = logging.getLogger(__name__)

Record = dict[str, Any]

_SECONDS_BETWEEN_TEXTS = 1.0  # to read a loss, a GPU must be waited for
_BAR = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"  # the text beside it has our own time left


class MetricsLog:
    """Appends records to `metrics.jsonl`, after cutting off what a continued training computes again.

    Args:
        path: The file; it is created if it does not exist.
        first_step: Steps already done.
        mark: Where the file stood then; None: unknown, and lines of later steps are dropped.

    Raises:
        RunError: The file cannot be read or written.
    """

    def __init__(self, path: Path, *, first_step: int, mark: MetricsMark | None) -> None:
        self.path = path
        with self._explain_errors():
            content = path.read_bytes() if path.exists() else b""
            if mark is None:
                kept = _lines_until(content, step=first_step)
            elif hashlib.sha256(content[: mark.num_bytes]).hexdigest() == mark.sha256:
                kept = content[: mark.num_bytes]
            else:
                logger.warning(f"{path} has changed since its checkpoint; its lines up to step {first_step} are kept")
                kept = _lines_until(content, step=first_step)
        if kept != content:
            with atomic_write(path) as file:
                file.write(kept)
        with self._explain_errors():
            # Without a buffer, so that a failed write is known at once, and not again when the file is closed.
            self._file = path.open("ab", buffering=0)
        self._num_bytes = len(kept)
        self._digest = hashlib.sha256(kept)

    def append(self, record: Record) -> None:
        """Write a record as a line of JSON.

        Raises:
            RunError: It cannot be written.
        """
        line = json.dumps(record, ensure_ascii=False).encode() + b"\n"
        with self._explain_errors():
            written = 0
            while written < len(line):
                written += self._file.write(line[written:])
        self._num_bytes += len(line)
        self._digest.update(line)

    def sync(self) -> MetricsMark:
        """Wait until all lines are on the disk, and return where the file stands.

        Raises:
            RunError: The disk refuses them.
        """
        with self._explain_errors():
            os.fsync(self._file.fileno())
        return MetricsMark(self._num_bytes, self._digest.hexdigest())

    def close(self) -> None:
        """Close the file; all lines are written already."""
        self._file.close()

    @contextlib.contextmanager
    def _explain_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise write_error(self.path, error) from error


def _lines_until(content: bytes, *, step: int) -> bytes:
    kept = []
    for line in content.splitlines(keepends=True):
        try:
            if json.loads(line)["step"] <= step:
                kept.append(line)
        except (ValueError, KeyError, TypeError):
            continue  # the half line of a process that was killed
    return b"".join(kept)


class Tracker:
    """Receives the records of a training, writes them and shows them; the bar appears on a terminal only.

    Args:
        metrics: Receives each record, and is closed with the tracker; None: on ranks > 0, which write and show nothing.
        first_step: Steps already done, when a run is continued.
        tensorboard: The directory for TensorBoard's events; None: none are written.

    Raises:
        InputError: TensorBoard is asked for and not installed.
    """

    def __init__(
        self,
        metrics: MetricsLog | None,
        *,
        first_step: int,
        max_steps: int,
        tensorboard: Path | None,
        stream: TextIO | None = None,
    ) -> None:
        self._metrics = metrics
        stream = stream or sys.stderr
        self._has_bar = metrics is not None and stream.isatty()
        self._bar = tqdm(
            total=max_steps,
            initial=first_step,
            unit="step",
            file=stream,
            disable=not self._has_bar,
            dynamic_ncols=True,
            bar_format=_BAR,
        )
        self._shown_at = 0.0
        self._writer = None
        if tensorboard is not None and metrics is not None:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError as error:
                raise InputError(
                    "training.tensorboard = true: pip install 'translate-nmt[tensorboard]' first"
                ) from error
            self._writer = SummaryWriter(tensorboard, purge_step=first_step + 1)

    def advance(self, describe: Callable[[], str], *, num_steps: int) -> None:
        """Count one more step on the bar.

        Args:
            describe: Returns the text beside the bar; called about once a second, and never without a terminal.
            num_steps: The steps of the whole training, as far as is known.
        """
        if not self._has_bar:
            return
        self._bar.total = num_steps
        if time.perf_counter() - self._shown_at >= _SECONDS_BETWEEN_TEXTS:
            self._bar.set_postfix_str(describe(), refresh=False)
            self._shown_at = time.perf_counter()
        self._bar.update()

    def record(self, record: Record, *, summary: str) -> None:
        """Keep a record, and log its summary.

        Args:
            record: A record with `kind` (train or validation) and `step`; its numbers go to TensorBoard too.

        Raises:
            RunError: It cannot be written.
        """
        if self._metrics is not None:
            self._metrics.append(record)
        if self._writer is not None:
            for name, value in record.items():
                if isinstance(value, int | float) and name != "step":
                    self._writer.add_scalar(f"{record['kind']}/{name}", value, record["step"])
        logger.info(f"step {record['step']}: {summary}")

    def sync(self) -> MetricsMark:
        """Wait until all records are on the disk, so that a checkpoint can rely on them.

        Raises:
            RunError: The disk refuses them.
        """
        return MetricsMark(0, "") if self._metrics is None else self._metrics.sync()

    def close(self) -> None:
        """Finish the files."""
        self._bar.close()
        if self._metrics is not None:
            self._metrics.close()
        if self._writer is not None:
            self._writer.close()


def record_validation(
    tracker: Tracker, result: Validation, *, step: int, references: Sequence[str], num_samples: int, is_best: bool
) -> None:
    """Record the result of a validation, and log some of its translations, evenly spaced."""
    evaluation = result.evaluation
    scores = {metric.name: metric.score for metric in evaluation.metrics}
    tracker.record(
        {
            "kind": "validation",
            "step": step,
            "loss": result.loss,
            "perplexity": result.perplexity,
            **scores,
            "num_truncated": count_conditions(evaluation.translations).truncated,
            "seconds": round(result.seconds, 3),
        },
        summary=(
            f"validation loss {result.loss:.3f}, ppl {result.perplexity:.2f}, BLEU {scores['BLEU']:.2f},"
            f" chrF {scores['chrF']:.2f}, in {result.seconds:.0f} s{', the best so far' if is_best else ''}"
        ),
    )
    for index in spread_samples(len(references), num_samples):
        source, translation = evaluation.translations[index].source, evaluation.translations[index].text
        logger.info(f"  {source}\n    reference:   {references[index]}\n    translation: {translation}")
