"""What people see of a training: a bar on a terminal, plain lines elsewhere, `metrics.jsonl`, TensorBoard if asked."""

import json
import sys
from pathlib import Path
from typing import Any, TextIO

from tqdm import tqdm

from translate.errors import InputError

Record = dict[str, Any]


class Tracker:
    """Receives records of a training and shows them.

    Args:
        metrics: File that gets a JSON line for each record.
        first_step: Steps already done, when a run is continued; later records in the file are dropped.
        tensorboard: Directory for TensorBoard's events; None: none are written.

    Raises:
        InputError: TensorBoard is asked for and not installed.
    """

    def __init__(
        self, metrics: Path, *, first_step: int, max_steps: int, tensorboard: Path | None, stream: TextIO | None = None
    ) -> None:
        _drop_records_after(metrics, first_step)
        self._file = metrics.open("a", encoding="utf-8", newline="\n")
        self._stream = stream = stream or sys.stderr
        self._is_terminal = stream.isatty()
        self._bar = tqdm(
            total=max_steps,
            initial=first_step,
            unit="step",
            file=stream,
            disable=not self._is_terminal,
            dynamic_ncols=True,
        )
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

    def advance(self, *, loss: float, tokens_per_second: float) -> None:
        """One more step is done; the bar shows its loss, the speed since the last log entry, and the time left."""
        if self._is_terminal:
            self._bar.set_postfix_str(f"loss {loss:.3f}, {tokens_per_second:.0f} target tokens/s", refresh=False)
            self._bar.update()

    def record(self, record: Record, *, summary: str) -> None:
        """Keep a record, and show its summary.

        Args:
            record: Has `kind` (train or validation) and `step`; numbers go to TensorBoard too.
        """
        self._file.write(json.dumps(record, ensure_ascii=False) + "\n")
        self._file.flush()
        if self._writer is not None:
            for name, value in record.items():
                if isinstance(value, int | float) and name != "step":
                    self._writer.add_scalar(f"{record['kind']}/{name}", value, record["step"])
        self.say(f"step {record['step']}: {summary}")

    def close(self) -> None:
        """Finish the files."""
        self._bar.close()
        self._file.close()
        if self._writer is not None:
            self._writer.close()


def _drop_records_after(metrics: Path, step: int) -> None:
    """A continued run computes them again."""
    if not metrics.exists():
        return
    kept = []
    for line in metrics.read_text(encoding="utf-8").splitlines(keepends=True):
        try:
            if json.loads(line)["step"] <= step:
                kept.append(line)
        except (ValueError, KeyError):
            continue  # the half line of a process that was killed
    metrics.write_text("".join(kept), encoding="utf-8", newline="\n")
