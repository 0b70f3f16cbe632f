"""Phrases that no translation may contain, and what processors that forbid tokens share."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from translate.decoding.search.beam import BeamState, NextTokenScores

_NONE = -1  # stands where there is no token


class ForbiddenPhrases:
    """Forbids token sequences, single words or longer ones; each is matched exactly as its list of ids spells it.

    A word that merely continues is another word: `▁dog` does not forbid `▁dog ma`. So a phrase whose last word may
    continue is complete only with the next token, if that begins a word or ends the sentence, and there the hypothesis
    is stopped; a beam has others by then, greedy search must continue the word. Other phrases are complete at once, and
    so is any phrase in the last position of a sentence.

    Other subwords for the same text are another sequence: to forbid them, list them too.

    Args:
        phrases: The ids of each phrase; none is empty.
        begins_word: See `WordTables`; True for the end symbol.
        leaves_word_open: See `WordTables`.
    """

    def __init__(
        self,
        phrases: Sequence[Sequence[int]],
        *,
        begins_word: Bool[Tensor, " vocab"],
        leaves_word_open: Bool[Tensor, " vocab"],
    ) -> None:
        ids = [torch.tensor(phrase, device=begins_word.device) for phrase in phrases]
        # Aligned on the right, where the newest token is; _NONE on the left matches anything.
        self._phrases = pad_sequence(ids, batch_first=True, padding_value=_NONE, padding_side="left")
        self._last_ids = self._phrases[:, -1]
        self._begins_word = begins_word
        self._is_open = leaves_word_open[self._last_ids]
        self._open_phrases = self._phrases[self._is_open]

    def __call__(self, scores: NextTokenScores, state: BeamState) -> NextTokenScores:
        """Forbids the tokens that complete a phrase."""
        completes = _ends_with(state, self._phrases[:, :-1])
        is_last = (state.lengths + 1 >= state.max_lengths)[:, None, None]
        forbid(scores, self._last_ids.expand_as(completes), completes & (is_last | ~self._is_open))
        is_ending = _ends_with(state, self._open_phrases).any(dim=2)
        if is_ending.any():
            scores.masked_fill_(is_ending[:, :, None] & self._begins_word, -math.inf)
        return scores


def forbid(
    scores: NextTokenScores,
    tokens: Int[Tensor, "batch beam count"],
    is_forbidden: Bool[Tensor, "batch beam count"],
) -> NextTokenScores:
    """Set the scores of forbidden tokens to -inf, in place; `tokens` that are not forbidden need not be ids."""
    limits = scores.new_full(tokens.shape, math.inf).masked_fill_(is_forbidden, -math.inf)
    return scores.scatter_reduce_(2, tokens.masked_fill(~is_forbidden, 0), limits, reduce="amin")


def newest_tokens(state: BeamState, count: int) -> Int[Tensor, "batch beam {count}"]:
    """The last generated tokens of open hypotheses; -1 where there are fewer (the start symbol was not generated)."""
    positions = state.lengths[:, None] + torch.arange(1 - count, 1, device=state.ids.device)
    index = positions.clamp(min=0, max=state.ids.shape[2] - 1)[:, None].expand(-1, state.ids.shape[1], -1)
    return state.ids.gather(2, index).masked_fill((positions < 1)[:, None], _NONE)


def _ends_with(state: BeamState, phrases: Int[Tensor, "phrases longest"]) -> Bool[Tensor, "batch beam phrases"]:
    """Whether a hypothesis ends with a phrase, which may be empty."""
    num_phrases, longest = phrases.shape
    newest = newest_tokens(state, longest)
    is_same = torch.ones((*newest.shape[:2], num_phrases), dtype=torch.bool, device=newest.device)
    for offset in range(longest):
        is_same &= (newest[:, :, offset, None] == phrases[:, offset]) | (phrases[:, offset] == _NONE)
    return is_same
