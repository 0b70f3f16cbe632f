"""What a hypothesis may not do, or pays for: rules lower what some next tokens add to its total.

Each rule sees the open hypotheses of a batch at once. What lies in `state.ids` behind a hypothesis's own length is left
over from earlier steps, and no rule looks at it; a slot without a hypothesis may get anything. A rule may leave a
hypothesis no token at all: then it cannot go on. Rules know nothing of each other.
"""

import math
import re
import unicodedata
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from translate.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Tokenizer
from translate.decoding.search.beam import BeamState

_NONE = -1  # where a token would be, but none is


@runtime_checkable
class Rule(Protocol):
    """Changes what each next token adds to the total of its hypothesis; it can only lower it."""

    penalizes: bool
    """It lowers tokens by finite amounts, so that totals are no longer log-probabilities; else it only forbids."""

    def apply(
        self, added: Float[Tensor, "batch beam vocab"], state: BeamState, sentences: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch beam vocab"]:
        """What is added under the rule, -inf for a forbidden token.

        Args:
            added: It may be written into.
            sentences: Where each sentence of the batch stands in the lists that rules are built with.
        """
        ...


class MinimumLength:
    """No end symbol before a sentence has so many tokens."""

    penalizes = False

    def __init__(self, min_lengths: Int[Tensor, " num_sentences"], *, end_id: int) -> None:
        """
        Args:
            min_lengths: Generated tokens of each sentence at least, the end symbol not counted.
        """
        self._min_lengths = min_lengths
        self._end_id = end_id

    def apply(
        self, added: Float[Tensor, "batch beam vocab"], state: BeamState, sentences: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch beam vocab"]:
        """Forbids the end symbol; see `Rule.apply`."""
        is_short = state.lengths < self._min_lengths[sentences]
        added[:, :, self._end_id].masked_fill_(is_short[:, None], -math.inf)
        return added


class ForcedPrefix:
    """Each sentence's translation begins with given tokens; what they add stays what the model says.

    A forced token that another rule forbids is forbidden: then the sentence has no translation.
    """

    penalizes = False

    def __init__(
        self, prefixes: Sequence[Sequence[int]], *, end_id: int, vocab_size: int, device: torch.device | None = None
    ) -> None:
        """
        Args:
            prefixes: For each sentence, its first tokens without the start symbol; empty: it is free.

        Raises:
            ValueError: A prefix has the end symbol or an id that is not in the vocabulary.
        """
        for position, prefix in enumerate(prefixes):
            if end_id in prefix:
                raise ValueError(f"prefix {position} has the end symbol, {end_id}: {list(prefix)}")
            _check_ids(prefix, vocab_size=vocab_size, name=f"prefix {position}")
        self._tokens = _table(prefixes, padding=0, device=device)
        self._lengths = torch.tensor([len(prefix) for prefix in prefixes], dtype=torch.long, device=device)

    def apply(
        self, added: Float[Tensor, "batch beam vocab"], state: BeamState, sentences: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch beam vocab"]:
        """Forbids all tokens but the prefix's next one; see `Rule.apply`."""
        is_inside = state.lengths < self._lengths[sentences]
        if not is_inside.any():
            return added
        positions = state.lengths.clamp(max=self._tokens.shape[1] - 1)
        tokens = self._tokens[sentences, positions][:, None, None].expand(-1, added.shape[1], 1)
        kept = added.gather(2, tokens)
        return added.masked_fill_(is_inside[:, None, None], -math.inf).scatter_(2, tokens, kept)


def leaves_word_open_table(tokenizer: Tokenizer, *, device: torch.device | None = None) -> Bool[Tensor, " vocab"]:
    """Tokens that end with a letter, mark or digit, so that the next one may go on with the word: `▁dog`, not `.`.

    A byte of a character that the vocabulary lacks counts as a letter; the special symbols end no word.
    """
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    last_characters = [re.sub(r"^<0x..>$", "x", piece)[-1] for piece in pieces]
    is_open = torch.tensor([unicodedata.category(last)[0] in "LMN" for last in last_characters], device=device)
    return is_open.index_fill(0, torch.tensor([PAD_ID, UNK_ID, BOS_ID, EOS_ID], device=device), False)


class ForbiddenPhrases:
    """Token sequences that no translation has, single words or longer; each as its list of ids says it.

    A word that merely goes on is another word: `▁dog` does not forbid `▁dog ma`. So a phrase whose last word may go on
    is complete only with the next token, if that begins a word or ends the sentence, and there the hypothesis is
    stopped; a beam has others by then, greedy search must go on with the word. Other phrases are complete at once, and
    so is any in the last position that a sentence has.

    Other subwords for the same text are another sequence: to forbid them, list them too.
    """

    penalizes = False

    def __init__(
        self,
        phrases: Sequence[Sequence[int]],
        *,
        begins_word: Bool[Tensor, " vocab"],
        leaves_word_open: Bool[Tensor, " vocab"] | None = None,
        max_lengths: Int[Tensor, " num_sentences"] | None = None,
    ) -> None:
        """
        Args:
            begins_word: Tokens that begin a new word or end the sentence, the end symbol among them.
            leaves_word_open: Tokens whose last word may go on, see `leaves_word_open_table`; None: all, even `!`, after
                which then no word may begin. All False: every phrase is complete at once.
            max_lengths: Generated tokens of each sentence at most, the end symbol included; None: a translation that is
                cut may end with a phrase whose last word might have gone on.

        Raises:
            ValueError: A phrase is empty or has an id that is not in the vocabulary.
        """
        for position, phrase in enumerate(phrases):
            if not phrase:
                raise ValueError(f"forbidden phrase {position} is empty")
            _check_ids(phrase, vocab_size=len(begins_word), name=f"forbidden phrase {position}")
        # Aligned on the right, where the newest token is; _NONE on the left matches anything.
        reversed_phrases = [list(reversed(phrase)) for phrase in phrases]
        self._phrases = _table(reversed_phrases, padding=_NONE, device=begins_word.device).flip(1)
        self._last_ids = torch.tensor([phrase[-1] for phrase in phrases], dtype=torch.long, device=begins_word.device)
        self._begins_word = begins_word
        if leaves_word_open is None:
            leaves_word_open = torch.ones_like(begins_word)
        self._is_open = leaves_word_open[self._last_ids]
        self._open_phrases = self._phrases[self._is_open]
        self._max_lengths = max_lengths

    def apply(
        self, added: Float[Tensor, "batch beam vocab"], state: BeamState, sentences: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch beam vocab"]:
        """Forbids the tokens that complete a phrase; see `Rule.apply`."""
        if not len(self._phrases):
            return added
        batch, beam = added.shape[:2]
        completes = _ends_with(state, self._phrases[:, :-1])
        is_open = self._is_open
        if self._max_lengths is not None:
            is_open = is_open & (state.lengths + 1 < self._max_lengths[sentences])[:, None, None]
        _forbid(added, self._last_ids.expand(batch, beam, -1), completes & ~is_open)
        is_ending = _ends_with(state, self._open_phrases).any(dim=2)
        if is_ending.any():
            added.masked_fill_(is_ending[:, :, None] & self._begins_word, -math.inf)
        return added


class NoRepeatedNgrams:
    """No n tokens in a row come twice in a hypothesis.

    The end symbol is never forbidden: a hypothesis that goes on does not have it.

    Source: Paulus et al. 2017, https://arxiv.org/abs/1705.04304, section 2.5, for trigrams.
    """

    penalizes = False

    def __init__(self, n: int) -> None:
        """
        Raises:
            ValueError: `n` is less than 1.
        """
        if n < 1:
            raise ValueError(f"n = {n}: an n-gram has at least 1 token")
        self._n = n

    def apply(
        self, added: Float[Tensor, "batch beam vocab"], state: BeamState, sentences: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch beam vocab"]:
        """Forbids what followed the newest n - 1 tokens where they came before; see `Rule.apply`."""
        n = self._n
        num_starts = _longest(state) - n + 1  # of n-grams
        if num_starts < 1:
            return added
        newest = _newest_tokens(state, n - 1)
        last_positions = torch.arange(n, n + num_starts, device=added.device)
        repeats = (last_positions <= state.lengths[:, None])[:, None]
        for offset in range(n - 1):
            repeats = repeats & (state.ids[:, :, 1 + offset :][:, :, :num_starts] == newest[:, :, offset, None])
        return _forbid(added, state.ids[:, :, n : n + num_starts], repeats.expand(-1, added.shape[1], -1))


class RepetitionPenalty:
    """A token that the hypothesis has already costs theta times as much.

    Source: Keskar et al. 2019, https://arxiv.org/abs/1909.05858, section 4.1. They divide the logits by theta, which
    favours a token with a negative one; a log-probability is never positive, so its multiple is always a penalty.
    """

    penalizes = True

    def __init__(self, theta: float) -> None:
        """
        Args:
            theta: The factor on log-probabilities; 1 changes nothing.

        Raises:
            ValueError: `theta` is less than 1, or not finite.
        """
        if not 1.0 <= theta < math.inf:
            raise ValueError(f"theta = {theta}: a penalty is a finite factor of at least 1")
        self._theta = theta

    def apply(
        self, added: Float[Tensor, "batch beam vocab"], state: BeamState, sentences: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch beam vocab"]:
        """Multiplies what repeated tokens add; see `Rule.apply`."""
        longest = _longest(state)
        is_generated = (torch.arange(longest, device=added.device) < state.lengths[:, None])[:, None]
        tokens = state.ids[:, :, 1 : longest + 1].masked_fill(~is_generated, 0)
        limits = (added.gather(2, tokens) * self._theta).masked_fill(~is_generated, math.inf)
        return _lower(added, tokens, limits)


def _lower(
    added: Float[Tensor, "batch beam vocab"],
    tokens: Int[Tensor, "batch beam count"],
    limits: Float[Tensor, "batch beam count"],
) -> Float[Tensor, "batch beam vocab"]:
    """Lowers each token to its limit, in place; one may be named several times."""
    return added.scatter_reduce_(2, tokens, limits, reduce="amin")


def _forbid(
    added: Float[Tensor, "batch beam vocab"],
    tokens: Int[Tensor, "batch beam count"],
    is_forbidden: Bool[Tensor, "batch beam count"],
) -> Float[Tensor, "batch beam vocab"]:
    """Forbids tokens, in place; those that are not forbidden need not be ids."""
    limits = added.new_full(tokens.shape, math.inf).masked_fill_(is_forbidden, -math.inf)
    return _lower(added, tokens.masked_fill(~is_forbidden, 0), limits)


def _longest(state: BeamState) -> int:
    """Tokens of the longest hypothesis; a sentence that is no longer searched may count beyond the capacity."""
    return min(int(state.lengths.max()), state.ids.shape[2] - 1)


def _newest_tokens(state: BeamState, count: int) -> Int[Tensor, "batch beam {count}"]:
    """The last generated tokens of open hypotheses; _NONE where there are fewer, since the start symbol is none."""
    positions = state.lengths[:, None] + torch.arange(1 - count, 1, device=state.ids.device)
    index = positions.clamp(min=0, max=state.ids.shape[2] - 1)[:, None].expand(-1, state.ids.shape[1], -1)
    return state.ids.gather(2, index).masked_fill((positions < 1)[:, None], _NONE)


def _ends_with(state: BeamState, phrases: Int[Tensor, "phrases longest"]) -> Bool[Tensor, "batch beam phrases"]:
    """Whether a hypothesis ends with a phrase, which may be empty."""
    num_phrases, longest = phrases.shape
    newest = _newest_tokens(state, longest)
    is_same = torch.ones((*newest.shape[:2], num_phrases), dtype=torch.bool, device=newest.device)
    for offset in range(longest):
        is_same &= (newest[:, :, offset, None] == phrases[:, offset]) | (phrases[:, offset] == _NONE)
    return is_same


def _check_ids(ids: Sequence[int], *, vocab_size: int, name: str) -> None:
    for token in ids:
        if not 0 <= token < vocab_size:
            raise ValueError(f"{name} has the id {token}, which is not in the vocabulary of {vocab_size}")


def _table(
    rows: Sequence[Sequence[int]], *, padding: int, device: torch.device | None
) -> Int[Tensor, "num_rows longest"]:
    longest = max(map(len, rows), default=0)
    padded = [[*row, *[padding] * (longest - len(row))] for row in rows]
    return torch.tensor(padded, dtype=torch.long, device=device).view(len(rows), longest)
