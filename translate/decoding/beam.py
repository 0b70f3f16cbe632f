"""Beam search as a pure step `(state, log_probs) -> state` in a short loop. Beam size 1 is greedy search.

A sentence has `beam` slots. At each step its open slots take the best continuations; one that ends with the end
symbol is banked, never to change again, and keeps its slot; the others go on. So a beam of 1 stops where greedy search
stops, and the search ends when every slot holds a finished hypothesis, or when no open one can still win.

Shapes: batch sentences, beam slots each, rows = batch * beam.
"""

import math
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

Carry = TypeVar("Carry")


@runtime_checkable  # so that the test run can check that a model is one
class NextTokenModel(Protocol[Carry]):
    """What search asks of a model: the next token's log-probabilities, and to follow chosen hypotheses."""

    def advance(self, last_ids: Int[Tensor, " rows"], carry: Carry) -> tuple[Float[Tensor, "rows vocab"], Carry]:
        """Log-probabilities of the token after `last_ids`, and what to carry to the next step."""
        ...

    def select(
        self, carry: Carry, *, hypotheses: Int[Tensor, " new_rows"], sentences: Int[Tensor, " new_batch"] | None
    ) -> Carry:
        """The carry of chosen rows; `sentences`: those still searched, if not all are."""
        ...


class Hypothesis(NamedTuple):
    """A finished translation, as ids."""

    ids: list[int]  # without start and end symbol
    log_prob: float  # nats, of the ids and the end symbol
    score: float  # log_prob divided by the length penalty
    truncated: bool  # it reached its maximum length without an end symbol


class BeamState(NamedTuple):
    """All hypotheses of a batch. A slot without one has the log-probability -inf."""

    open_ids: Int[Tensor, "batch beam length"]  # from the start symbol on
    open_log_probs: Float[Tensor, "batch beam"]
    finished_ids: Int[Tensor, "batch beam capacity"]  # padded with the end symbol
    finished_log_probs: Float[Tensor, "batch beam"]
    finished_lengths: Int[Tensor, "batch beam"]  # generated tokens, the end symbol included
    finished_truncated: Bool[Tensor, "batch beam"]

    @property
    def num_finished(self) -> Int[Tensor, " batch"]:
        """Slots that hold a finished hypothesis."""
        return (self.finished_log_probs > -math.inf).sum(dim=1)


class Step(NamedTuple):
    """A step's result."""

    state: BeamState
    parents: Int[Tensor, "batch beam"]  # the slot that each open hypothesis continues


def length_penalty(length: Tensor, alpha: float) -> Tensor:
    """((5 + length) / 6)^alpha, by which a log-probability is divided; the end symbol counts as a token.

    Source: Wu et al. 2016, https://arxiv.org/abs/1609.08144, equation 14.
    """
    return ((5.0 + length) / 6.0) ** alpha


def start_beam(
    batch: int, *, beam_size: int, capacity: int, start_id: int, end_id: int, device: torch.device | None = None
) -> BeamState:
    """One open hypothesis a sentence, the start symbol; `capacity` is the longest maximum length of the batch."""
    open_log_probs = torch.full((batch, beam_size), -math.inf, device=device)
    open_log_probs[:, 0] = 0.0
    return BeamState(
        open_ids=torch.full((batch, beam_size, 1), start_id, device=device),
        open_log_probs=open_log_probs,
        finished_ids=torch.full((batch, beam_size, capacity), end_id, device=device),
        finished_log_probs=torch.full((batch, beam_size), -math.inf, device=device),
        finished_lengths=torch.zeros((batch, beam_size), dtype=torch.long, device=device),
        finished_truncated=torch.zeros((batch, beam_size), dtype=torch.bool, device=device),
    )


def advance_beam(
    state: BeamState,
    log_probs: Float[Tensor, "batch beam vocab"],
    *,
    max_lengths: Int[Tensor, " batch"],
    end_id: int,
) -> Step:
    """Let each sentence's open slots take the best continuations, and bank those that end.

    Args:
        log_probs: Of the next token after each open hypothesis.
        max_lengths: Generated tokens at most, the end symbol included; a hypothesis that gets there is banked as it is.
    """
    batch, beam, vocab = log_probs.shape
    length = state.open_ids.shape[2]  # generated tokens after this step: the start symbol is none
    totals = (state.open_log_probs[:, :, None] + log_probs).flatten(1)
    best, flat = totals.topk(beam, dim=1)
    parents, tokens = flat // vocab, flat % vocab

    num_open = beam - state.num_finished
    rank = torch.arange(beam, device=best.device)
    valid = (rank < num_open[:, None]) & (best > -math.inf)
    ends = tokens == end_id
    at_limit = (length >= max_lengths)[:, None]
    finishes = valid & (ends | at_limit)
    best = best.masked_fill(~valid, -math.inf)

    open_ids = torch.cat(
        (state.open_ids.gather(1, parents[:, :, None].expand(-1, -1, length)), tokens[:, :, None]), dim=2
    )
    # A newly finished hypothesis goes to its sentence's next free slot, anything else to an extra one that is cut off.
    free = state.num_finished[:, None] + finishes.cumsum(dim=1) - 1
    slots = torch.where(finishes, free, beam)

    def bank(old: Tensor, new: Tensor) -> Tensor:
        extended = torch.cat((old, old[:, :1]), dim=1)
        index = slots if new.dim() == 2 else slots[:, :, None].expand_as(new)
        return extended.scatter(1, index, new)[:, :beam]

    padded = torch.full((batch, beam, state.finished_ids.shape[2]), end_id, device=best.device)
    padded[:, :, :length] = open_ids[:, :, 1:]
    return Step(
        BeamState(
            open_ids=open_ids,
            open_log_probs=best.masked_fill(finishes, -math.inf),
            finished_ids=bank(state.finished_ids, padded),
            finished_log_probs=bank(state.finished_log_probs, best),
            finished_lengths=bank(state.finished_lengths, torch.full_like(tokens, length)),
            finished_truncated=bank(state.finished_truncated, ~ends),
        ),
        parents,
    )


def normalized_scores(state: BeamState, *, alpha: float) -> Float[Tensor, "batch beam"]:
    """Scores of the finished hypotheses; -inf in slots without one."""
    return state.finished_log_probs / length_penalty(state.finished_lengths.clamp(min=1), alpha)


def is_decided(state: BeamState, *, max_lengths: Int[Tensor, " batch"], alpha: float) -> Bool[Tensor, " batch"]:
    """Whether no open hypothesis can still become the best one.

    Safe, not heuristic: a log-probability only falls and the penalty is largest at the maximum length, so no
    continuation of an open hypothesis can score more than its log-probability so far divided by that largest penalty.
    """
    best_finished = normalized_scores(state, alpha=alpha).amax(dim=1)
    upper_bound = state.open_log_probs.amax(dim=1) / length_penalty(max_lengths, alpha)
    return best_finished >= upper_bound


def beam_search(
    model: NextTokenModel[Carry],
    carry: Carry,
    *,
    max_lengths: Int[Tensor, " batch"],
    beam_size: int,
    alpha: float,
    start_id: int,
    end_id: int,
) -> list[list[Hypothesis]]:
    """The finished hypotheses of each sentence, the best score first.

    The first is the best of all that the beam would ever have finished; the search may stop before others are.

    Args:
        carry: What the model begins with, for rows = batch * beam_size.
        max_lengths: Generated tokens at most for each sentence.
        alpha: Exponent of the length penalty.
    """
    batch = len(max_lengths)
    results: list[list[Hypothesis]] = [[] for _ in range(batch)]
    searched = torch.arange(batch, device=max_lengths.device)  # the sentences not decided yet
    state = start_beam(
        batch,
        beam_size=beam_size,
        capacity=int(max_lengths.max()),
        start_id=start_id,
        end_id=end_id,
        device=max_lengths.device,
    )
    while True:
        log_probs, carry = model.advance(state.open_ids[:, :, -1].flatten(), carry)
        state, parents = advance_beam(
            state, log_probs.view(-1, beam_size, log_probs.shape[1]), max_lengths=max_lengths, end_id=end_id
        )
        decided = is_decided(state, max_lengths=max_lengths, alpha=alpha)
        keep = None
        if decided.any():
            for row in decided.nonzero()[:, 0].tolist():
                results[int(searched[row])] = _sorted_hypotheses(state, row, alpha=alpha, end_id=end_id)
            keep = (~decided).nonzero()[:, 0]
            if len(keep) == 0:
                return results
            state, parents = BeamState(*(part[keep] for part in state)), parents[keep]
            searched, max_lengths = searched[keep], max_lengths[keep]
        sentences = torch.arange(len(parents), device=parents.device) if keep is None else keep
        carry = model.select(carry, hypotheses=(sentences[:, None] * beam_size + parents).flatten(), sentences=keep)


def _sorted_hypotheses(state: BeamState, row: int, *, alpha: float, end_id: int) -> list[Hypothesis]:
    hypotheses = []
    scores = normalized_scores(state, alpha=alpha)[row].tolist()
    for slot, length in enumerate(state.finished_lengths[row].tolist()):
        if length == 0:
            continue
        truncated = bool(state.finished_truncated[row, slot])
        ids = state.finished_ids[row, slot, : length if truncated else length - 1].tolist()
        hypotheses.append(Hypothesis(ids, float(state.finished_log_probs[row, slot]), scores[slot], truncated))
    return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)
