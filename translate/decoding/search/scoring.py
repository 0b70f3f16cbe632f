"""How hypotheses are ranked: log-probability, length penalty, coverage penalty; and the best score still in reach."""

from typing import Literal, NamedTuple, assert_never

import torch
from jaxtyping import Float, Int
from torch import Tensor

from translate.config.decoding import DecodingConfig


class Scoring(NamedTuple):
    """score = cumulative score / penalty(length) + coverage_penalty · coverage; all in nats."""

    length_penalty: Literal["gnmt", "average", "none"] = "gnmt"
    alpha: float = 0.6
    coverage_penalty: float = 0.0

    def penalty(self, lengths: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
        """The divisor of a cumulative score, at least 1; the end symbol counts as a token.

        Source: gnmt: ((5 + length) / 6)^alpha, Wu et al. 2016, https://arxiv.org/abs/1609.08144, equation 14;
        average: length^alpha, which is the mean log-probability at alpha = 1.
        """
        match self.length_penalty:
            case "gnmt":
                return ((5.0 + lengths) / 6.0) ** self.alpha
            case "average":
                return lengths.clamp(min=1).float() ** self.alpha
            case "none":
                return torch.ones_like(lengths, dtype=torch.float)
            case _:
                assert_never(self.length_penalty)

    def score(
        self,
        cumulative_scores: Float[Tensor, "*batch"],
        lengths: Int[Tensor, "*batch"],
        coverage: Float[Tensor, "*batch source"] | None = None,
    ) -> Float[Tensor, "*batch"]:
        """Scores of finished hypotheses.

        Args:
            coverage: The attention to each source token, summed over all target tokens; 1 for padding.

        Source: the coverage penalty, sum over the source of log(min(coverage, 1)): Wu et al. 2016, equation 15.
        """
        scores = cumulative_scores / self.penalty(lengths)
        if coverage is not None and self.coverage_penalty:
            covered = coverage.clamp(min=torch.finfo(coverage.dtype).tiny, max=1.0)
            scores = scores + self.coverage_penalty * covered.log().sum(dim=-1)
        return scores

    def upper_bound(
        self, cumulative_scores: Float[Tensor, "*batch"], max_lengths: Int[Tensor, "*batch"]
    ) -> Float[Tensor, "*batch"]:
        """An upper bound on the score of any continuation of an open hypothesis.

        A cumulative score only falls, since each step adds the logarithm of a probability (logits processors can only
        lower it); the penalty never falls with the length, so it is largest at the maximum; coverage only takes away.
        So stopping by this bound is safe for every length penalty here, not a heuristic.
        """
        return cumulative_scores / self.penalty(max_lengths)


def build_scoring(config: DecodingConfig) -> Scoring:
    """The scoring that a config names."""
    return Scoring(config.length_penalty_kind, config.length_penalty, config.coverage_penalty)


def maximum_lengths(
    source_tokens: Int[Tensor, " batch"], config: DecodingConfig, *, position_limit: int | None
) -> Int[Tensor, " batch"]:
    """The most tokens that each translation has, its end symbol included.

    Args:
        position_limit: The number of positions that the models have; None: no limit.
    """
    lengths = (source_tokens * config.max_length_factor).long() + config.max_length_constant
    return lengths if position_limit is None else lengths.clamp(max=position_limit)
