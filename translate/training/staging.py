"""A batch on the model's device: padded, or packed without padding.

All sizes are computed on the CPU, so that nothing waits for the device; copies to CUDA run beside its work.
"""

from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from translate.config import ModelConfig, TrainingConfig
from translate.data.batching import Batch
from translate.data.tokenizer import PAD_ID
from translate.model import PackedSequences, Transformer, pack
from translate.model.varlen import why_no_flash_attention
from translate.training.precision import MixedPrecision

BatchLayout = Literal["padded", "packed", "flash"]  # flash: packed, and flash attention needs no padding either


class DeviceBatch(NamedTuple):
    """What a training step needs of a batch, on the model's device."""

    source: Int[Tensor, "batch source"] | PackedSequences
    target_input: Int[Tensor, "batch target"] | PackedSequences
    target_ids: Int[Tensor, " real"]  # the next token at each target position that is not padding
    real: Int[Tensor, " real"] | None  # where these positions are in (batch, target), flattened; None: packed

    def forward(self, model: Transformer) -> Float[Tensor, "real d_model"]:
        """The decoder's vectors at the target positions that are not padding."""
        hidden = model.decoder(self.target_input, model.encoder(self.source)).flatten(0, 1)
        return hidden if self.real is None else hidden.index_select(0, self.real)


class TrainingForward(nn.Module):
    """The forward pass of a training step as a module, on which DDP and FSDP put their hooks."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: DeviceBatch) -> Float[Tensor, "real d_model"]:
        """The decoder's vectors at the target positions that are not padding."""
        return batch.forward(self.model)


def move_to_device(batch: Batch, device: torch.device, *, layout: BatchLayout) -> DeviceBatch:
    """Lay out a batch and copy it to the model's device.

    Args:
        batch: A batch on the CPU.
    """

    def copied(tensor: Tensor) -> Tensor:
        return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)

    is_real = batch.target_output_ids != PAD_ID
    target_ids = copied(batch.target_output_ids[is_real])
    if layout == "padded":
        real = copied(is_real.flatten().nonzero()[:, 0])
        return DeviceBatch(copied(batch.source_ids), copied(batch.target_input_ids), target_ids, real)
    source, target_input = (
        pack(ids, pad_id=PAD_ID, is_flash=layout == "flash").map(copied)
        for ids in (batch.source_ids, batch.target_input_ids)
    )
    return DeviceBatch(source, target_input, target_ids, real=None)


class ChosenLayout(NamedTuple):
    """The layout of batches, and a remark for the log on why it was chosen."""

    layout: BatchLayout
    remark: str | None


def choose_batch_layout(settings: TrainingConfig, model: ModelConfig, precision: MixedPrecision) -> ChosenLayout:
    """The layout that `training.batch_layout` means on this device."""
    wish, device = settings.batch_layout, precision.device
    if wish == "padded" or (wish == "auto" and device.type != "cuda"):
        return ChosenLayout("padded", None)
    reason = _why_no_flash_attention(model, precision)
    if reason is None:
        return ChosenLayout("flash", "batches are packed without padding; flash attention keeps the sentences apart")
    if wish == "packed":
        return ChosenLayout("packed", f"batches are packed, but attention pads for itself: {reason}")
    return ChosenLayout("padded", f"batches are padded: {reason}")


def _why_no_flash_attention(model: ModelConfig, precision: MixedPrecision) -> str | None:
    """The reason why flash attention for variable lengths cannot be used; None: it can."""
    what = "flash attention for variable lengths"
    if precision.device.type != "cuda":
        return f"{what} is for CUDA"
    if precision.name == "fp32":
        return f"{what} needs training.precision=bf16 or fp16"
    if model.attention_dropout > 0.0:
        return f"{what} has no dropout, and model.attention_dropout = {model.attention_dropout}"
    if model.positions == "relative":
        return f"{what} has no bias, and model.positions = 'relative' is one"
    head_dim = model.d_model // model.num_heads
    reason = why_no_flash_attention(
        precision.device, dtype=precision.dtype, num_heads=model.num_heads, head_dim=head_dim
    )
    return None if reason is None else f"{what}: {reason}"
