"""Sampling as a selection of candidates: each slot samples its own next token, independently of the other slots.

A token is a pure function of the probabilities, the seed, the line's number, the sample's number and the position.
No generator's state is shared. Neighbours in the batch matter only through rounding: in another shape, probabilities
differ in their last digits, which tips a draw that falls on the border of two tokens. A difference in one probability
moves the borders of all later tokens, so in bf16 many draws are tipped.
"""

import dataclasses
import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from translate.decoding.search.beam import BeamState, Candidates, NextTokenScores
from translate.model.device import widest_float

_MIN_TEMPERATURE = 1e-6  # lower ones are raised to it: quotients stay in fp32 range, and sampling is already greedy
_FIRST_NUCLEUS = 64  # the most probable tokens to look for a nucleus in; sorting them all takes 15 times as long
_NUCLEUS_GROWTH = 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenSampler:
    """Samples from the model's distribution after reshaping it in this order, each step applied to the previous result.

    1. temperature: probabilities to the power of 1 / temperature.
    2. top-k: the k most probable tokens, and any as probable as the last of them.
    3. top-p: the fewest tokens that have this probability together, and any as probable as the last of them.
    4. epsilon: tokens of at least this probability, and always the most probable one.

    Args:
        lines: The number of each sentence's line, which distinguishes its samples.
        temperature: 1 is the model's own distribution; less favours the probable tokens.

    Source: top-k: Fan et al. 2018, https://arxiv.org/abs/1805.04833; top-p (nucleus): Holtzman et al. 2020,
    https://arxiv.org/abs/1904.09751, section 3.1; epsilon: Hewitt et al. 2022, https://arxiv.org/abs/2210.15191.
    """

    seed: int
    lines: Int[Tensor, " num_lines"]
    temperature: float = 1.0
    top_k: int = 0  # 0: all tokens
    top_p: float = 1.0
    epsilon: float = 0.0

    def __call__(self, state: BeamState, scores: NextTokenScores) -> Candidates:
        """One token for each slot, which continues itself; a slot without a hypothesis stays without one.

        All slots have to be open at first. Cumulative scores add up `scores` as they are, not reshaped: they are the
        model's probability of the sample, not the probability with which it was sampled.
        """
        batch, beam = scores.shape[:2]
        slots = torch.arange(beam, device=scores.device).expand(batch, -1)
        lines, positions = self.lines[state.sentences][:, None], state.lengths[:, None]
        tokens = sample_tokens(self.probabilities(scores), uniform_numbers(self.seed, lines, slots, positions))
        return Candidates(state.cumulative_scores + scores.gather(2, tokens[:, :, None])[:, :, 0], slots, tokens)

    def probabilities(self, scores: NextTokenScores) -> Float[Tensor, "batch beam vocab"]:
        """The distribution to sample from; all zeros for a hypothesis that cannot be continued."""
        # The most probable token gets 0, the others less; a row of only -inf stays as it is.
        highest = scores.amax(dim=2, keepdim=True).clamp(min=torch.finfo(scores.dtype).min)
        logits = (scores - highest).div_(max(self.temperature, _MIN_TEMPERATURE))
        if 0 < self.top_k < scores.shape[2]:
            last_kept = logits.topk(self.top_k, dim=2).values[:, :, -1:]
            logits.masked_fill_(logits < last_kept, -math.inf)
        probabilities = _normalize(logits.exp_())
        if self.top_p < 1.0:
            is_outside = probabilities < _least_in_nucleus(probabilities, self.top_p)
            probabilities = _normalize(probabilities.masked_fill_(is_outside, 0.0))
        if self.epsilon > 0.0:
            least_kept = probabilities.amax(dim=2, keepdim=True).clamp(max=self.epsilon)
            probabilities = _normalize(probabilities.masked_fill_(probabilities < least_kept, 0.0))
        return probabilities


def _normalize(weights: Float[Tensor, "batch beam vocab"]) -> Float[Tensor, "batch beam vocab"]:
    """Turn weights into probabilities, in place."""
    return weights.div_(weights.sum(dim=2, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny))


def _least_in_nucleus(probabilities: Float[Tensor, "batch beam vocab"], mass: float) -> Float[Tensor, "batch beam 1"]:
    """The probability of the last token that the nucleus needs, found without sorting the vocabulary."""
    count, vocab = _FIRST_NUCLEUS, probabilities.shape[2]
    while True:
        largest = probabilities.topk(min(count, vocab), dim=2).values
        cumulative = largest.cumsum(dim=2)
        if count >= vocab or ((cumulative[:, :, -1] >= mass) | (largest[:, :, -1] == 0.0)).all():
            last = (cumulative < mass).sum(dim=2, keepdim=True).clamp(max=largest.shape[2] - 1)
            return largest.gather(2, last)
        count *= _NUCLEUS_GROWTH


def sample_tokens(
    weights: Float[Tensor, "batch beam vocab"], uniforms: Float[Tensor, "batch beam"]
) -> Int[Tensor, "batch beam"]:
    """The token at which the cumulative distribution, in the order of ids, passes a uniform number.

    A token of weight 0 is never sampled unless all weights are 0, whatever the rounding.

    Args:
        weights: Probabilities, which need not add up to 1.
        uniforms: Numbers in [0, 1); the weights are summed in their precision.
    """
    cumulative = weights.cumsum(dim=2, dtype=uniforms.dtype)
    targets = uniforms[:, :, None] * cumulative[:, :, -1:]
    tokens = torch.searchsorted(cumulative, targets, right=True).clamp(max=weights.shape[2] - 1)
    is_possible = weights.gather(2, tokens) > 0.0
    return torch.where(is_possible, tokens, weights.argmax(dim=2, keepdim=True))[:, :, 0]


def uniform_numbers(
    seed: int, lines: Int[Tensor, "#*shape"], samples: Int[Tensor, "#*shape"], positions: Int[Tensor, "#*shape"]
) -> Float[Tensor, "*shape"]:
    """Numbers in [0, 1), one for each (seed, line, sample, position), as if independent."""
    hashed = splitmix64(splitmix64(splitmix64(seed, lines), samples), positions)
    dtype = widest_float(lines.device)
    bits = 53 if dtype == torch.float64 else 24  # with more, the largest number would be rounded to 1
    return _shift_right(hashed, 64 - bits).to(dtype) * 2.0**-bits


def splitmix64(seeds: int | Int[Tensor, "#*shape"], numbers: Int[Tensor, "#*shape"]) -> Int[Tensor, "*shape"]:
    """The outputs at these numbers, counted from 0, of the SplitMix64 generators with these seeds.

    All are unsigned, but stored in signed 64-bit integers, whose addition and multiplication are the same.

    Source: Steele et al. 2014, https://doi.org/10.1145/2660193.2660195.
    """
    mixed = (numbers + 1) * (0x9E3779B97F4A7C15 - 2**64) + seeds
    mixed = (mixed ^ _shift_right(mixed, 30)) * (0xBF58476D1CE4E5B9 - 2**64)
    mixed = (mixed ^ _shift_right(mixed, 27)) * (0x94D049BB133111EB - 2**64)
    return mixed ^ _shift_right(mixed, 31)


def _shift_right(numbers: Int[Tensor, "*shape"], bits: int) -> Int[Tensor, "*shape"]:
    """Unsigned numbers without their last bits."""
    return (numbers >> bits) & (2 ** (64 - bits) - 1)
