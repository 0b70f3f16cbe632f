"""What training steps report: totals of a log window, the record in `metrics.jsonl`, and the line in the log.

To add a number, add its total over the steps to `_TOTALS`, its value to `LogWindow.numbers`, and, if the log line
should show it, a row to `_PROMINENT` or `_DIM`.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from translate.training.step import StepResult

Total = float | Tensor
"""A number on a GPU stays there until it is read."""

# How each total of a log window changes with a step. All start at 0, also in a run whose checkpoint is older than the
# total. A checkpoint holds those of the open window by these names; older checkpoints need the names that are here.
_TOTALS: dict[str, Callable[[Total, StepResult], Total]] = {
    "steps": lambda total, result: total + 1,
    "loss": lambda total, result: total + result.loss,
    "nll": lambda total, result: total + result.nll,
    "tokens": lambda total, result: total + result.tokens,
    "gradient_norm": lambda total, result: total + result.gradient_norm.to(result.loss),
}


class LogWindow:
    """Totals of the steps since the last log entry.

    Args:
        totals: Those of a window that is continued.
    """

    def __init__(self, totals: Mapping[str, int | float] | None = None) -> None:
        self._totals: dict[str, Total] = {name: (totals or {}).get(name, 0) for name in _TOTALS}

    def add(self, result: StepResult) -> None:
        """Count one more step, without reading its tensors."""
        self._totals = {name: add(self._totals[name], result) for name, add in _TOTALS.items()}

    def __bool__(self) -> bool:
        return bool(self._totals["steps"])

    def read(self) -> dict[str, int | float]:
        """The totals by name, for a checkpoint; on a GPU this waits for the steps."""
        return {name: total if isinstance(total, int) else float(total) for name, total in self._totals.items()}

    def numbers(self) -> dict[str, float]:
        """The window's numbers by their key in `metrics.jsonl`."""
        totals = self.read()
        nll = totals["nll"] / totals["tokens"]
        return {
            "loss": totals["loss"] / totals["tokens"],  # in nats per target token
            "nll": nll,  # without label smoothing
            "perplexity": math.exp(min(700.0, nll)),
            "gradient_norm": totals["gradient_norm"] / totals["steps"],  # before clipping
        }


# What the log line shows of a record, by its key there: first prominently, then dimmed on a terminal.
_PROMINENT: dict[str, Callable[[float], str]] = {
    "nll": "loss {:.3f}".format,
    "perplexity": lambda perplexity: f"ppl {describe_perplexity(perplexity)}",
}
_DIM: dict[str, Callable[[float], str]] = {
    "learning_rate": lambda rate: f"lr {rate:.1e}" if rate else "lr 0",
    "target_tokens_per_second": "{:,.0f} tok/s".format,
}


def describe_step(record: Mapping[str, Any]) -> tuple[str, str]:
    """The log line of a train record in two parts: the prominent one, and the rest."""
    prominent = ", ".join(describe(record[key]) for key, describe in _PROMINENT.items())
    return f"Step {record['step']:,}: {prominent}", "".join(f", {show(record[key])}" for key, show in _DIM.items())


def describe_perplexity(perplexity: float) -> str:
    """A perplexity in at most seven characters: 3.43, 187, 22,026, 1e+06."""
    if perplexity < 99.995:
        return f"{perplexity:.2f}"
    return f"{perplexity:,.0f}" if perplexity < 999_999.5 else f"{perplexity:.0e}"
