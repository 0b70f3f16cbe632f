"""Logits processors: they lower the scores of next tokens before the search selects; see `loop.LogitsProcessor`."""

import dataclasses
import itertools
import math
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from translate.decoding.constraints.phrases import WordTables
from translate.decoding.search.beam import BeamState, NextTokenScores
from translate.model.device import copy_to_device

_NONE = -1  # no token


class ForcedPrefix:
    """Forces each sentence's translation to begin with given tokens, and does not change their scores.

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
    """Forbids the end symbol until a translation has its minimum number of tokens."""

    min_lengths: Int[Tensor, " num_sentences"]  # the fewest tokens before the end symbol
    end_id: int

    def __call__(self, scores: NextTokenScores, state: BeamState) -> NextTokenScores:
        """Forbids the end symbol."""
        is_short = state.lengths < self.min_lengths[state.sentences]
        scores[:, :, self.end_id].masked_fill_(is_short[:, None], -math.inf)
        return scores


class ForbiddenPhrases:
    """Forbids token sequences, single words or longer ones; each is matched exactly as its list of ids spells it.

    A word that merely continues is another word: `▁dog` does not forbid `▁dog ma`. So a phrase whose last word may
    continue is complete only with the next token, if that begins a word or ends the sentence. Such tokens are then
    forbidden: a beam has other hypotheses by then, and greedy search has to continue the word. Other phrases are
    complete at once, and so is any phrase in the last position of a sentence.

    Args:
        phrases: The ids of each phrase; none is empty.
        words: The tables of the target vocabulary, on the model's device.
    """

    def __init__(self, phrases: Sequence[Sequence[int]], words: WordTables) -> None:
        phrases, device = sorted(phrases, key=len), words.begins_word.device
        self._begins_word = words.begins_word
        self._last_ids = copy_to_device(torch.tensor([phrase[-1] for phrase in phrases]), device)
        self._is_open = words.leaves_word_open[self._last_ids]
        self._beginnings = _tables([phrase[:-1] for phrase in phrases], device)
        self._open_phrases = _tables(list(itertools.compress(phrases, self._is_open.tolist())), device)

    def __call__(self, scores: NextTokenScores, state: BeamState) -> NextTokenScores:
        """Forbids the tokens that complete a phrase."""
        completes = _ends_with(state, self._beginnings)
        is_last = (state.lengths + 1 >= state.max_lengths)[:, None, None]
        _forbid(scores, self._last_ids.expand_as(completes), completes & (is_last | ~self._is_open))
        if self._open_phrases and (is_ending := _ends_with(state, self._open_phrases).any(dim=2)).any():
            scores.masked_fill_(is_ending[:, :, None] & self._begins_word, -math.inf)
        return scores


@dataclasses.dataclass(frozen=True)
class NoRepeatedNgrams:
    """Forbids a sequence of n tokens from occurring twice in a hypothesis.

    Source: Paulus et al. 2017, https://arxiv.org/abs/1705.04304, section 2.5, for trigrams.
    """

    n: int

    def __call__(self, scores: NextTokenScores, state: BeamState) -> NextTokenScores:
        """Forbids the tokens that followed earlier occurrences of the newest n - 1 tokens."""
        longest = _longest(state)
        if longest < self.n:
            return scores
        ngrams = state.ids[:, :, 1 : longest + 1].unfold(2, self.n, 1)  # (batch, beam, n-grams, n)
        is_generated = torch.arange(self.n, longest + 1, device=scores.device) <= state.lengths[:, None]
        repeats = (ngrams[..., :-1] == _newest_tokens(state, self.n - 1)[:, :, None]).all(dim=3)
        return _forbid(scores, ngrams[..., -1], repeats & is_generated[:, None])


@dataclasses.dataclass(frozen=True)
class RepetitionPenalty:
    """Multiplies the cost of a token that the hypothesis already has by `theta`, which is at least 1.

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


def _forbid(
    scores: NextTokenScores,
    tokens: Int[Tensor, "batch beam count"],
    is_forbidden: Bool[Tensor, "batch beam count"],
) -> NextTokenScores:
    """Set the scores of forbidden tokens to -inf, in place; `tokens` that are not forbidden need not be ids."""
    limits = scores.new_full(tokens.shape, math.inf).masked_fill_(is_forbidden, -math.inf)
    return scores.scatter_reduce_(2, tokens.masked_fill(~is_forbidden, 0), limits, reduce="amin")


def _newest_tokens(state: BeamState, count: int) -> Int[Tensor, "batch beam {count}"]:
    """The last generated tokens of open hypotheses; -1 where there are fewer (the start symbol was not generated)."""
    positions = state.lengths[:, None] + torch.arange(1 - count, 1, device=state.ids.device)
    tokens = state.ids.take_along_dim(positions.clamp(min=0, max=state.ids.shape[2] - 1)[:, None], dim=2)
    return tokens.masked_fill((positions < 1)[:, None], _NONE)


def _tables(phrases: Sequence[Sequence[int]], device: torch.device) -> list[Int[Tensor, "_ _"]]:
    """One table of phrases for each length. Phrases come in order of length; a single table would need padding."""
    by_length = itertools.groupby(phrases, key=len)
    return [copy_to_device(torch.tensor(list(group), dtype=torch.long), device) for _, group in by_length]


def _ends_with(state: BeamState, tables: Sequence[Int[Tensor, "_ _"]]) -> Bool[Tensor, "batch beam phrases"]:
    """Whether a hypothesis ends with each phrase of the tables, which may be empty; the last table has the longest."""
    longest = tables[-1].shape[1]
    newest = _newest_tokens(state, longest)[:, :, None]
    return torch.cat([(newest[..., longest - table.shape[1] :] == table).all(dim=3) for table in tables], dim=2)


def _longest(state: BeamState) -> int:
    """Tokens of the longest hypothesis; an abandoned row may count beyond the capacity."""
    return min(int(state.lengths.max()), state.ids.shape[2] - 1)
