"""Where a training stands: everything that decides how it goes on, besides the tensors."""

import dataclasses
import json
import math
from typing import Any, NamedTuple

from translate.errors import RunError
from translate.training.metrics_log import MetricsMark


class StepResult(NamedTuple):
    """What one optimizer step saw."""

    nats: float  # the loss, summed over targets
    cross_entropy: float  # nats without label smoothing, summed over targets
    tokens: int  # targets that are not padding
    gradient_norm: float  # before clipping

    @property
    def loss(self) -> float:
        """Nats a target token."""
        return self.nats / self.tokens


@dataclasses.dataclass
class LogWindow:
    """Sums over the steps since the last log entry."""

    steps: int = 0
    nats: float = 0.0
    cross_entropy: float = 0.0
    tokens: int = 0
    gradient_norm: float = 0.0

    def add(self, result: StepResult) -> None:
        """One more step."""
        self.steps += 1
        self.nats += result.nats
        self.cross_entropy += result.cross_entropy
        self.tokens += result.tokens
        self.gradient_norm += result.gradient_norm

    def means(self) -> dict[str, Any]:
        """Loss in nats a token, perplexity without label smoothing, and the gradient's norm a step."""
        return {
            "loss": self.nats / self.tokens,
            "perplexity": math.exp(min(700.0, self.cross_entropy / self.tokens)),
            "gradient_norm": self.gradient_norm / self.steps,
        }


@dataclasses.dataclass
class Progress:
    """Counters of a training; saved in each checkpoint as JSON."""

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
    # Of metrics.jsonl when the checkpoint was written; those of version 0.1.0 do not say it.
    metrics_bytes: int | None = None
    metrics_sha256: str | None = None
    circumstances: dict[str, str] = dataclasses.field(default_factory=dict)  # see `circumstances.py`

    @property
    def metrics(self) -> MetricsMark | None:
        """How much of metrics.jsonl the checkpoint vouches for, if it says."""
        if self.metrics_bytes is None or self.metrics_sha256 is None:
            return None
        return MetricsMark(self.metrics_bytes, self.metrics_sha256)

    def to_json(self) -> str:
        """What `from_json` reads."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Progress":
        """The progress that `to_json` wrote.

        Raises:
            RunError: Not such a text.
        """
        try:
            values = json.loads(text)
            return cls(**{**values, "window": LogWindow(**values["window"])})
        except (ValueError, TypeError, KeyError) as error:
            raise RunError(f"the checkpoint's progress is unreadable: {error}") from error
