"""One optimizer step: forward, backward, update. The training loop repeats it; `translate check` tries it."""

import functools
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.profiler import record_function

from translate.config import TrainingConfig
from translate.data.batching import Batch
from translate.distributed.data_parallel import Engine
from translate.distributed.state import full_tensor, is_sharded
from translate.errors import RunError
from translate.model import Transformer
from translate.model.device import explain_out_of_memory
from translate.training.gradients import OwnGradients
from translate.training.loss import SummedLoss, projected_loss
from translate.training.optimizer import SharedOptimizer
from translate.training.pieces import Piece, cut_pieces
from translate.training.precision import Arithmetic, LossScale
from translate.training.profile import FORWARD
from translate.training.progress import StepResult
from translate.training.reading import Reading
from translate.training.staging import BatchLayout, move_to_device


class Stepper:
    """Makes optimizer steps on groups of batches.

    Args:
        model: On its device, in training mode.
        gradients: Computes those of the same model.
        shared: Makes the optimizer's steps; None: it makes them itself.
    """

    def __init__(
        self,
        model: Transformer,
        optimizer: torch.optim.Optimizer,
        settings: TrainingConfig,
        *,
        arithmetic: Arithmetic,
        gradients: OwnGradients | Engine,
        shared: SharedOptimizer | None = None,
    ) -> None:
        self._parameters = list(model.parameters())
        self._optimizer = optimizer
        self._settings = settings
        self._arithmetic = arithmetic
        self._gradients = gradients
        self._update = optimizer.step if shared is None else shared.step
        self.loss_scale = LossScale()
        """For fp16; where it stands is a part of the training's state."""
        self._unseen: Callable[[], None] | None = None

    def step(self, group: Sequence[Batch], *, number: int, rate: float) -> StepResult:
        """One step on the summed gradients of some batches, divided by their target tokens.

        Args:
            group: On the CPU.
            number: Of the step, from 1: with the seed it decides what is dropped.
            rate: The learning rate of this step.

        Raises:
            OutOfMemory: The device's memory is not enough for a batch.
            RunError: The loss or the gradient is not finite; the weights are as they were.
        """
        settings = self._settings
        tokens = sum(batch.num_target_tokens for batch in group)
        pieces = cut_pieces(group, pieces=self._gradients.num_pieces, seed=settings.seed, step=number)
        with self._arithmetic.in_step():
            with explain_out_of_memory(f"a step with {describe_shapes(group)}", hint=_less_memory(settings)):
                result = self._set_gradients(pieces, tokens)
            self._refuse_not_finite(result, group, rate)
            for parameters in self._optimizer.param_groups:
                parameters["lr"] = rate
            with explain_out_of_memory("the optimizer's state", hint="Make the model smaller: d_model, d_ff, layers."):
                self._update()
            self._optimizer.zero_grad(set_to_none=True)
        return result

    def settle(self) -> None:
        """Look at the last step, where that was put off so as not to wait for a GPU.

        Raises:
            RunError: Its loss or gradient was not finite, and the weights are as they were before it.
        """
        if self._unseen is not None:
            check, self._unseen = self._unseen, None
            check()

    def _set_gradients(self, pieces: Sequence[Piece], tokens: int) -> StepResult:
        """In fp16 with the largest scale that does not overflow."""
        if self._arithmetic.precision != "fp16":
            sums = self._gradients.backward(pieces, factor=1.0 / tokens)
            return StepResult(sums.loss, sums.nll, tokens, self._clip())
        while True:
            sums = self._gradients.backward(pieces, factor=self.loss_scale.scale / tokens)
            self.loss_scale.unscale_(parameter.grad for parameter in self._parameters if parameter.grad is not None)
            norm = self._clip()
            if math.isfinite(norm) or not self.loss_scale.shrink():
                break
        self.loss_scale.keep()
        return StepResult(sums.loss, sums.nll, tokens, norm)

    def _clip(self) -> Tensor:
        """The gradient's norm, before it is held to the largest that the settings allow."""
        limit = math.inf if self._settings.max_gradient_norm is None else self._settings.max_gradient_norm
        return full_tensor(torch.nn.utils.clip_grad_norm_(self._parameters, limit))

    def _refuse_not_finite(self, result: StepResult, group: Sequence[Batch], rate: float) -> None:
        """Now; or on a GPU, which one would have to wait for, with the next step: then it leaves out the update."""
        norm = torch.as_tensor(result.gradient_norm)
        reading = Reading(torch.stack([torch.as_tensor(result.loss).float(), norm.float()]))
        shapes = describe_shapes(group)
        check = functools.partial(_refuse_not_finite, reading, result.tokens, self._settings, rate, shapes=shapes)
        if not norm.is_cuda or any(map(is_sharded, self._parameters)):
            check()
            return
        self.settle()
        self._unseen = check
        self._optimizer.found_inf = (~norm.isfinite()).float()  # type: ignore[attr-defined]  # a fused one heeds it


def batch_loss(
    model: Transformer, batch: Batch, *, smoothing: float, arithmetic: Arithmetic, layout: BatchLayout
) -> SummedLoss:
    """The loss of a batch; the output layer sees the real target positions alone.

    Args:
        batch: On the CPU.
        smoothing: Of the labels; see `label_smoothed_loss`.
    """
    on_device = move_to_device(batch, arithmetic.device, layout=layout)
    with record_function(FORWARD), arithmetic.autocast():
        hidden = on_device.forward(model)
        return projected_loss(hidden, model.output.weight, on_device.target_ids, smoothing=smoothing)


def _refuse_not_finite(reading: Reading, tokens: int, settings: TrainingConfig, rate: float, *, shapes: str) -> None:
    loss, norm = reading.wait()
    if math.isfinite(loss) and math.isfinite(norm):
        return
    raise RunError(
        f"the loss is {loss / tokens} and the gradient's norm {norm}, on {shapes}."
        f" Lower training.learning_rate (the rate was {rate:.2g}), raise training.warmup_steps"
        f" (now {settings.warmup_steps}), set training.max_gradient_norm=1.0 or training.precision=fp32,"
        " and train anew."
    )


def _less_memory(settings: TrainingConfig) -> str:
    step_tokens = settings.num_batch_tokens * settings.accumulate_batches
    return (
        f"Lower training.batch_tokens (now {settings.batch_tokens}): with training.step_tokens={step_tokens} a step"
        " still sees as many tokens. Or lower data.max_source_tokens and data.max_target_tokens, or make the model"
        " smaller."
    )


def describe_shapes(group: Sequence[Batch]) -> str:
    """The sizes of batches, for an error that names them."""
    return "; ".join(
        f"{len(batch.indices)} pairs of up to {batch.source_ids.shape[1]} source and"
        f" {batch.target_output_ids.shape[1]} target tokens"
        for batch in group
    )
