"""How a translation must begin, and how long it must at least be."""

import dataclasses
import math
from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from translate.decoding.search.beam import BeamState, NextTokenScores


class ForcedPrefix:
    """Forces each sentence's translation to begin with given tokens, whose scores stay the model's.

    A forced token that another processor forbids is forbidden: then the sentence has no translation.

    Args:
        prefixes: For each sentence, its first tokens without the start symbol; empty: nothing is forced.
    """

    def __init__(self, prefixes: Sequence[Sequence[int]], *, device: torch.device | None = None) -> None:
        tokens = [torch.tensor(prefix, dtype=torch.long) for prefix in prefixes]
        self._tokens = pad_sequence(tokens, batch_first=True).to(device)
        self._lengths = torch.tensor([len(prefix) for prefix in prefixes], device=device)

    def __call__(self, scores: NextTokenScores, state: BeamState) -> NextTokenScores:
        """Forbids all tokens but the next one of the prefix."""
        is_inside = state.lengths < self._lengths[state.sentences]
        if not is_inside.any():
            return scores
        positions = state.lengths.clamp(max=self._tokens.shape[1] - 1)
        tokens = self._tokens[state.sentences, positions][:, None, None].expand(-1, scores.shape[1], 1)
        kept = scores.gather(2, tokens)
        return scores.masked_fill_(is_inside[:, None, None], -math.inf).scatter_(2, tokens, kept)


@dataclasses.dataclass(frozen=True)
class MinimumLength:
    """Allows no end symbol before a sentence has a minimum number of tokens.

    Args:
        min_lengths: For each sentence, the fewest tokens before its end symbol.
    """

    min_lengths: Int[Tensor, " num_sentences"]
    end_id: int

    def __call__(self, scores: NextTokenScores, state: BeamState) -> NextTokenScores:
        """Forbids the end symbol."""
        is_short = state.lengths < self.min_lengths[state.sentences]
        scores[:, :, self.end_id].masked_fill_(is_short[:, None], -math.inf)
        return scores
