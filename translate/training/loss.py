"""Losses are a sum and a count, never a mean: whoever has the whole step's tokens divides, once."""

from typing import NamedTuple

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
    log_probs = F.log_softmax(logits.float(), dim=-1)
    target = -log_probs.gather(-1, target_ids[..., None])[..., 0]
    cross_entropy = torch.where(real, target, 0.0).sum()
    nats = cross_entropy
    if smoothing > 0.0:
        uniform = torch.where(real, -log_probs.mean(dim=-1), 0.0).sum()
        nats = (1.0 - smoothing) * cross_entropy + smoothing * uniform
    return SummedLoss(nats, cross_entropy.detach(), int(real.sum()))
