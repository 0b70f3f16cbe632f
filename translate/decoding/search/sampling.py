"""Sampling as a way to choose continuations: each slot draws its own next token, and no slot knows of another.

A draw is a pure function of the seed, the line's number, the sample's number and the position: nothing is drawn from a
generator that others draw from too, so a sample does not depend on the batch, its order, or its neighbours.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from translate.decoding.search.beam import BeamState, Choice

_MIN_TEMPERATURE = 1e-6  # any less is taken for it: quotients stay in single precision, and it is greedy search by far
_FIRST_NUCLEUS = 64  # tokens looked at for a nucleus before more are
_NUCLEUS_GROWTH = 8


class TokenSampler:
    """Chooses by drawing from the model's distribution, reshaped in this order, each step on what the last one left.

    1. temperature: probabilities to the power of 1 / temperature.
    2. top-k: the k most probable tokens, and any as probable as the last of them.
    3. top-p: the fewest tokens that have this probability together, and any as probable as the last of them.
    4. epsilon: tokens of at least this probability, and always the most probable one.

    Source: top-k: Fan et al. 2018, https://arxiv.org/abs/1805.04833; top-p (nucleus): Holtzman et al. 2020,
    https://arxiv.org/abs/1904.09751, section 3.1; epsilon: Hewitt et al. 2022, https://arxiv.org/abs/2210.15191.
    """

    def __init__(
        self,
        *,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        epsilon: float = 0.0,
        seed: int,
        lines: Int[Tensor, " num_lines"],
    ) -> None:
        """
        Args:
            temperature: 1 is the model's own distribution, less favours the probable.
            top_k: 0: all.
            top_p: 1: all.
            epsilon: 0: all.
            lines: The number of each sentence's line, by which its draws are known.

        Raises:
            ValueError: A setting is out of its range.
        """
        if not 0.0 < temperature < math.inf:
            raise ValueError(f"temperature = {temperature}: must be finite and more than 0")
        if top_k < 0:
            raise ValueError(f"top_k = {top_k}: must be a number of tokens, or 0 for all")
        if not 0.0 < top_p <= 1.0:
            raise ValueError(f"top_p = {top_p}: must be more than 0 and at most 1")
        if not 0.0 <= epsilon < 1.0:
            raise ValueError(f"epsilon = {epsilon}: must be at least 0 and less than 1")
        if not 0 <= seed < 2**63:
            raise ValueError(f"seed = {seed}: must be at least 0 and less than 2^63")
        self._temperature = max(temperature, _MIN_TEMPERATURE)
        self._top_k = top_k
        self._top_p = top_p
        self._epsilon = epsilon
        self._seed = seed
        self._lines = lines

    def __call__(
        self, state: BeamState, added: Float[Tensor, "batch beam vocab"], sentences: Int[Tensor, " batch"]
    ) -> Choice:
        """One token for each slot, which continues itself; a slot without a hypothesis stays without one.

        All slots have to be open at first. Totals add up `added` as it is, not reshaped: what the model says of the
        sample, not how it was drawn.
        """
        batch, beam = added.shape[:2]
        slots = torch.arange(beam, device=added.device).expand(batch, -1)
        dtype = torch.float32 if added.device.type == "mps" else torch.float64  # MPS has no double precision
        uniforms = uniform_numbers(
            self._seed, self._lines[sentences][:, None], slots, state.lengths[:, None], dtype=dtype
        )
        tokens = draw(self.probabilities(added), uniforms)
        totals = state.totals + added.gather(2, tokens[:, :, None])[:, :, 0]
        return Choice(totals, slots, tokens)

    def probabilities(self, added: Float[Tensor, "batch beam vocab"]) -> Float[Tensor, "batch beam vocab"]:
        """What is drawn from; all zeros for a hypothesis that may not go on.

        Args:
            added: Log-probabilities, up to a constant for each hypothesis.
        """
        # The most probable token gets 0, the others less; a row of -inf alone stays so.
        highest = added.amax(dim=2, keepdim=True).clamp(min=torch.finfo(added.dtype).min)
        logits = (added - highest).div_(self._temperature)
        if 0 < self._top_k < added.shape[2]:
            last_kept = logits.topk(self._top_k, dim=2).values[:, :, -1:]
            logits.masked_fill_(logits < last_kept, -math.inf)
        probabilities = _normalized(logits.exp_())
        if self._top_p < 1.0:
            is_outside = probabilities < _least_in_nucleus(probabilities, self._top_p)
            probabilities = _normalized(probabilities.masked_fill_(is_outside, 0.0))
        if self._epsilon > 0.0:
            least_kept = probabilities.amax(dim=2, keepdim=True).clamp(max=self._epsilon)
            probabilities = _normalized(probabilities.masked_fill_(probabilities < least_kept, 0.0))
        return probabilities


def _normalized(weights: Float[Tensor, "batch beam vocab"]) -> Float[Tensor, "batch beam vocab"]:
    """Probabilities in proportion to the weights, in their place."""
    return weights.div_(weights.sum(dim=2, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny))


def _least_in_nucleus(probabilities: Float[Tensor, "batch beam vocab"], mass: float) -> Float[Tensor, "batch beam 1"]:
    """The probability of the last token that the nucleus needs, found without sorting the vocabulary."""
    vocab = probabilities.shape[2]
    count = min(_FIRST_NUCLEUS, vocab)
    while True:
        largest = probabilities.topk(count, dim=2).values
        cumulative = largest.cumsum(dim=2)
        is_enough = (cumulative[:, :, -1] >= mass) | (largest[:, :, -1] == 0.0)
        if count == vocab or is_enough.all():
            break
        count = min(count * _NUCLEUS_GROWTH, vocab)
    last = (cumulative < mass).sum(dim=2, keepdim=True).clamp(max=count - 1)
    return largest.gather(2, last)


def draw(
    weights: Float[Tensor, "batch beam vocab"], uniforms: Float[Tensor, "batch beam"]
) -> Int[Tensor, "batch beam"]:
    """The token at which the cumulative distribution, in the order of ids, passes a uniform number.

    A token of weight 0 is never drawn unless there is no other, whatever rounding does.

    Args:
        weights: Probabilities, which need not add up to 1.
        uniforms: In [0, 1); sums are made in its precision.
    """
    cumulative = weights.cumsum(dim=2, dtype=uniforms.dtype)
    targets = uniforms[:, :, None] * cumulative[:, :, -1:]
    tokens = torch.searchsorted(cumulative, targets, right=True).clamp(max=weights.shape[2] - 1)
    is_possible = (weights.gather(2, tokens) > 0.0)[:, :, 0]
    if is_possible.all():
        return tokens[:, :, 0]
    return torch.where(is_possible, tokens[:, :, 0], weights.argmax(dim=2))


# SplitMix64's constants: the golden ratio times 2^64, made odd, and the two factors of its mixing function.
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST_FACTOR = 0xBF58476D1CE4E5B9
_SECOND_FACTOR = 0x94D049BB133111EB


def uniform_numbers(
    seed: int,
    lines: Int[Tensor, "#*shape"],
    samples: Int[Tensor, "#*shape"],
    positions: Int[Tensor, "#*shape"],
    *,
    dtype: torch.dtype = torch.float64,
) -> Float[Tensor, "*shape"]:
    """Numbers in [0, 1), one for each (seed, line, sample, position), as if independent.

    Args:
        dtype: Of the result, which fills its mantissa with the hash's first bits.
    """
    bits = 53 if dtype == torch.float64 else 24
    hashed = torch.full((), seed, device=lines.device)
    for numbers in (lines, samples, positions):
        hashed = splitmix64(hashed, numbers)
    return _logical_shift(hashed, 64 - bits).to(dtype) * 2.0**-bits


def splitmix64(seeds: Int[Tensor, "#*shape"], numbers: Int[Tensor, "#*shape"]) -> Int[Tensor, "*shape"]:
    """What the generator with each seed gives at each number, counted from 0.

    Integers of 64 bits without a sign, held in torch's, which have one: sums and products are the same modulo 2^64.

    Source: Steele et al. 2014, https://doi.org/10.1145/2660193.2660195.
    """
    mixed = seeds + (numbers + 1) * _signed(_GOLDEN)
    mixed = (mixed ^ _logical_shift(mixed, 30)) * _signed(_FIRST_FACTOR)
    mixed = (mixed ^ _logical_shift(mixed, 27)) * _signed(_SECOND_FACTOR)
    return mixed ^ _logical_shift(mixed, 31)


def _signed(number: int) -> int:
    """The integer with a sign that has these 64 bits."""
    return number - 2**64 if number >= 2**63 else number


def _logical_shift(numbers: Int[Tensor, "*shape"], bits: int) -> Int[Tensor, "*shape"]:
    """Shifts right with zeros, where `>>` repeats the sign."""
    return (numbers >> bits) & (2 ** (64 - bits) - 1)
