"""The loop around the pure step: sentences are searched together, and whoever is decided makes place for the next.

So that a batch stays full, a sentence that is decided leaves its row, and new ones are put into the rows that have
become free, without moving those that go on: each sentence has its own length, in the state and in the model's cache.
"""

import math
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from translate.decoding.processors.rules import Rule
from translate.decoding.search.beam import (
    BeamState,
    Choose,
    Hypothesis,
    advance_beam,
    choose_best,
    finished_hypotheses,
    is_decided,
    start_beam,
)
from translate.decoding.search.scoring import Scoring

Carry = TypeVar("Carry")

JOINING_SHARE = 8  # new sentences join as soon as one row in so many is free: each joining costs an encoder call


class NextTokens(NamedTuple):
    """What a model says about the next token of each hypothesis."""

    log_probs: Float[Tensor, "batch beam columns"]
    ids: Int[Tensor, " columns"] | None = None  # the token of each column; None: column i is token i
    attention: Float[Tensor, "batch beam source"] | None = None  # to the source; only if it was asked for


@runtime_checkable  # so that the test run can check that a model is one
class NextTokenModel(Protocol[Carry]):
    """What search asks of a model. A carry is used up by the call that returns the next one."""

    def start(self, sentences: Sequence[int]) -> Carry:
        """What to carry for these sentences, with no token yet."""
        ...

    def advance(self, last_ids: Int[Tensor, "batch beam"], carry: Carry) -> tuple[NextTokens, Carry]:
        """Log-probabilities of the token after `last_ids`, and what to carry to the next step."""
        ...

    def follow(self, carry: Carry, parents: Int[Tensor, "batch beam"]) -> Carry:
        """The carry when each hypothesis continues the one in the named slot of its sentence."""
        ...

    def extend(self, carry: Carry, num_rows: int) -> Carry:
        """The carry with more rows, for new sentences to be placed in."""
        ...

    def place(self, carry: Carry, rows: Int[Tensor, " new_batch"], new: Carry) -> Carry:
        """The carry with newly started sentences in rows that others have left."""
        ...

    def select(self, carry: Carry, rows: Int[Tensor, " new_batch"]) -> Carry:
        """The carry of these rows alone."""
        ...


class Plan(NamedTuple):
    """How to search; the same for all sentences."""

    beam_size: int
    scoring: Scoring
    start_id: int
    end_id: int
    vocab_size: int
    num_best: int = 1  # so many hypotheses are surely the best of all that the beam would ever finish
    num_groups: int = 1  # the beam is divided among them; see `diverse.py`
    num_open: int = 1  # slots of a group that are open at first
    choose: Choose = choose_best
    rules: tuple[Rule, ...] = ()
    has_coverage: bool = False


class Sentences(NamedTuple):
    """What is to be searched, by sentence number."""

    source_lengths: Sequence[int]  # tokens, the end symbol included
    max_lengths: Sequence[int]  # generated tokens at most, the end symbol included


class Found(NamedTuple):
    """One sentence's result."""

    sentence: int
    hypotheses: list[Hypothesis]  # the best score first; none if the model leaves none, or says what is no number


def search(
    model: NextTokenModel[Carry],
    sentences: Sentences,
    plan: Plan,
    *,
    order: Sequence[int],
    max_tokens: int,
    device: torch.device | None = None,
) -> Iterator[Found]:
    """The finished hypotheses of each sentence, as soon as they are decided.

    Args:
        order: The sentences to search. Neighbours of like source lengths, the longest first, waste least.
        max_tokens: Source tokens at once, padding counted, times the beam size; one sentence is always searched.
    """
    pool = _Pool(model, sentences, plan, max_tokens=max_tokens, device=device)
    waiting = deque(order)
    while waiting or pool.live:
        if waiting and len(pool.live) * JOINING_SHARE <= pool.num_rows * (JOINING_SHARE - 1):
            pool.admit(waiting)
        elif not waiting and len(pool.live) * 2 <= pool.num_rows:
            pool.shrink()
        yield from pool.step()


class _Pool(Generic[Carry]):
    """The sentences being searched together. A row is a sentence's place; those not in `live` are free."""

    def __init__(
        self,
        model: NextTokenModel[Carry],
        sentences: Sentences,
        plan: Plan,
        *,
        max_tokens: int,
        device: torch.device | None,
    ) -> None:
        self.model, self.sentences, self.plan = model, sentences, plan
        self.max_tokens = max_tokens
        self.device = device
        self.live: dict[int, int] = {}  # row: sentence
        self.numbers = torch.zeros(0, dtype=torch.long, device=device)  # the sentence of each row and group
        self.max_lengths = torch.zeros(0, dtype=torch.long, device=device)  # likewise
        self.state: BeamState
        self.carry: Carry

    @property
    def num_rows(self) -> int:
        return len(self.numbers) // self.plan.num_groups

    def admit(self, waiting: deque[int]) -> None:
        """Let as many of the waiting sentences in as there is room for."""
        lengths = self.sentences.source_lengths
        longest = max((lengths[sentence] for sentence in self.live.values()), default=1)
        room = self.max_tokens // (max(longest, lengths[waiting[0]]) * self.plan.beam_size) - len(self.live)
        new = [waiting.popleft() for _ in range(min(len(waiting), max(room, 0 if self.live else 1)))]
        if not new:
            return
        carry, state = self.model.start(new), self._start_state(new)
        if not self.live:
            self.carry, self.state = carry, state
            rows = list(range(len(new)))
            self.numbers, self.max_lengths = (self.state.lengths.new_zeros(len(state.ids)) for _ in range(2))
        else:
            rows = [row for row in range(self.num_rows) if row not in self.live][: len(new)]
            if len(rows) < len(new):
                rows += self._extend(len(new) - len(rows))
            places = torch.tensor(rows, device=self.device)
            self.carry = self.model.place(self.carry, places, carry)
            grouped = self._grouped(places)
            for old, fresh in zip(self.state, state, strict=True):
                old[grouped] = fresh
        grouped = self._grouped(torch.tensor(rows, device=self.device))
        numbers = torch.tensor(new, device=self.device).repeat_interleave(self.plan.num_groups)
        limits = torch.tensor([self.sentences.max_lengths[sentence] for sentence in new], device=self.device)
        self.numbers[grouped] = numbers
        self.max_lengths[grouped] = limits.repeat_interleave(self.plan.num_groups)
        self.live |= dict(zip(rows, new, strict=True))

    def shrink(self) -> None:
        """Take the free rows away."""
        rows = torch.tensor(list(self.live), device=self.device)
        self.carry = self.model.select(self.carry, rows)
        grouped = self._grouped(rows)
        self.state = BeamState(*(part[grouped] for part in self.state))
        self.numbers, self.max_lengths = self.numbers[grouped], self.max_lengths[grouped]
        self.live = dict(enumerate(self.live.values()))

    def step(self) -> list[Found]:
        """One more token for every hypothesis; and the sentences that this decides."""
        plan, state = self.plan, self.state
        tokens, self.carry = self.model.advance(state.last_ids.view(self.num_rows, plan.beam_size), self.carry)
        log_probs, ids = tokens.log_probs, tokens.ids
        if ids is not None and (plan.rules or plan.choose is not choose_best):  # these know tokens, not columns
            log_probs = log_probs.new_full((*log_probs.shape[:2], plan.vocab_size), -math.inf)
            log_probs, ids = log_probs.index_copy_(2, ids, tokens.log_probs), None
        log_probs = log_probs.view(*state.totals.shape, -1)
        added = log_probs.clone() if any(rule.penalizes for rule in plan.rules) else log_probs
        for rule in plan.rules:
            added = rule.apply(added, state, self.numbers)
        self.state, parents = advance_beam(
            state,
            log_probs,
            max_lengths=self.max_lengths,
            end_id=plan.end_id,
            scoring=plan.scoring,
            sentences=self.numbers,
            choose=plan.choose,
            added=added,
            ids=ids,
            attention=self._coverage(tokens.attention),
        )
        if plan.beam_size > 1:
            width = plan.beam_size // plan.num_groups
            first_slots = torch.arange(plan.num_groups, device=self.device)[:, None] * width
            slots = parents.view(self.num_rows, plan.num_groups, width) + first_slots
            self.carry = self.model.follow(self.carry, slots.flatten(1))
        return self._leave()

    def _leave(self) -> list[Found]:
        """Free the rows of the sentences that are decided."""
        plan = self.plan
        decided = is_decided(self.state, max_lengths=self.max_lengths, scoring=plan.scoring, num_best=plan.num_best)
        decided = decided.view(-1, plan.num_groups).all(dim=1)
        rows = [row for row in decided.nonzero()[:, 0].tolist() if row in self.live]
        if not rows:
            return []
        grouped = self._grouped(torch.tensor(rows, device=self.device))
        groups = iter(finished_hypotheses(BeamState(*(part[grouped] for part in self.state))))
        is_broken = self.state.totals[grouped].isnan().view(len(rows), -1).any(dim=1).tolist()
        self.state.totals[grouped] = -math.inf
        found = []
        for row, broken in zip(rows, is_broken, strict=True):
            hypotheses = _merged([next(groups) for _ in range(plan.num_groups)])
            found.append(Found(self.live.pop(row), [] if broken else hypotheses))
        return found

    def _start_state(self, sentences: Sequence[int]) -> BeamState:
        plan = self.plan
        state = start_beam(
            len(sentences) * plan.num_groups,
            beam_size=plan.beam_size // plan.num_groups,
            capacity=max(self.sentences.max_lengths),
            start_id=plan.start_id,
            num_open=plan.num_open,
            source_length=max(self.sentences.source_lengths) if plan.has_coverage else 0,
            device=self.device,
        )
        if plan.has_coverage:
            lengths = torch.tensor([self.sentences.source_lengths[sentence] for sentence in sentences])
            is_padding = torch.arange(state.coverage.shape[2]) >= lengths.repeat_interleave(plan.num_groups)[:, None]
            state.coverage.masked_fill_(is_padding[:, None].to(state.coverage.device), 1.0)
        return state

    def _extend(self, num_rows: int) -> list[int]:
        """Add rows, and name them."""
        first = self.num_rows
        self.carry = self.model.extend(self.carry, num_rows)
        more = self._start_state([0] * num_rows)  # until sentences are placed there
        self.state = BeamState(*(torch.cat(parts) for parts in zip(self.state, more, strict=True)))
        zeros = self.numbers.new_zeros(num_rows * self.plan.num_groups)
        self.numbers, self.max_lengths = torch.cat((self.numbers, zeros)), torch.cat((self.max_lengths, zeros))
        return list(range(first, first + num_rows))

    def _grouped(self, rows: Tensor) -> Tensor:
        """The state's rows of sentences' rows: one for each group."""
        groups = self.plan.num_groups
        return (rows[:, None] * groups + torch.arange(groups, device=self.device)).flatten()

    def _coverage(self, attention: Tensor | None) -> Tensor | None:
        """Attention as wide as the state's coverage; padding counts as covered."""
        if attention is None:
            return None
        missing = self.state.coverage.shape[2] - attention.shape[2]
        return torch.nn.functional.pad(attention, (0, missing)).view(*self.state.totals.shape, -1)


def _merged(groups: list[list[Hypothesis]]) -> list[Hypothesis]:
    """The hypotheses of a sentence's groups, the best score first; found by several groups, it counts once."""
    if len(groups) == 1:
        return groups[0]
    distinct = {(tuple(each.ids), each.truncated): each for group in groups for each in group}
    return sorted(distinct.values(), key=lambda hypothesis: -hypothesis.score)
