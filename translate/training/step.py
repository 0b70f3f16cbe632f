"""One optimizer step: forward, backward, update. The training loop repeats it; `translate check` tries it."""

import math
from collections.abc import Sequence

import torch

from translate.config import TrainingConfig
from translate.data.batching import Batch
from translate.data.tokenizer import PAD_ID
from translate.errors import RunError
from translate.model import Transformer
from translate.model.out_of_memory import out_of_memory_told
from translate.training.loss import SummedLoss, label_smoothed_loss
from translate.training.progress import StepResult


def train_step(
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    group: Sequence[Batch],
    *,
    settings: TrainingConfig,
    rate: float,
    is_bf16: bool,
) -> StepResult:
    """One optimizer step on the summed gradients of some batches, divided by their target tokens.

    Args:
        model: In training mode.
        rate: The learning rate of this step.

    Raises:
        OutOfMemory: The device's memory is not enough for a batch.
        RunError: The loss or the gradient is not finite; the weights are as they were.
    """
    tokens = sum(batch.num_target_tokens for batch in group)
    nats, cross_entropy = 0.0, 0.0
    for batch in group:
        with out_of_memory_told(f"a batch of {describe_shapes([batch])}", mend=_less_memory(settings)):
            loss = batch_loss(model, batch.to(model.device), smoothing=settings.label_smoothing, is_bf16=is_bf16)
            (loss.nats / tokens).backward()
            nats, cross_entropy = nats + float(loss.nats.detach()), cross_entropy + float(loss.cross_entropy)
    limit = math.inf if settings.max_gradient_norm is None else settings.max_gradient_norm
    norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), limit))
    if not math.isfinite(nats) or not math.isfinite(norm):
        raise RunError(
            f"the loss is {nats / tokens} and the gradient's norm {norm}, on {describe_shapes(group)}."
            f" Lower training.learning_rate (the rate was {rate:.2g}), raise training.warmup_steps"
            f" (now {settings.warmup_steps}), set training.max_gradient_norm=1.0 or training.precision=fp32,"
            " and train anew."
        )
    for parameters in optimizer.param_groups:
        parameters["lr"] = rate
    with out_of_memory_told("the optimizer's state", mend="Make the model smaller: model.d_model, model.d_ff, layers."):
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return StepResult(nats, cross_entropy, tokens, norm)


def batch_loss(model: Transformer, batch: Batch, *, smoothing: float, is_bf16: bool) -> SummedLoss:
    """The loss of a batch; the output layer sees the real target positions alone.

    Args:
        batch: On the model's device.
        smoothing: Of the labels; see `label_smoothed_loss`.
    """
    with torch.autocast(model.device.type, dtype=torch.bfloat16, enabled=is_bf16):
        hidden = model.decoder(batch.target_input_ids, model.encoder(batch.source_ids))
        real = batch.target_output_ids != PAD_ID
        logits = model.output(hidden[real])
    return label_smoothed_loss(logits, batch.target_output_ids[real], smoothing=smoothing, pad_id=PAD_ID)


def _less_memory(settings: TrainingConfig) -> str:
    return (
        f"Lower training.batch_tokens (now {settings.batch_tokens}); with training.accumulate_batches (now"
        f" {settings.accumulate_batches}) raised as much, a step still sees as many tokens. Or lower"
        " data.max_source_tokens and data.max_target_tokens, or make the model smaller."
    )


def describe_shapes(group: Sequence[Batch]) -> str:
    """The sizes of batches, for an error that names them."""
    return "; ".join(
        f"{len(batch.indices)} pairs of up to {batch.source_ids.shape[1]} source and"
        f" {batch.target_output_ids.shape[1]} target tokens"
        for batch in group
    )
