"""One training step: split, forward, loss, backward, reduce, clip, update."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from translate.config.schema import ModelConfig, TrainingConfig
from translate.data.batching import Batch
from translate.data.tokenizer import PAD_ID
from translate.distributed.state import full_tensor, is_sharded
from translate.errors import RunError
from translate.model import PackedSequences, Transformer, fill_up, flatten, pack
from translate.model.device import (
    compiles_for_each_shape,
    copy_all_to_device,
    explain_out_of_memory,
    is_asynchronous,
    start_copy_to_host,
    widest_float,
)
from translate.model.dropout import dropout_seeded
from translate.model.precision import MixedPrecision
from translate.model.varlen import why_no_flash_attention
from translate.runs.progress import LossScale
from translate.training.data_parallel import DataParallel, MicroBatch, split_into_micro_batches
from translate.training.loss import label_smoothed_loss

# flattened: padded, in one row; flash: packed, and flash attention needs no padding either
BatchLayout = Literal["padded", "flattened", "packed", "flash"]


class StepResult(NamedTuple):
    """The loss and gradient of one step. On a GPU, reading any of these blocks until the step has finished."""

    loss: Float[Tensor, ""]  # in nats, summed over targets; fp64, but fp32 on Apple's GPU
    nll: Float[Tensor, ""]  # the same without label smoothing
    tokens: int  # targets that are not padding
    gradient_norm: Float[Tensor, ""]  # before clipping


@dataclasses.dataclass(eq=False)
class TrainStep:
    """Makes optimizer steps on batches, with the same code for one CPU, one GPU, DDP and FSDP."""

    model: Transformer  # on its device, in training mode
    optimizers: Sequence[torch.optim.Optimizer]  # each has some of the weights
    settings: TrainingConfig
    _: dataclasses.KW_ONLY
    precision: MixedPrecision
    parallel: DataParallel  # shares the work among threads or ranks
    layout: BatchLayout  # of batches on the device
    description: str = ""  # where and how this computes, for the log
    fallbacks: Sequence[str] = ()  # settings that do not work on this device, and the alternative taken

    def __post_init__(self) -> None:
        self.loss_scale = LossScale()  # of fp16; part of training's state
        self._parameters = list(self.model.parameters())
        self._checks_later = is_asynchronous(self.precision.device) and not any(map(is_sharded, self._parameters))
        self._unchecked: Callable[[], None] | None = None
        batch_tokens = self.settings.num_batch_tokens
        step_tokens = batch_tokens * self.settings.accumulate_batches
        alone = " training.accumulate_batches=1" if self.settings.accumulate_batches > 1 else ""
        self._smaller_batch = (  # the hint if memory is not enough
            f"Lower training.batch_tokens (now {batch_tokens}): with training.step_tokens={step_tokens}{alone} a step"
            " still sees as many tokens. Or lower data.max_source_tokens and data.max_target_tokens, or make the model"
            " smaller."
        )

    def __call__(self, batches: Sequence[Batch], *, number: int, learning_rate: float) -> StepResult:
        """Make one step on the summed gradients of some batches, divided by their target tokens.

        Args:
            batches: The batches of the step, on the CPU.
            number: The step's number, from 1; with the seed it decides the dropout masks.

        Raises:
            OutOfMemory: The device does not have enough memory for a batch.
            RunError: The loss or the gradient is not finite; the weights are as before the step.
        """
        settings, precision, parallel, model = self.settings, self.precision, self.parallel, self.model
        num_tokens = sum(batch.num_target_tokens for batch in batches)
        micro_batches = split_into_micro_batches(batches, parallel.num_workers, seed=settings.seed, step=number)
        full = settings.num_batch_tokens * len(batches) // len(micro_batches)
        is_scaled, r_drop = precision.name == "fp16", settings.r_drop

        def forward_backward(micro_batch: MicroBatch, backward: Callable[[Tensor], None]) -> Float[Tensor, " sums"]:
            batch = move_to_device(
                micro_batch.batch, precision.device, layout=self.layout, batch_tokens=full, is_doubled=r_drop > 0.0
            )
            with dropout_seeded(*micro_batch.seed, device=precision.device):
                with precision.autocast():
                    hidden = parallel.forward(batch)
                    loss = label_smoothed_loss(
                        hidden,
                        model.output.weight,
                        batch.target_ids,
                        bias=model.output.bias,
                        smoothing=settings.label_smoothing,
                        r_drop=r_drop,
                    )
                backward(loss.loss * (micro_batch.weight * factor))
            sums = torch.stack([loss.loss.detach(), loss.nll]) * micro_batch.weight
            return sums.to(widest_float(sums.device))  # as many are added

        with precision.in_step():
            with explain_out_of_memory(f"a step with {describe_shapes(batches)}", hint=self._smaller_batch):
                while True:  # more than once only in fp16, with a smaller scale after an overflow
                    factor = (self.loss_scale.scale if is_scaled else 1.0) / num_tokens
                    loss, nll = parallel.all_reduce(parallel.run(forward_backward, micro_batches))
                    gradients = [weight.grad for weight in self._parameters if weight.grad is not None]
                    if is_scaled:
                        torch._foreach_mul_(gradients, 1.0 / self.loss_scale.scale)
                    norm = torch.nn.utils.get_total_norm(gradients)
                    if settings.max_gradient_norm is not None:
                        torch.nn.utils.clip_grads_with_norm_(self._parameters, settings.max_gradient_norm, norm)
                    norm = full_tensor(norm)
                    if not is_scaled or math.isfinite(norm) or not self.loss_scale.shrink():
                        break
                    self.model.zero_grad(set_to_none=True)  # the retry must not add to infinite gradients
            if is_scaled:
                self.loss_scale.keep()
            result = StepResult(loss=loss, nll=nll, tokens=num_tokens, gradient_norm=norm)
            self._check_finite(result, batches, number=number, learning_rate=learning_rate)
            for group in chain.from_iterable(optimizer.param_groups for optimizer in self.optimizers):
                group["lr"] = learning_rate
            with explain_out_of_memory("the optimizer's state", hint="Make the model smaller: d_model, d_ff, layers."):
                parallel.update(self.optimizers)
            self.model.zero_grad(set_to_none=True)
        return result

    def check_last_step(self) -> None:
        """Check the last step's loss and gradient, if the check was postponed to avoid waiting for a GPU."""
        if self._unchecked is not None:
            check, self._unchecked = self._unchecked, None
            check()

    def _check_finite(self, result: StepResult, batches: Sequence[Batch], *, number: int, learning_rate: float) -> None:
        """Raise a RunError if the loss or the gradient is not finite.

        On a GPU this would wait for the step, so the error comes with the next step, and this one makes no update.
        The error names the step, because only this function knows which one it is about.
        """
        norm, shapes = result.gradient_norm, describe_shapes(batches)
        numbers = torch.stack([result.loss.float(), norm.float()])
        copied = start_copy_to_host(numbers)

        def check() -> None:
            loss, norm = copied().tolist()
            if not (math.isfinite(loss) and math.isfinite(norm)):
                raise RunError(
                    f"step {number}: the loss is {loss / result.tokens} and the gradient's norm {norm}, on {shapes}."
                    f" Lower training.learning_rate (the rate was {learning_rate:.2g}), raise training.warmup_steps"
                    f" (now {self.settings.warmup_steps}), set training.max_gradient_norm=1.0 or"
                    " training.precision=fp32, and train again."
                )

        if not self._checks_later:
            check()
            return
        self.check_last_step()
        self._unchecked = check
        for optimizer in self.optimizers:  # fused ones and Muon read it
            optimizer.found_inf = (~numbers.isfinite().all()).float()  # type: ignore[attr-defined]


class DeviceBatch(NamedTuple):
    """A batch as it is laid out on the model's device."""

    source: Int[Tensor, "batch source"] | PackedSequences
    target_input: Int[Tensor, "batch target"] | PackedSequences
    target_ids: Int[Tensor, " target"]  # the next token at each target position that is not padding
    real: Int[Tensor, " real"] | None  # where these positions are in (batch, target), flattened; None: packed

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors of the batch."""
        fields = chain.from_iterable(part if isinstance(part, PackedSequences) else [part] for part in self)
        return [field for field in fields if isinstance(field, Tensor)]

    def map(self, function: Callable[[Tensor], Tensor]) -> "DeviceBatch":
        """The same batch with a function applied to each tensor."""

        def apply(part: Tensor | PackedSequences) -> Tensor | PackedSequences:
            return part.map(function) if isinstance(part, PackedSequences) else function(part)

        real = None if self.real is None else function(self.real)
        return DeviceBatch(apply(self.source), apply(self.target_input), function(self.target_ids), real)


def move_to_device(
    batch: Batch, device: torch.device, *, layout: BatchLayout, batch_tokens: int, is_doubled: bool = False
) -> DeviceBatch:
    """Lay out a batch and copy it to the model's device at once, without waiting for the device.

    Args:
        batch_tokens: The tokens of a full batch, which decide how long the rows of the layout `flash` are.
        is_doubled: Repeat all pairs after the last one, as R-Drop needs; each target counts once. Rows are not filled
            up then, because their second half belongs to the second pass.
    """
    is_real = batch.target_output_ids != PAD_ID
    repeats = 2 if is_doubled else 1

    def lay_out(ids: Tensor) -> Tensor | PackedSequences:
        ids = ids.repeat(repeats, 1) if is_doubled else ids
        if layout == "padded":
            return ids
        if layout == "flattened":
            return flatten(ids, pad_id=PAD_ID)
        packed = pack(ids, pad_id=PAD_ID, is_flash=is_flash)
        return fill_up(packed, pad_id=PAD_ID, batch_tokens=batch_tokens) if is_flash and not is_doubled else packed

    is_flash, is_packed = layout == "flash", layout in ("packed", "flash")
    real = None if is_packed else is_real.repeat(repeats, 1).flatten().nonzero()[:, 0]
    target_ids = batch.target_output_ids[is_real]
    on_host = DeviceBatch(lay_out(batch.source_ids), lay_out(batch.target_input_ids), target_ids, real)
    if device.type == "cpu":
        return on_host
    tensors = on_host.tensors
    copies = dict(zip(tensors, copy_all_to_device(tensors, device), strict=True))
    return on_host.map(copies.__getitem__)


class TrainingForward(nn.Module):
    """The forward pass of a training step as a module, on which DDP and FSDP put their hooks."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: DeviceBatch) -> Float[Tensor, "vector d_model"]:
        """The decoder's vectors at the target positions that are not padding, and then those that fill a row up."""
        hidden = self.model.decoder(batch.target_input, self.model.encoder(batch.source)).flatten(0, 1)
        return hidden if batch.real is None else hidden.index_select(0, batch.real)


def describe_shapes(batches: Sequence[Batch]) -> str:
    """The sizes of batches, for an error that names them."""
    return "; ".join(
        f"{len(batch.indices)} pair{'s' * (len(batch.indices) != 1)} of up to {batch.source_ids.shape[1]} source and"
        f" {batch.target_output_ids.shape[1]} target tokens"
        for batch in batches
    )


def choose_batch_layout(
    settings: TrainingConfig, model: ModelConfig, precision: MixedPrecision
) -> tuple[BatchLayout, str]:
    """Choose the layout that `training.batch_layout` means on this device; also returns a line for the log, or none."""
    requested, device = settings.batch_layout, precision.device
    if requested == "padded" or (requested == "auto" and not is_asynchronous(device)):
        is_flattened = compiles_for_each_shape(device, precision.dtype) and not settings.compile
        return "flattened" if is_flattened else "padded", ""
    is_supported = model.attention_dropout == 0.0 and model.positions != "relative"
    reason: str | None = "it needs CUDA, bf16 or fp16, model.attention_dropout=0 and no relative positions"
    if is_asynchronous(device) and precision.name != "fp32" and is_supported:
        head_dim = model.attention_dim // model.num_heads
        reason = why_no_flash_attention(device, dtype=precision.dtype, num_heads=model.num_heads, head_dim=head_dim)
    if reason is None:
        return "flash", "\nBatches are packed without padding; flash attention keeps the sentences apart"
    reason = f"flash attention for variable lengths is not available ({reason})"
    if requested == "packed":
        return "packed", f"\nBatches are packed, but attention pads internally: {reason}"
    return "padded", f"\nBatches are padded: {reason}"
