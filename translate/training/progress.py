"""Where a training stands, besides the tensors that checkpoints hold."""

import dataclasses
import json
import math
from typing import Any, NamedTuple

from jaxtyping import Float
from torch import Tensor

from translate.errors import RunError
from translate.training.precision import LossScale

# The names of fields in checkpoints of versions up to 0.3.0.
_OLD_NAMES = {"nats": "loss", "cross_entropy": "nll", "circumstances": "environment"}


class StepResult(NamedTuple):
    """The loss and gradient of one step; to read a number of a GPU is to wait for the step."""

    loss: Float[Tensor, ""]  # in nats, summed over targets; fp64, but fp32 on Apple's GPU
    nll: Float[Tensor, ""]  # the same without label smoothing
    tokens: int  # targets that are not padding
    gradient_norm: Float[Tensor, ""]  # before clipping


@dataclasses.dataclass
class LogWindow:
    """Sums over the steps since the last log entry; those of a GPU stay there until somebody reads them."""

    steps: int = 0
    loss: float | Tensor = 0.0
    nll: float | Tensor = 0.0
    tokens: int = 0
    gradient_norm: float | Tensor = 0.0

    def add(self, result: StepResult) -> None:
        """Count one more step, without reading its tensors."""
        self.steps += 1
        self.loss = self.loss + result.loss
        self.nll = self.nll + result.nll
        self.tokens += result.tokens
        self.gradient_norm = self.gradient_norm + result.gradient_norm.to(result.loss)

    def means(self) -> dict[str, float]:
        """Loss in nats a token, perplexity without label smoothing, and the gradient's norm a step."""
        return {
            "loss": float(self.loss) / self.tokens,
            "perplexity": math.exp(min(700.0, float(self.nll) / self.tokens)),
            "gradient_norm": float(self.gradient_norm) / self.steps,
        }


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

    def to_json(self) -> str:
        """The text that `from_json` reads."""
        return json.dumps(dataclasses.asdict(self), default=float)  # the sums of a window may be tensors

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
