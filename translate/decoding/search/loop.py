"""The search: sentences are decoded together, token by token, and a finished one makes room for the next.

`BeamSearch.step` shows one step of beam search, in order. New sentences are put into free rows without moving the
others: each sentence has its own length, in the state and in the model's cache.
"""

import dataclasses
import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
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


@runtime_checkable  # so that the test run can check that a model is one
class NextTokenModel(Protocol[Cache]):
    """The model interface that the search needs. Every call consumes its cache and returns the next one."""

    def start(self, sentences: Sequence[int], rows: Sequence[int], cache: Cache | None) -> Cache:
        """Encodes sentences and puts them, with no token yet, into rows of the cache, or of a new one if it is None.

        Args:
            rows: Free rows of the cache, or rows after its last one, by which it grows.
        """
        ...

    def step(
        self, last_ids: Int[Tensor, "batch beam"], cache: Cache
    ) -> tuple[Float[Tensor, "batch beam vocab"], Cache]:
        """The log-probabilities of the token that follows `last_ids`."""
        ...

    def reorder(self, cache: Cache, beam_indices: Int[Tensor, "batch beam"]) -> Cache:
        """Moves hypotheses in the cache: slot b of each sentence continues what was in its slot `beam_indices[b]`."""
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
"""Receives a sentence's number and the tokens of its best open hypothesis so far."""


class SearchSettings(NamedTuple):
    """How to search; the same for all sentences."""

    beam_size: int
    scoring: Scoring
    start_id: int
    end_id: int
    num_best: int = 1  # how many of a sentence's hypotheses are guaranteed to be the beam's best
    num_open: int = 1  # slots that hold a hypothesis at first
    select_candidates: SelectCandidates = select_best
    processors: tuple[LogitsProcessor, ...] = ()


@dataclasses.dataclass
class BeamSearch(Generic[Cache]):
    """Searches for the translations of sentences, which are identified by number.

    Sentences that are searched together have a row each, the same in the model's cache as in the state.

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
        self.cache: Cache

    @torch.inference_mode()
    def run(
        self, order: Sequence[int], *, is_stopped: Callable[[], bool] = lambda: False, on_step: OnStep | None = None
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Search the sentences.

        Args:
            order: Their numbers: the longest source first, so that neighbours have similar lengths and need little
                padding.
            is_stopped: Called before each step; True ends the search.
            on_step: Shows the hypotheses as they grow. With greedy search they only grow; a beam may change its mind.

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
                self.state = self.state.select_rows(self._on_device(rows))
                self.sentences = dict(enumerate(self.sentences.values()))
            yield from self.step()
            if on_step is not None:
                state = self.state
                best, lengths, ids = copy_to_host(state.cumulative_scores.argmax(dim=1), state.lengths, state.ids)
                for row, sentence in self.sentences.items():
                    on_step(sentence, ids[row, best[row], 1 : lengths[row] + 1].tolist())

    @property
    def num_rows(self) -> int:
        """Rows of the batch, including free ones."""
        return len(self.state.lengths)

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
        self.state = self.state.insert(rows, self._start_state(new))
        self.sentences |= dict(zip(rows, new, strict=True))

    def step(self) -> list[tuple[int, list[Hypothesis]]]:
        """Extend every hypothesis by one token; return the sentences that are now finished, with their hypotheses."""
        settings, state = self.settings, self.state

        # Model step: the log-probability of each token after each hypothesis.
        log_probs, self.cache = self.model.step(state.last_ids, self.cache)

        # Logits processors: what each token adds to the score of its hypothesis, -inf where it is forbidden.
        scores = log_probs
        for processor in settings.processors:
            scores = processor(scores, state)

        # Candidate selection: the continuations that take the open slots of each sentence.
        candidates = settings.select_candidates(state, scores)

        # State update: hypotheses grow by a token, and those that end are moved to the finished ones.
        self.state = update_state(state, candidates, log_probs, end_id=settings.end_id, scoring=settings.scoring)

        # Cache: each hypothesis gets the keys and values of the one that it continues.
        self.cache = self.model.reorder(self.cache, self.state.parents)

        # Finished hypotheses: sentences whose best ones are certain leave the batch. Only here does the host wait
        # for the device: it needs to know which sentences they are.
        return self._remove_finished()

    def _remove_finished(self) -> list[tuple[int, list[Hypothesis]]]:
        done = is_done(self.state, scoring=self.settings.scoring, num_best=self.settings.num_best).tolist()
        rows = [row for row in range(self.num_rows) if done[row] and row in self.sentences]
        if not rows:
            return []
        left_rows = self._on_device(rows)
        left = BeamState(*copy_to_host(*self.state.select_rows(left_rows)))
        self.state.cumulative_scores.index_fill_(0, left_rows, -math.inf)
        is_broken = left.cumulative_scores.isnan().any(dim=1).tolist()
        return [
            (self.sentences.pop(row), [] if broken else hypotheses)
            for row, broken, hypotheses in zip(rows, is_broken, finished_hypotheses(left), strict=True)
        ]

    def _start_state(self, sentences: Sequence[int]) -> BeamState:
        settings = self.settings
        start_ids = self.start_ids or [settings.start_id] * len(self.max_lengths)
        facts = [[sentence, self.max_lengths[sentence], start_ids[sentence]] for sentence in sentences]
        numbers, max_lengths, starts = self._on_device(facts).view(-1, 3).unbind(dim=1)
        return start_beam(
            max_lengths,
            beam_size=settings.beam_size,
            capacity=max(self.max_lengths),
            start_id=starts,
            sentences=numbers,
            num_open=settings.num_open,
        )

    def _on_device(self, numbers: Sequence[int] | Sequence[Sequence[int]]) -> Int[Tensor, "*shape"]:
        return copy_to_device(torch.tensor(numbers, dtype=torch.long), self.device)
