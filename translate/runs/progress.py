"""Where a training stands, besides the tensors that checkpoints hold, and how that is read from a checkpoint.

Whoever reads it gets the types that are declared here, so a checkpoint that was edited or damaged ends in one error.
"""

import dataclasses
import json
import math
from collections.abc import Iterable
from typing import Annotated, Any, NamedTuple

import torch
from jaxtyping import Float
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from torch import Tensor

from translate.config.section import NotNegativeInt
from translate.data.streaming import StreamPosition
from translate.errors import RunError

_STRICT = ConfigDict(arbitrary_types_allowed=True, strict=True, extra="forbid")

# The values of torch.amp.GradScaler.
_FIRST_SCALE = 2.0**16
_STEPS_BEFORE_GROWTH = 2000

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

    __pydantic_config__ = _STRICT
    steps: NotNegativeInt = 0
    loss: float | Tensor = 0.0
    nll: float | Tensor = 0.0
    tokens: NotNegativeInt = 0
    gradient_norm: float | Tensor = 0.0

    def add(self, result: StepResult) -> None:
        """Count one more step, without reading its tensors."""
        self.steps += 1
        self.loss = self.loss + result.loss
        self.nll = self.nll + result.nll
        self.tokens += result.tokens
        self.gradient_norm = self.gradient_norm + result.gradient_norm.to(result.loss)

    def means(self) -> dict[str, float]:
        """The smoothed loss and, without label smoothing, nats a token and perplexity; the gradient's norm a step."""
        nll = float(self.nll) / self.tokens
        return {
            "loss": float(self.loss) / self.tokens,
            "nll": nll,
            "perplexity": math.exp(min(700.0, nll)),
            "gradient_norm": float(self.gradient_norm) / self.steps,
        }


@dataclasses.dataclass
class LossScale:
    """A power of two by which the loss is multiplied, so that small gradients do not vanish in fp16.

    It grows and shrinks like that of `torch.amp.GradScaler`. But a step whose gradients overflow is not skipped: it is
    repeated with half the scale.

    Source: Micikevicius et al. 2018, https://arxiv.org/abs/1710.03740, section 3.2.
    """

    __pydantic_config__ = _STRICT
    scale: Annotated[float, Field(ge=1.0, allow_inf_nan=False)] = _FIRST_SCALE
    good_steps: NotNegativeInt = 0  # in a row, with this scale

    def unscale_(self, gradients: Iterable[Tensor | None]) -> None:
        """Divide the gradients of a scaled loss by the scale."""
        torch._foreach_mul_([gradient for gradient in gradients if gradient is not None], 1.0 / self.scale)

    def shrink(self) -> bool:
        """Halve the scale after an overflow; returns False if there is no smaller one to try."""
        self.good_steps = 0
        if self.scale <= 1.0:
            return False
        self.scale /= 2.0
        return True

    def keep(self) -> None:
        """Count a step without an overflow; after many in a row the scale is doubled."""
        self.good_steps += 1
        if self.good_steps == _STEPS_BEFORE_GROWTH:
            self.scale, self.good_steps = self.scale * 2.0, 0


@dataclasses.dataclass
class Progress:
    """Counters of a training; each checkpoint has them as JSON."""

    __pydantic_config__ = _STRICT
    data_fingerprint: str  # of the training pairs and the tokenizers
    step: NotNegativeInt = 0  # optimizer steps done
    epoch: NotNegativeInt = 0  # passes over the data done
    step_in_epoch: NotNegativeInt = 0  # optimizer steps done of the current pass
    target_tokens: NotNegativeInt = 0  # seen so far, padding not counted
    # Of what decides a validation's score besides the weights; None: no validation, or a checkpoint of up to 0.3.0.
    validation_fingerprint: str | None = None
    validated_step: NotNegativeInt | None = None  # of the last validation
    best_step: NotNegativeInt | None = None
    best_score: float | None = None  # more is better: BLEU, or the loss negated
    validations_without_better: NotNegativeInt = 0
    # The scores of the validations whose weights are kept, by step; None: not comparable with later ones.
    kept: dict[NotNegativeInt, float | None] = dataclasses.field(default_factory=dict)
    window: LogWindow = dataclasses.field(default_factory=LogWindow)
    # Of metrics.jsonl when the checkpoint was written; checkpoints of version 0.1.0 do not have it.
    metrics_bytes: NotNegativeInt | None = None
    metrics_sha256: str | None = None
    loss_scale: LossScale = dataclasses.field(default_factory=LossScale)  # of fp16
    environment: dict[str, str] = dataclasses.field(default_factory=dict)  # see `describe_environment`
    stream: dict[str, Any] | None = None  # where this epoch begins in streamed corpora; see `StreamedBatches.position`

    def keep(self, score: float | None, *, last: int, best: int) -> None:
        """Keep the weights of this step's validation if it is one of the last or best ones, and no longer of others.

        Args:
            score: More is better; None: there is no validation corpus.
        """
        self.kept[self.step] = score
        ranks = self.rank_kept(last=last, best=best)
        self.kept = {step: score for step, score in self.kept.items() if step in ranks["last"] + ranks["best"]}

    def rank_kept(self, *, last: int, best: int) -> dict[str, list[int]]:
        """The steps of the last kept validations, from the newest on, and of the best ones, from the best on."""
        scores = {step: -math.inf if score is None else score for step, score in self.kept.items()}
        by_score = sorted(scores, key=lambda step: (-scores[step], step))  # of equal ones the first is best
        return {"last": sorted(scores, reverse=True)[:last], "best": by_score[:best]}

    def to_json(self) -> str:
        """The text that `from_json` reads."""
        return json.dumps(dataclasses.asdict(self), default=float)  # the sums of a window may be tensors

    @classmethod
    def from_json(cls, text: str) -> "Progress":
        """Read the progress that `to_json` wrote, in this version or an older one.

        Raises:
            RunError: The text is something else; the message names the field.
        """
        try:
            values = json.loads(text, object_hook=_with_new_names)
            progress = TypeAdapter(cls).validate_json(json.dumps(values))
            if progress.stream is not None:
                places = json.dumps(progress.stream["places"])
                TypeAdapter(list[StreamPosition], config=_STRICT).validate_json(places)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"][:2])) or "progress"
            raise RunError(f"{field} = {ascii(first['input'])[:100]}: {first['msg']}") from error
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise RunError(str(error)) from error
        if (progress.window.steps == 0) != (progress.window.tokens == 0):
            raise RunError(f"window.tokens = {progress.window.tokens} of {progress.window.steps} steps")
        return progress


def _with_new_names(values: dict[str, Any]) -> dict[str, Any]:
    return {_OLD_NAMES.get(name, name): value for name, value in values.items()}
