"""Beam search as a pure step `(state, log_probs) -> state`; `search.py` has the loop. Beam size 1 is greedy search.

A sentence has `beam` slots. At each step its open slots take the best continuations; one that ends with the end
symbol is banked, never to change again, and keeps its slot; the others go on. So a beam of 1 stops where greedy search
stops, and the search ends when every slot holds a finished hypothesis, or when no open one can still win.

Which continuations are taken is a function, `choose`: the best ones, here; others sample or keep constraints.

Shapes: batch sentences, beam slots each; each sentence has its own length, so that new ones can join at any step.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from translate.decoding.search.scoring import Scoring
from translate.decoding.search.topk import largest


class Hypothesis(NamedTuple):
    """A finished translation, as ids."""

    ids: list[int]  # without start and end symbol
    token_log_probs: list[float]  # nats, of each id and of the end symbol, if the search came to it
    score: float  # what it was ranked by: see `Scoring`
    truncated: bool  # it reached its maximum length without an end symbol

    @property
    def log_prob(self) -> float:
        """The model's log-probability in nats, before any penalty."""
        return math.fsum(self.token_log_probs)


class BeamState(NamedTuple):
    """All hypotheses of a batch. Capacity is the longest maximum length and the start symbol."""

    ids: Int[Tensor, "batch beam capacity"]  # of open hypotheses: the start symbol, then what was generated
    token_log_probs: Float[Tensor, "batch beam capacity"]  # the model's, of each id; 0 for the start symbol
    totals: Float[Tensor, "batch beam"]  # what open hypotheses are ranked by; -inf: none in this slot
    lengths: Int[Tensor, " batch"]  # generated tokens of the open hypotheses
    coverage: Float[Tensor, "batch beam source"]  # attention summed over the target; no source if not asked for
    finished_ids: Int[Tensor, "batch beam capacity"]
    finished_token_log_probs: Float[Tensor, "batch beam capacity"]
    finished_scores: Float[Tensor, "batch beam"]  # -inf: none in this slot
    finished_lengths: Int[Tensor, "batch beam"]  # generated tokens, the end symbol included
    finished_truncated: Bool[Tensor, "batch beam"]

    @property
    def num_finished(self) -> Int[Tensor, " batch"]:
        """Slots that hold a finished hypothesis."""
        return (self.finished_scores > -math.inf).sum(dim=1)

    @property
    def last_ids(self) -> Int[Tensor, "batch beam"]:
        """The newest token of each open hypothesis."""
        index = self.lengths[:, None, None].expand(-1, self.ids.shape[1], 1)
        return self.ids.gather(2, index)[:, :, 0]


class Choice(NamedTuple):
    """Continuations of open hypotheses, at most as many for a sentence as it has open slots."""

    totals: Float[Tensor, "batch beam"]  # -inf: no continuation in this slot
    parents: Int[Tensor, "batch beam"]  # the slot that each one continues
    tokens: Int[Tensor, "batch beam"]


Choose = Callable[[BeamState, Float[Tensor, "batch beam vocab"], Int[Tensor, " batch"]], Choice]
"""Picks continuations, given what each next token adds to the total of its hypothesis (-inf: not allowed), and which
sentence each one of the batch is, for those that know more about a sentence."""


class Step(NamedTuple):
    """A step's result."""

    state: BeamState
    parents: Int[Tensor, "batch beam"]  # the slot that each open hypothesis continues


def start_beam(
    batch: int,
    *,
    beam_size: int,
    capacity: int,
    start_id: int,
    num_open: int = 1,
    source_length: int = 0,
    device: torch.device | None = None,
) -> BeamState:
    """Hypotheses of the start symbol alone.

    Args:
        capacity: The longest maximum length.
        num_open: Slots that are open at first: one, or all where each goes its own way.
        source_length: Positions of the coverage; 0: none is kept.
    """
    totals = torch.full((batch, beam_size), -math.inf, device=device)
    totals[:, :num_open] = 0.0
    ids = torch.full((batch, beam_size, capacity + 1), start_id, device=device)
    token_log_probs = torch.zeros((batch, beam_size, capacity + 1), device=device)
    return BeamState(
        ids=ids,
        token_log_probs=token_log_probs,
        totals=totals,
        lengths=torch.zeros(batch, dtype=torch.long, device=device),
        coverage=torch.zeros((batch, beam_size, source_length), device=device),
        finished_ids=ids.clone(),
        finished_token_log_probs=token_log_probs.clone(),
        finished_scores=torch.full((batch, beam_size), -math.inf, device=device),
        finished_lengths=torch.zeros((batch, beam_size), dtype=torch.long, device=device),
        finished_truncated=torch.zeros((batch, beam_size), dtype=torch.bool, device=device),
    )


def choose_best(state: BeamState, added: Float[Tensor, "batch beam vocab"], sentences: Int[Tensor, " batch"]) -> Choice:
    """The continuations with the greatest totals, the best first."""
    beam, vocab = added.shape[1:]
    totals, flat = largest(added, beam, offsets=state.totals)
    # Finished hypotheses keep their slots: only as many go on as are open.
    is_free = torch.arange(beam, device=totals.device) < (beam - state.num_finished)[:, None]
    return Choice(totals.masked_fill(~is_free, -math.inf), flat // vocab, flat % vocab)


def advance_beam(
    state: BeamState,
    log_probs: Float[Tensor, "batch beam vocab"],
    *,
    max_lengths: Int[Tensor, " batch"],
    end_id: int,
    scoring: Scoring,
    sentences: Int[Tensor, " batch"] | None = None,
    choose: Choose = choose_best,
    added: Float[Tensor, "batch beam vocab"] | None = None,
    ids: Int[Tensor, " vocab"] | None = None,
    attention: Float[Tensor, "batch beam source"] | None = None,
) -> Step:
    """Let each sentence's open slots take continuations, and bank those that end.

    Args:
        log_probs: The model's, of the next token after each open hypothesis.
        max_lengths: Generated tokens at most, the end symbol included; a hypothesis that gets there is banked as it is.
        sentences: What `choose` is told; None: their places in the batch.
        added: What a token adds to the total, where that is not its log-probability.
        ids: The token that each column of `log_probs` is, where it is not the column's number.
        attention: Of the next token to each source position; needed for a coverage penalty alone.
    """
    beam, capacity = state.ids.shape[1:]
    if sentences is None:
        sentences = torch.arange(len(state.ids), device=state.ids.device)
    totals, parents, tokens = choose(state, log_probs if added is None else added, sentences)
    new_log_probs = log_probs.flatten(1).gather(1, parents * log_probs.shape[2] + tokens)
    tokens = tokens if ids is None else ids[tokens]

    # A row that its sentence has left goes on until another takes it: it must only stay within the capacity.
    lengths = (state.lengths + 1).clamp(max=capacity - 1)

    def follow(history: Tensor, new: Tensor) -> Tensor:
        followed = history if beam == 1 else history.gather(1, parents[:, :, None].expand(-1, -1, capacity))
        position = lengths[:, None, None].expand(-1, beam, 1)
        return followed.scatter(2, position, new[:, :, None])

    coverage = state.coverage
    if attention is not None:
        coverage = (coverage + attention).gather(1, parents[:, :, None].expand_as(coverage))
    ends = tokens == end_id
    finishes = (totals > -math.inf) & (ends | (lengths >= max_lengths)[:, None])
    new = state._replace(
        ids=follow(state.ids, tokens),
        token_log_probs=follow(state.token_log_probs, new_log_probs),
        totals=totals,
        lengths=lengths,
        coverage=coverage,
    )
    if finishes.any():
        new = _bank(new, finishes, truncated=~ends, scoring=scoring)
    return Step(new, parents)


def _bank(
    state: BeamState, finishes: Bool[Tensor, "batch beam"], *, truncated: Bool[Tensor, "batch beam"], scoring: Scoring
) -> BeamState:
    """Move hypotheses to the finished ones of their sentence, into its next free slots."""
    beam = finishes.shape[1]
    # Anything that does not finish goes to an extra slot, which is cut off.
    slots = torch.where(finishes, state.num_finished[:, None] + finishes.cumsum(dim=1) - 1, beam)
    lengths = state.lengths[:, None].expand(-1, beam)

    def put(old: Tensor, new: Tensor) -> Tensor:
        extended = torch.cat((old, old[:, :1]), dim=1)
        index = slots if new.dim() == 2 else slots[:, :, None].expand_as(new)
        return extended.scatter(1, index, new)[:, :beam]

    scores = scoring.score(state.totals, lengths, state.coverage if state.coverage.shape[2] else None)
    return state._replace(
        totals=state.totals.masked_fill(finishes, -math.inf),
        finished_ids=put(state.finished_ids, state.ids),
        finished_token_log_probs=put(state.finished_token_log_probs, state.token_log_probs),
        finished_scores=put(state.finished_scores, scores),
        finished_lengths=put(state.finished_lengths, lengths),
        finished_truncated=put(state.finished_truncated, truncated),
    )


def is_decided(
    state: BeamState, *, max_lengths: Int[Tensor, " batch"], scoring: Scoring, num_best: int = 1
) -> Bool[Tensor, " batch"]:
    """Whether no open hypothesis can still come among the `num_best` best; safe by `Scoring.upper_bound`.

    A total that is not a number decides too: nothing that comes after it can be compared.
    """
    if num_best == 1:
        worst_kept = state.finished_scores.amax(dim=1)
    else:
        worst_kept = state.finished_scores.topk(min(num_best, state.totals.shape[1]), dim=1).values[:, -1]
    return ~(worst_kept < scoring.upper_bound(state.totals.amax(dim=1), max_lengths))


def finished_hypotheses(state: BeamState) -> list[list[Hypothesis]]:
    """The finished hypotheses of each sentence, the best score first."""
    results = []
    fields = (
        state.finished_ids,
        state.finished_token_log_probs,
        state.finished_scores,
        state.finished_lengths,
        state.finished_truncated,
    )
    for ids, log_probs, scores, lengths, truncated in zip(*(field.tolist() for field in fields), strict=True):
        found = [
            Hypothesis(ids[slot][1 : length + truncated[slot]], log_probs[slot][1 : length + 1], score, truncated[slot])
            for slot, (length, score) in enumerate(zip(lengths, scores, strict=True))
            if length > 0
        ]
        results.append(sorted(found, key=lambda hypothesis: -hypothesis.score))
    return results
