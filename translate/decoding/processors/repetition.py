"""Against translations that go round in circles: repeated n-grams are forbidden, repeated tokens penalized."""

import dataclasses
import math

import torch

from translate.decoding.processors.forbidden import forbid, newest_tokens
from translate.decoding.search.beam import BeamState, NextTokenScores


@dataclasses.dataclass(frozen=True)
class NoRepeatedNgrams:
    """Lets no n tokens in a row occur twice in a hypothesis.

    The end symbol is never forbidden, because an open hypothesis does not have it.

    Source: Paulus et al. 2017, https://arxiv.org/abs/1705.04304, section 2.5, for trigrams.
    """

    n: int

    def __call__(self, scores: NextTokenScores, state: BeamState) -> NextTokenScores:
        """Forbids what followed the newest n - 1 tokens where they occurred before."""
        n = self.n
        num_starts = _longest(state) - n + 1  # of n-grams
        if num_starts < 1:
            return scores
        newest = newest_tokens(state, n - 1)
        last_positions = torch.arange(n, n + num_starts, device=scores.device)
        repeats = (last_positions <= state.lengths[:, None])[:, None]
        for offset in range(n - 1):
            repeats = repeats & (state.ids[:, :, 1 + offset :][:, :, :num_starts] == newest[:, :, offset, None])
        return forbid(scores, state.ids[:, :, n : n + num_starts], repeats.expand(-1, scores.shape[1], -1))


@dataclasses.dataclass(frozen=True)
class RepetitionPenalty:
    """Makes a token that the hypothesis already has cost `theta` times as much.

    Args:
        theta: The factor on log-probabilities, at least 1; 1 changes nothing.

    Source: Keskar et al. 2019, https://arxiv.org/abs/1909.05858, section 4.1. They divide the logits by theta, which
    favours a token with a negative one; a log-probability is never positive, so its multiple is always a penalty.
    """

    theta: float

    def __call__(self, scores: NextTokenScores, state: BeamState) -> NextTokenScores:
        """Multiplies the scores of repeated tokens."""
        longest = _longest(state)
        is_generated = (torch.arange(longest, device=scores.device) < state.lengths[:, None])[:, None]
        tokens = state.ids[:, :, 1 : longest + 1].masked_fill(~is_generated, 0)
        limits = (scores.gather(2, tokens) * self.theta).masked_fill(~is_generated, math.inf)
        return scores.scatter_reduce(2, tokens, limits, reduce="amin")


def _longest(state: BeamState) -> int:
    """Tokens of the longest hypothesis; a row that its sentence has left may count beyond the capacity."""
    return min(int(state.lengths.max()), state.ids.shape[2] - 1)
