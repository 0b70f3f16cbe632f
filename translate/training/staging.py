"""A batch on its way to its device: padded, or packed without padding.

All sizes are settled on the CPU, so that the device is never waited for; and copies to CUDA run beside its work.
"""

from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from translate.config import ModelConfig, TrainingConfig
from translate.data.batching import Batch
from translate.data.tokenizer import PAD_ID
from translate.model import Transformer
from translate.model.packing import Packed, decode_packed, pack
from translate.model.spans import flash_refusal
from translate.training.precision import Arithmetic

BatchLayout = Literal["padded", "packed", "flash"]  # flash: packed, and attention does not pad for itself either


class PaddedBatch(NamedTuple):
    """On the model's device, a sequence a row."""

    source_ids: Int[Tensor, "batch source"]
    target_input_ids: Int[Tensor, "batch target"]
    real: Int[Tensor, " real"]  # places in (batch, target), flattened, that are not padding
    target_ids: Int[Tensor, " real"]  # what the decoder should say there

    def decode(self, model: Transformer) -> Float[Tensor, "real d_model"]:
        """The decoder's vectors of the real target positions."""
        hidden = model.decoder(self.target_input_ids, model.encoder(self.source_ids))
        return hidden.flatten(0, 1).index_select(0, self.real)


class PackedBatch(NamedTuple):
    """On the model's device, all sequences of a side in one row."""

    source: Packed
    target: Packed
    target_ids: Int[Tensor, " real"]
    is_flash: bool

    def decode(self, model: Transformer) -> Float[Tensor, "real d_model"]:
        """The decoder's vectors of the real target positions: the same numbers as of a padded batch."""
        return decode_packed(model, self.source, self.target, is_flash=self.is_flash)


def stage(batch: Batch, device: torch.device, *, layout: BatchLayout) -> PaddedBatch | PackedBatch:
    """A batch as the model will compute it.

    Args:
        batch: On the CPU.
    """

    def copied(tensor: Tensor) -> Tensor:
        return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)

    is_real = batch.target_output_ids != PAD_ID
    target_ids = copied(batch.target_output_ids[is_real])
    if layout == "padded":
        real = is_real.flatten().nonzero()[:, 0]
        return PaddedBatch(copied(batch.source_ids), copied(batch.target_input_ids), copied(real), target_ids)
    source, target = (pack(ids, pad_id=PAD_ID) for ids in (batch.source_ids, batch.target_input_ids))
    return PackedBatch(source.map(copied), target.map(copied), target_ids, is_flash=layout == "flash")


class ChosenLayout(NamedTuple):
    """How batches are laid out, and what a user should know of it."""

    layout: BatchLayout
    remark: str | None


def choose_batch_layout(settings: TrainingConfig, model: ModelConfig, arithmetic: Arithmetic) -> ChosenLayout:
    """What `training.batch_layout` means on this device."""
    wish, device = settings.batch_layout, arithmetic.device
    if wish == "padded" or (wish == "auto" and device.type != "cuda"):
        return ChosenLayout("padded", None)
    refusal = _refusal(model, arithmetic)
    if refusal is None:
        return ChosenLayout("flash", "batches are packed without padding; flash attention keeps the sentences apart")
    if wish == "packed":
        return ChosenLayout("packed", f"batches are packed, but attention pads for itself: {refusal}")
    return ChosenLayout("padded", f"batches are padded: {refusal}")


def _refusal(model: ModelConfig, arithmetic: Arithmetic) -> str | None:
    """Why flash attention for variable lengths cannot be used; None: it can."""
    what = "flash attention for variable lengths"
    if arithmetic.device.type != "cuda":
        return f"{what} is for CUDA"
    if arithmetic.precision == "fp32":
        return f"{what} needs training.precision=bf16 or fp16"
    if model.attention_dropout > 0.0:
        return f"{what} has no dropout, and model.attention_dropout = {model.attention_dropout}"
    if model.positions == "relative":
        return f"{what} has no bias, and model.positions = 'relative' is one"
    head_dim = model.d_model // model.num_heads
    reason = flash_refusal(arithmetic.device, dtype=arithmetic.dtype, num_heads=model.num_heads, head_dim=head_dim)
    return None if reason is None else f"{what}: {reason}"
