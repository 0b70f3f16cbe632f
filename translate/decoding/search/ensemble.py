"""Several models that search as one: the mean of an ensemble, or what an expert knows that an amateur does not."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from translate.config import DecodingConfig
from translate.model import Transformer


class Combination(NamedTuple):
    """The models beside the first one. All have the same tokenizers."""

    ensemble: tuple[Transformer, ...] = ()
    contrast: Transformer | None = None

    @property
    def models(self) -> tuple[Transformer, ...]:
        """All of them; the amateur of a contrast comes last."""
        return self.ensemble if self.contrast is None else (*self.ensemble, self.contrast)


SINGLE_MODEL = Combination()


def combine_log_probs(
    log_probs: Sequence[Float[Tensor, "*batch vocab"]], config: DecodingConfig, *, has_contrast: bool
) -> Float[Tensor, "*batch vocab"]:
    """Log-probabilities of several models together.

    The distribution of an ensemble is the mean of its members' probabilities.

    Args:
        log_probs: The log-probabilities of each model.
        has_contrast: The last model is an amateur, with which the others are contrasted.
    """
    experts = log_probs[:-1] if has_contrast else log_probs
    combined = torch.stack([*experts]).logsumexp(dim=0) - math.log(len(experts)) if len(experts) > 1 else experts[0]
    if not has_contrast:
        return combined
    weight, plausibility = config.contrastive_weight, config.contrastive_plausibility
    return contrast(combined, log_probs[-1], weight=weight, plausibility=plausibility)


def contrast(
    expert: Float[Tensor, "*batch vocab"], amateur: Float[Tensor, "*batch vocab"], *, weight: float, plausibility: float
) -> Float[Tensor, "*batch vocab"]:
    """Log-probabilities of what the expert finds plausible; the less probable the amateur finds it, the higher.

    They are log p - weight · log p(amateur) over the tokens that have at least `plausibility` of the most probable
    one's probability, normalized again, so that they stay a distribution.

    Args:
        expert: Log-probabilities; -inf stays so.
        weight: The share of the amateur's log-probabilities that is subtracted; 0 only removes implausible tokens.
        plausibility: The share of the most probable token's probability that a token must have.

    Source: Li et al. 2023, https://arxiv.org/abs/2210.15097, sections 3.2 and 3.3.
    """
    threshold = expert.amax(dim=-1, keepdim=True) + math.log(max(plausibility, torch.finfo(expert.dtype).tiny))
    is_plausible = (expert >= threshold) & (expert > -math.inf)
    return (expert - weight * amateur).masked_fill(~is_plausible, -math.inf).log_softmax(dim=-1)
