"""Several models that search as one: the mean of an ensemble, or what an expert knows that an amateur does not."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from translate.config import DecodingConfig
from translate.decoding.search.loop import NextTokenModel, NextTokens
from translate.decoding.search.model import CachedBatch, CachedDecoder
from translate.decoding.shortlist import Shortlist
from translate.model import Transformer


class Combination(NamedTuple):
    """The models beside the first one. All have the same tokenizers."""

    ensemble: tuple[Transformer, ...] = ()
    contrast: Transformer | None = None


SINGLE_MODEL = Combination()


CachedBatches = tuple[CachedBatch, ...]


class CombinedDecoder:
    """Models that predict one after the other, each with its own cache; a `NextTokenModel`.

    The distribution of an ensemble is the mean of its members' probabilities. A contrast raises what the amateur finds
    less probable: log p - weight · log p(amateur), over the tokens that have at least `plausibility` of the most
    probable one's probability, normalized again, so that it stays a distribution.

    Source: Li et al. 2023, https://arxiv.org/abs/2210.15097, sections 3.2 and 3.3.
    """

    def __init__(self, experts: Sequence[CachedDecoder], amateur: CachedDecoder | None, config: DecodingConfig) -> None:
        self.members = [*experts, *([] if amateur is None else [amateur])]
        self.num_experts = len(experts)
        self.config = config

    def start(
        self, sentences: Sequence[int], rows: Int[Tensor, " new_batch"], cache: CachedBatches | None
    ) -> CachedBatches:
        """See `NextTokenModel.start`."""
        caches = [None] * len(self.members) if cache is None else cache
        return tuple(member.start(sentences, rows, each) for member, each in zip(self.members, caches, strict=True))

    def step(self, last_ids: Int[Tensor, "batch beam"], cache: CachedBatches) -> tuple[NextTokens, CachedBatches]:
        """See `NextTokenModel.step`; the attention is that of the first model."""
        results = [member.step(last_ids, each) for member, each in zip(self.members, cache, strict=True)]
        log_probs = [tokens.log_probs for tokens, _ in results]
        experts = log_probs[: self.num_experts]
        combined = torch.stack(experts).logsumexp(dim=0) - math.log(len(experts)) if len(experts) > 1 else experts[0]
        for amateur in log_probs[self.num_experts :]:
            combined = contrast(
                combined,
                amateur,
                weight=self.config.contrastive_weight,
                plausibility=self.config.contrastive_plausibility,
            )
        return results[0][0]._replace(log_probs=combined), tuple(each for _, each in results)

    def reorder(self, cache: CachedBatches, beam_indices: Int[Tensor, "batch beam"]) -> CachedBatches:
        """See `NextTokenModel.reorder`."""
        return tuple(member.reorder(each, beam_indices) for member, each in zip(self.members, cache, strict=True))

    def select_rows(self, cache: CachedBatches, rows: Int[Tensor, " new_batch"]) -> CachedBatches:
        """See `NextTokenModel.select_rows`."""
        return tuple(member.select_rows(each, rows) for member, each in zip(self.members, cache, strict=True))


def contrast(
    expert: Float[Tensor, "*batch vocab"], amateur: Float[Tensor, "*batch vocab"], *, weight: float, plausibility: float
) -> Float[Tensor, "*batch vocab"]:
    """Log-probabilities of what the expert finds plausible; the less probable the amateur finds it, the higher.

    Args:
        expert: Log-probabilities; -inf stays so.
        weight: The share of the amateur's log-probabilities that is subtracted; 0 only removes implausible tokens.
        plausibility: The share of the most probable token's probability that a token must have.
    """
    threshold = expert.amax(dim=-1, keepdim=True) + math.log(max(plausibility, torch.finfo(expert.dtype).tiny))
    is_plausible = (expert >= threshold) & (expert > -math.inf)
    return (expert - weight * amateur).masked_fill(~is_plausible, -math.inf).log_softmax(dim=-1)


def build_next_token_model(
    model: Transformer,
    combination: Combination,
    source_ids: Sequence[Sequence[int]],
    config: DecodingConfig,
    *,
    beam_size: int,
    max_length: int,
    shortlist: Shortlist | None,
    also_allowed: Sequence[Sequence[int]] = (),
) -> NextTokenModel[Any]:
    """The model, or all models of a combination, as the search sees them."""

    def cached(each: Transformer) -> CachedDecoder:
        return CachedDecoder(
            each,
            source_ids,
            beam_size=beam_size,
            max_length=max_length,
            shortlist=shortlist,
            also_allowed=also_allowed,
            attention_layer=config.alignment_layer if config.coverage_penalty and each is model else None,
        )

    if combination == SINGLE_MODEL:
        return cached(model)
    amateur = None if combination.contrast is None else cached(combination.contrast)
    return CombinedDecoder([cached(each) for each in (model, *combination.ensemble)], amateur, config)
