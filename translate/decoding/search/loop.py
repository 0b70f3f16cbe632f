"""The search: sentences are decoded together, token by token, and a finished one makes room for the next.

`BeamSearch.step` shows one step of beam search, in order. New sentences are put into free rows without moving the
others: each sentence has its own length, in the state and in the model's cache.
"""

import dataclasses
import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from translate.decoding.search.beam import (
    BeamState,
    Hypothesis,
    NextTokenScores,
    Scoring,
    SelectCandidates,
    finished_hypotheses,
    is_done,
    select_best,
    start_beam,
    update_state,
)
from translate.model.device import copy_to_device, copy_to_host

Cache = TypeVar("Cache")

JOINING_SHARE = 8  # new sentences join once one row in eight is free: each time costs an encoder call


class NextTokens(NamedTuple):
    """A model's prediction of the token that follows each hypothesis."""

    log_probs: Float[Tensor, "batch beam vocab"]
    attention: Float[Tensor, "batch beam source"] | None = None  # to the source; only for a coverage penalty


@runtime_checkable  # so that the test run can check that a model is one
class NextTokenModel(Protocol[Cache]):
    """The model interface that the search needs. Every call consumes its cache and returns the next one."""

    def start(self, sentences: Sequence[int], rows: Sequence[int], cache: Cache | None) -> Cache:
        """Encodes sentences and puts them, with no token yet, into rows of the cache, or of a new one if it is None.

        Args:
            rows: Free rows of the cache, or rows after its last one, by which it grows.
        """
        ...

    def step(self, last_ids: Int[Tensor, "batch beam"], cache: Cache) -> tuple[NextTokens, Cache]:
        """Predicts the token that follows `last_ids`."""
        ...

    def reorder(self, cache: Cache, beam_indices: Int[Tensor, "batch beam"]) -> Cache:
        """Reorders the cache: each hypothesis continues the one in the slot that its index names, in its sentence."""
        ...

    def select_rows(self, cache: Cache, rows: Sequence[int]) -> Cache:
        """Keeps only these rows."""
        ...


LogitsProcessor = Callable[[NextTokenScores, BeamState], NextTokenScores]
"""Lowers the scores of some next tokens, down to -inf for a forbidden one, and returns the processed scores.

It never raises a score, since `Scoring.upper_bound` relies on that. Tokens may be forbidden in place; any other change
is made in a copy, because the search also reports the model's own log-probabilities. The contents of `state.ids` after
a hypothesis's length are left over from earlier steps and must not be read; a slot without a hypothesis may get any
scores. A hypothesis whose tokens are all forbidden ends there.
"""


OnStep = Callable[[int, list[int]], object]
"""Is called with a sentence's number and the tokens of its best open hypothesis so far, in its first group."""


class SearchSettings(NamedTuple):
    """How to search; the same for all sentences."""

    beam_size: int
    scoring: Scoring
    start_id: int
    end_id: int
    num_best: int = 1  # how many of a sentence's hypotheses are guaranteed to be the beam's best
    num_groups: int = 1  # the beam is divided among them; see `DiverseGroups`
    num_open: int = 1  # slots of each group that hold a hypothesis at first
    select_candidates: SelectCandidates = select_best
    processors: tuple[LogitsProcessor, ...] = ()
    has_coverage: bool = False


@dataclasses.dataclass
class BeamSearch(Generic[Cache]):
    """Searches for the translations of sentences, which are identified by number.

    Sentences that are searched together have a row each in the model's cache, and in the state a row for each group.

    Args:
        source_lengths: Source tokens of each sentence, the end symbol included.
        max_lengths: The most tokens that each translation may have, the end symbol included.
        max_tokens: Source tokens at once, padding included, times the beam size; one sentence is always searched.
        start_ids: The symbol that each translation begins with, such as the tag of a language; empty: the start symbol.
    """

    model: NextTokenModel[Cache]
    settings: SearchSettings
    _: dataclasses.KW_ONLY
    source_lengths: Sequence[int]
    max_lengths: Sequence[int]
    max_tokens: int
    start_ids: Sequence[int] = ()
    device: torch.device = torch.device("cpu")  # not a tensor, and never changed

    def __post_init__(self) -> None:
        self.sentences: dict[int, int] = {}  # by row; the other rows are free
        self.state = self._start_state([])
        # In a sentence, the slots of a group follow those of the group before it.
        size = self.settings.beam_size // self.settings.num_groups
        self.first_slots = torch.arange(self.settings.beam_size, device=self.device) // size * size
        self.cache: Cache

    @torch.inference_mode()
    def run(
        self, order: Sequence[int], *, is_stopped: Callable[[], bool] = lambda: False, on_step: OnStep | None = None
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Search the sentences.

        Args:
            order: Their numbers. Neighbours of similar source lengths, the longest first, waste least.
            is_stopped: Is asked before each step; true ends the search.
            on_step: Shows the hypotheses as they grow. Those of greedy search only grow; a beam may change its mind.

        Yields:
            The number of a sentence and its hypotheses, the best score first, as soon as they are certain. A sentence
            has no hypotheses if every token is forbidden, or if the model's log-probabilities are not numbers.
        """
        waiting = deque(order)
        while (waiting or self.sentences) and not is_stopped():
            if waiting and len(self.sentences) * JOINING_SHARE <= self.num_rows * (JOINING_SHARE - 1):
                self._admit(waiting)
            elif not waiting and len(self.sentences) * 2 <= self.num_rows:
                rows = list(self.sentences)
                self.cache = self.model.select_rows(self.cache, rows)
                self.state = self.state.select_rows(self._on_device(self._state_rows(rows)))
                self.sentences = dict(enumerate(self.sentences.values()))
            yield from self.step()
            if on_step is not None:
                state = self.state
                best, lengths, ids = copy_to_host(state.cumulative_scores.argmax(dim=1), state.lengths, state.ids)
                for row, sentence in self.sentences.items():
                    first = row * self.settings.num_groups
                    on_step(sentence, ids[first, best[first], 1 : lengths[first] + 1].tolist())

    @property
    def num_rows(self) -> int:
        """Rows of the model's cache, including free ones."""
        return len(self.state.lengths) // self.settings.num_groups

    def _admit(self, waiting: deque[int]) -> None:
        """Start as many of the waiting sentences as there is room for."""
        longest = max(self.source_lengths[sentence] for sentence in (waiting[0], *self.sentences.values()))
        most = self.max_tokens // (longest * self.settings.beam_size)
        if (most - self.num_rows) * JOINING_SHARE < self.num_rows:
            most = min(most, self.num_rows)  # a few more rows would copy the cache and change the size of all products
        room = most - len(self.sentences)
        new = [waiting.popleft() for _ in range(min(len(waiting), max(room, 0 if self.sentences else 1)))]
        if not new:
            return
        if not self.sentences:
            self.state = self._start_state([])
        free = [row for row in range(self.num_rows) if row not in self.sentences][: len(new)]
        rows = [*free, *range(self.num_rows, self.num_rows + len(new) - len(free))]
        self.cache = self.model.start(new, rows, self.cache if self.sentences else None)
        self.state = self.state.insert(self._state_rows(rows), self._start_state(new))
        self.sentences |= dict(zip(rows, new, strict=True))

    def step(self) -> list[tuple[int, list[Hypothesis]]]:
        """Extend every hypothesis by one token; return the sentences that are now finished, with their hypotheses."""
        settings, state = self.settings, self.state

        # Model step: the log-probability of each token after each hypothesis.
        last_ids = state.last_ids.view(self.num_rows, settings.beam_size)
        (log_probs, attention), self.cache = self.model.step(last_ids, self.cache)
        log_probs = log_probs.view(*state.cumulative_scores.shape, -1)
        if attention is not None:
            attention = attention.view(*state.cumulative_scores.shape, -1)

        # Logits processors: what each token adds to the score of its hypothesis, -inf where it is forbidden.
        scores = log_probs
        for processor in settings.processors:
            scores = processor(scores, state)

        # Candidate selection: the continuations that take the open slots of each sentence.
        candidates = settings.select_candidates(state, scores)

        # State update: hypotheses grow by a token, and those that end are moved to the finished ones.
        self.state = update_state(
            state, candidates, log_probs, end_id=settings.end_id, scoring=settings.scoring, attention=attention
        )

        # Cache: each hypothesis gets the keys and values of the one that it continues.
        slots = self.state.parents.reshape(self.num_rows, -1) + self.first_slots
        self.cache = self.model.reorder(self.cache, slots)

        # Finished hypotheses: sentences whose best ones are certain leave the batch. Only here does the host wait
        # for the device: it needs to know which sentences they are.
        return self._remove_finished()

    def _remove_finished(self) -> list[tuple[int, list[Hypothesis]]]:
        settings = self.settings
        done = is_done(self.state, scoring=settings.scoring, num_best=settings.num_best)
        is_left = done.view(-1, settings.num_groups).all(dim=1).tolist()
        rows = [row for row in range(self.num_rows) if is_left[row] and row in self.sentences]
        if not rows:
            return []
        state_rows = self._on_device(self._state_rows(rows))
        left = BeamState(*copy_to_host(*self.state.select_rows(state_rows)))
        is_broken = left.cumulative_scores.isnan().view(len(rows), -1).any(dim=1).tolist()
        self.state.cumulative_scores.index_fill_(0, state_rows, -math.inf)
        of_groups = iter(finished_hypotheses(left))
        found = []
        for row, broken in zip(rows, is_broken, strict=True):
            hypotheses = list(chain.from_iterable(islice(of_groups, settings.num_groups)))
            if settings.num_groups > 1:  # a hypothesis found by several groups counts once
                distinct = {(tuple(each.ids), each.truncated): each for each in hypotheses}
                hypotheses = sorted(distinct.values(), key=lambda hypothesis: -hypothesis.score)
            found.append((self.sentences.pop(row), [] if broken else hypotheses))
        return found

    def _start_state(self, sentences: Sequence[int]) -> BeamState:
        settings = self.settings
        start_ids = self.start_ids or [settings.start_id] * len(self.max_lengths)
        facts = (self.max_lengths, self.source_lengths, start_ids)
        about = [[each, *(fact[each] for fact in facts)] for each in sentences]
        about_rows = self._on_device(about).view(-1, 4).repeat_interleave(settings.num_groups, dim=0)
        numbers, max_lengths, lengths, starts = about_rows.unbind(dim=1)
        state = start_beam(
            max_lengths,
            beam_size=settings.beam_size // settings.num_groups,
            capacity=max(self.max_lengths),
            start_id=starts,
            sentences=numbers,
            num_open=settings.num_open,
            source_length=max(self.source_lengths) if settings.has_coverage else 0,
        )
        if settings.has_coverage:  # padding counts as covered
            positions = torch.arange(state.coverage.shape[2], device=self.device)
            state.coverage.masked_fill_((positions >= lengths[:, None])[:, None], 1.0)
        return state

    def _state_rows(self, rows: Sequence[int]) -> list[int]:
        """The state's rows of these sentences: one for each group."""
        groups = self.settings.num_groups
        return [row * groups + group for row in rows for group in range(groups)]

    def _on_device(self, numbers: Sequence[int] | Sequence[Sequence[int]]) -> Int[Tensor, "*shape"]:
        return copy_to_device(torch.tensor(numbers, dtype=torch.long), self.device)
