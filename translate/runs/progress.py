"""The progress of a training run, which checkpoints hold as JSON in addition to tensors.

This declares the format. Values of other types, as in an edited or damaged checkpoint, raise a single error.
"""

import dataclasses
import json
import math
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from translate.config.schema import TrainingConfig
from translate.config.section import NotNegativeInt
from translate.data.tables import StreamPosition
from translate.errors import RunError

_STRICT = ConfigDict(strict=True, extra="forbid")
_STEPS_BEFORE_GROWTH = 2000  # of the loss scale, as in torch.amp.GradScaler


@dataclasses.dataclass
class LossScale:
    """A power of two that multiplies the loss, because small gradients would vanish in fp16.

    It grows and shrinks like the scale of `torch.amp.GradScaler`, but a step whose gradients overflow is not skipped:
    it is repeated with half the scale.

    Source: Micikevicius et al. 2018, https://arxiv.org/abs/1710.03740, section 3.2.
    """

    __pydantic_config__ = _STRICT
    scale: Annotated[float, Field(ge=1.0, allow_inf_nan=False)] = 2.0**16
    good_steps: NotNegativeInt = 0  # in a row, with this scale

    def shrink(self) -> bool:
        """Halve the scale after an overflow; returns False if it is already the smallest."""
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
    """Counters of a training run."""

    __pydantic_config__ = _STRICT
    data_fingerprint: str  # of the training pairs and the tokenizers
    step: NotNegativeInt = 0  # completed optimizer steps
    epoch: NotNegativeInt = 0  # completed passes over the data
    step_in_epoch: NotNegativeInt = 0  # completed steps of the current pass
    target_tokens: NotNegativeInt = 0  # seen so far, without padding
    # Covers everything that affects a validation's score except the weights; None: there is no validation corpus.
    validation_fingerprint: str | None = None
    validated_step: NotNegativeInt | None = None  # of the last validation
    best_step: NotNegativeInt | None = None
    best_score: float | None = None  # more is better: BLEU, or the loss negated
    validations_without_better: NotNegativeInt = 0
    # The scores of the validations whose weights are kept, by step; None: not comparable with later ones.
    kept: dict[NotNegativeInt, float | None] = dataclasses.field(default_factory=dict)
    # Totals of the open log window by name; see `training.tracking.log_window`. Missing and unknown names are allowed.
    window: dict[str, int | float] = dataclasses.field(default_factory=dict)
    # Of metrics.jsonl when the checkpoint was written.
    metrics_bytes: NotNegativeInt | None = None
    metrics_sha256: str | None = None
    loss_scale: LossScale = dataclasses.field(default_factory=LossScale)
    environment: dict[str, str] = dataclasses.field(default_factory=dict)  # see `describe_environment`
    stream: dict[str, Any] | None = None  # where this epoch begins in streamed corpora; see `StreamedBatches.position`

    def limit_reached(self, settings: TrainingConfig) -> Literal["max_steps", "max_epochs", "patience"] | None:
        """The setting that ends the training: all steps or epochs are done, or patience runs out; None: none does."""
        if self.step >= settings.max_steps:
            return "max_steps"
        if settings.max_epochs is not None and self.epoch >= settings.max_epochs:
            return "max_epochs"
        return "patience" if self.is_out_of_patience(settings) else None

    def is_out_of_patience(self, settings: TrainingConfig) -> bool:
        """Whether too many validations in a row have not been better."""
        return settings.patience is not None and self.validations_without_better >= settings.patience

    def keep(self, score: float | None, *, last: int, best: int) -> None:
        """Keep the weights of this step's validation if it is among the last or best; drop those that no longer are.

        Args:
            score: More is better; None: there is no validation corpus.
        """
        self.kept[self.step] = score
        ranks = self.rank_kept(last=last, best=best)
        self.kept = {step: score for step, score in self.kept.items() if step in ranks["last"] + ranks["best"]}

    def rank_kept(self, *, last: int, best: int) -> dict[str, list[int]]:
        """The steps of the last kept validations, from the newest on, and of the best ones, from the best on."""
        scores = {step: -math.inf if score is None else score for step, score in self.kept.items()}
        by_score = sorted(scores, key=lambda step: (-scores[step], step))  # ties go to the first
        return {"last": sorted(scores, reverse=True)[:last], "best": by_score[:best]}

    def to_json(self) -> str:
        """The text that `from_json` reads."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Progress":
        """Read the progress that `to_json` wrote, in this version or an older one.

        Raises:
            RunError: The text is something else; the message names the field.
        """
        try:
            progress = TypeAdapter(cls).validate_json(text)
            if progress.stream is not None:
                places = json.dumps(progress.stream["places"])
                TypeAdapter(list[StreamPosition], config=_STRICT).validate_json(places)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"][:2])) or "progress"
            raise RunError(f"{field} = {ascii(first['input'])[:100]}: {first['msg']}") from error
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise RunError(str(error)) from error
        if progress.window.get("steps") and not progress.window.get("tokens"):  # its mean would divide by 0
            raise RunError(f"window.tokens = 0 of {progress.window['steps']} steps")
        return progress
