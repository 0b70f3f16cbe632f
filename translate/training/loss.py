"""Losses are a sum and a count, never a mean: whoever has the whole step's tokens divides, once."""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


class SummedLoss(NamedTuple):
    """A loss over some targets."""

    nats: Float[Tensor, ""]  # what training minimises, summed over targets
    cross_entropy: Float[Tensor, ""]  # the same without label smoothing, for perplexity; no gradient
    tokens: int  # targets that are not padding


def label_smoothed_loss(
    logits: Float[Tensor, "*batch vocab"], target_ids: Int[Tensor, "*batch"], *, smoothing: float, pad_id: int
) -> SummedLoss:
    """Cross-entropy against a target mixed with the uniform distribution.

    A sum and a count, so that accumulation and data parallelism divide once, by the tokens of the whole step.

    Args:
        smoothing: Probability mass moved from the target to all tokens, the target among them.
        pad_id: Targets equal to this id count for nothing.

    Raises:
        ValueError: `smoothing` is outside [0, 1).

    Source: Szegedy et al. 2016, https://arxiv.org/abs/1512.00567, section 7.
    """
    if not 0.0 <= smoothing < 1.0:
        raise ValueError(f"smoothing = {smoothing} must be at least 0 and less than 1")
    real = target_ids != pad_id
    nats, cross_entropy = _SmoothedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        logits.flatten(0, -2), target_ids.flatten(), real.flatten(), smoothing
    )
    return SummedLoss(nats, cross_entropy, int(real.sum()))


class _SmoothedCrossEntropy(torch.autograd.Function):
    """The loss and its gradient at once, some rows at a time.

    Softmax minus target is the gradient, so what the loss computes is most of it; and the vocabulary is wide, so in
    chunks the fp32 probabilities never stand in memory whole: only the logits and their gradient do, in their own type.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, target_ids: Tensor, real: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        dtype = torch.promote_types(logits.dtype, torch.float32)
        num_rows, vocab_size = logits.shape
        gradient = torch.empty_like(logits) if ctx.needs_input_grad[0] else None
        nats, cross_entropy = logits.new_zeros((), dtype=dtype), logits.new_zeros((), dtype=dtype)
        for first in range(0, num_rows, _chunk_rows(vocab_size)):
            rows = slice(first, first + _chunk_rows(vocab_size))
            weight, target = real[rows].to(dtype), target_ids[rows, None]
            log_probs = F.log_softmax(logits[rows].to(dtype), dim=-1)
            target_nats = -(log_probs.gather(-1, target)[:, 0] * weight).sum()
            uniform_nats = -(log_probs.mean(dim=-1) * weight).sum()
            cross_entropy += target_nats
            nats += (1.0 - smoothing) * target_nats + smoothing * uniform_nats
            if gradient is not None:
                difference = log_probs.exp_().sub_(smoothing / vocab_size)
                difference.scatter_add_(-1, target, torch.full_like(target, smoothing - 1.0, dtype=dtype))
                gradient[rows] = difference.mul_(weight[:, None])
        ctx.save_for_backward(gradient)
        ctx.mark_non_differentiable(cross_entropy)
        return nats, cross_entropy

    @staticmethod
    def backward(ctx: Any, nats_gradient: Tensor, _: Tensor) -> tuple[Tensor, None, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * nats_gradient.to(gradient.dtype), None, None, None


def _chunk_rows(vocab_size: int) -> int:
    """As many rows as make about 8 MB of fp32 probabilities."""
    return max(1, 2_000_000 // vocab_size)
