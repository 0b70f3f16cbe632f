"""Several models that search as one: an ensemble's mean, or what an expert knows that an amateur does not."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from translate.config import DecodingConfig
from translate.decoding.search.loop import NextTokenModel, NextTokens
from translate.decoding.search.model import CachedDecoder, Decoded
from translate.decoding.shortlist import Shortlist
from translate.model import Transformer


class Combination(NamedTuple):
    """The models beside the first. All have the same tokenizers."""

    ensemble: tuple[Transformer, ...] = ()
    contrast: Transformer | None = None


ALONE = Combination()


Carries = tuple[Decoded, ...]


class CombinedDecoder:
    """Models that are asked one after the other, each with its own cache; see `search.NextTokenModel`.

    The distribution of an ensemble is the mean of its members' probabilities. A contrast's is theirs raised by what the
    amateur finds less probable: log p - weight · log p(amateur), over the tokens that have at least `plausibility` of
    the most probable one's probability, and normalised again, so that it stays a distribution.

    Source: Li et al. 2023, https://arxiv.org/abs/2210.15097, sections 3.2 and 3.3.
    """

    def __init__(self, experts: Sequence[CachedDecoder], amateur: CachedDecoder | None, config: DecodingConfig) -> None:
        self.members = [*experts, *([] if amateur is None else [amateur])]
        self.num_experts = len(experts)
        self.config = config

    def start(self, sentences: Sequence[int]) -> Carries:
        """Encodes sentences, by each model."""
        return tuple(member.start(sentences) for member in self.members)

    def advance(self, last_ids: Int[Tensor, "batch beam"], carry: Carries) -> tuple[NextTokens, Carries]:
        """Decodes one more position, by each model; the attention is the first one's."""
        results = [member.advance(last_ids, each) for member, each in zip(self.members, carry, strict=True)]
        experts = [tokens.log_probs for tokens, _ in results[: self.num_experts]]
        combined = torch.stack(experts).logsumexp(dim=0) - math.log(len(experts)) if len(experts) > 1 else experts[0]
        for tokens, _ in results[self.num_experts :]:
            combined = contrast(
                combined,
                tokens.log_probs,
                weight=self.config.contrastive_weight,
                plausibility=self.config.contrastive_plausibility,
            )
        return results[0][0]._replace(log_probs=combined), tuple(each for _, each in results)

    def follow(self, carry: Carries, parents: Int[Tensor, "batch beam"]) -> Carries:
        """See `search.NextTokenModel`."""
        return tuple(member.follow(each, parents) for member, each in zip(self.members, carry, strict=True))

    def extend(self, carry: Carries, num_rows: int) -> Carries:
        """See `search.NextTokenModel`."""
        return tuple(member.extend(each, num_rows) for member, each in zip(self.members, carry, strict=True))

    def place(self, carry: Carries, rows: Int[Tensor, " new_batch"], new: Carries) -> Carries:
        """See `search.NextTokenModel`."""
        placed = zip(self.members, carry, new, strict=True)
        return tuple(member.place(each, rows, fresh) for member, each, fresh in placed)

    def select(self, carry: Carries, rows: Int[Tensor, " new_batch"]) -> Carries:
        """See `search.NextTokenModel`."""
        return tuple(member.select(each, rows) for member, each in zip(self.members, carry, strict=True))


def contrast(
    expert: Float[Tensor, "*batch vocab"], amateur: Float[Tensor, "*batch vocab"], *, weight: float, plausibility: float
) -> Float[Tensor, "*batch vocab"]:
    """Log-probabilities of what the expert finds plausible, and the more so the less the amateur does.

    Args:
        expert: Log-probabilities; -inf stays so.
        weight: How much of the amateur's log-probabilities is taken away; 0 changes nothing but the plausible set.
        plausibility: Share of the most probable token's probability that a token must have.
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
    """The model, or all of a combination, as search sees them."""

    def cached(each: Transformer) -> CachedDecoder:
        return CachedDecoder(
            each,
            source_ids,
            beam_size=beam_size,
            max_length=max_length,
            shortlist=shortlist,
            also_allowed=also_allowed,
            # The others have their say in probabilities alone.
            attention_layer=config.alignment_layer if config.coverage_penalty and each is model else None,
        )

    if combination == ALONE:
        return cached(model)
    amateur = None if combination.contrast is None else cached(combination.contrast)
    return CombinedDecoder([cached(each) for each in (model, *combination.ensemble)], amateur, config)
