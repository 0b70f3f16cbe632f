"""What people see of a training: a bar on a terminal, plain lines elsewhere, `metrics.jsonl`, TensorBoard if asked."""

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from tqdm import tqdm

from translate.decoding import count_conditions
from translate.errors import InputError
from translate.evaluation import spread_samples
from translate.training.metrics_log import MetricsLog, MetricsMark, Record
from translate.training.validation import Validation

_SECONDS_BETWEEN_LOOKS = 1.0  # to read a loss, a GPU must be waited for
_BAR = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"  # the time left is in what is told, and ours


class Tracker:
    """Receives records of a training and shows them.

    Args:
        metrics: Gets each record; it is closed with the tracker.
        first_step: Steps already done, when a run is continued.
        tensorboard: Directory for TensorBoard's events; None: none are written.

    Raises:
        InputError: TensorBoard is asked for and not installed.
    """

    def __init__(
        self,
        metrics: MetricsLog,
        *,
        first_step: int,
        max_steps: int,
        tensorboard: Path | None,
        stream: TextIO | None = None,
    ) -> None:
        self._metrics = metrics
        self._stream = stream = stream or sys.stderr
        self._is_terminal = stream.isatty()
        self._bar = tqdm(
            total=max_steps,
            initial=first_step,
            unit="step",
            file=stream,
            disable=not self._is_terminal,
            dynamic_ncols=True,
            bar_format=_BAR,
        )
        self._looked_at = 0.0
        self._writer = None
        if tensorboard is not None:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError as error:
                raise InputError(
                    "training.tensorboard = true: pip install 'translate-nmt[tensorboard]' first"
                ) from error
            self._writer = SummaryWriter(tensorboard, purge_step=first_step + 1)

    def say(self, text: str) -> None:
        """Print a line, above the bar if there is one."""
        if self._is_terminal:
            self._bar.write(text, file=self._stream)
        else:
            print(text, file=self._stream, flush=True)

    def advance(self, tell: Callable[[], str], *, num_steps: int) -> None:
        """One more step is done.

        Args:
            tell: What the bar shows beside it; asked for about once a second, and never without a terminal.
            num_steps: As far as is known, of the whole training.
        """
        if not self._is_terminal:
            return
        self._bar.total = num_steps
        if time.perf_counter() - self._looked_at >= _SECONDS_BETWEEN_LOOKS:
            self._bar.set_postfix_str(tell(), refresh=False)
            self._looked_at = time.perf_counter()
        self._bar.update()

    def record(self, record: Record, *, summary: str) -> None:
        """Keep a record, and show its summary.

        Args:
            record: Has `kind` (train or validation) and `step`; numbers go to TensorBoard too.

        Raises:
            RunError: It cannot be written.
        """
        self._metrics.append(record)
        if self._writer is not None:
            for name, value in record.items():
                if isinstance(value, int | float) and name != "step":
                    self._writer.add_scalar(f"{record['kind']}/{name}", value, record["step"])
        self.say(f"step {record['step']}: {summary}")

    def sync(self) -> MetricsMark:
        """Wait until all records are on the disk, for a checkpoint to vouch for them.

        Raises:
            RunError: The disk refuses them.
        """
        return self._metrics.sync()

    def close(self) -> None:
        """Finish the files."""
        self._bar.close()
        self._metrics.close()
        if self._writer is not None:
            self._writer.close()


def record_validation(
    tracker: Tracker, result: Validation, *, step: int, references: Sequence[str], num_samples: int, is_best: bool
) -> None:
    """Record what a validation found, and show some of its translations.

    Args:
        num_samples: Translations to show, evenly spaced.
    """
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
        tracker.say(f"  {source}\n    reference:   {references[index]}\n    translation: {translation}")


class SilentTracker(Tracker):
    """That of a process which leaves it to another to write and to speak."""

    def __init__(self) -> None:
        pass

    def say(self, text: str) -> None:
        """Nothing."""

    def advance(self, tell: Callable[[], str], *, num_steps: int) -> None:
        """Nothing."""

    def record(self, record: Record, *, summary: str) -> None:
        """Nothing."""

    def sync(self) -> MetricsMark:
        """A mark of no file."""
        return MetricsMark(0, "")

    def close(self) -> None:
        """Nothing."""
