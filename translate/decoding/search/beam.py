"""Beam search as a pure step `(state, log_probs) -> state`; `loop.py` calls it. Beam size 1 is greedy search.

A sentence has `beam` slots. At each step they take the best continuations: `select_best`, or a selection that samples,
or keeps to constraints. `update_state` then extends the hypotheses. One of the `beam` best that ends with
the end symbol becomes a finished hypothesis, which never changes, and leaves its slot to the next best continuation, if
the selection has given more than `beam`. The search ends with `patience` times `beam` finished hypotheses, or when no
open one can still win. This is the search of fairseq and CTranslate2, with patience and an exact stopping criterion.

With a patience of 1 the search of a confident model would end too early: unlikely hypotheses fill the finished ones
before the best has ended. Source: Kasai et al. 2022, https://arxiv.org/abs/2204.05424.
"""

import math
from collections.abc import Callable, Sequence
from itertools import compress
from typing import Literal, NamedTuple, assert_never

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from translate.model.device import copy_to_device

CHUNK = 256  # `largest` first compares chunks of this many numbers by their maximum, which vector units find fast

NextTokenScores = Float[Tensor, "batch beam vocab"]
"""What each next token adds to the score of its hypothesis: at most its log-probability; -inf: it is forbidden."""


class Hypothesis(NamedTuple):
    """A finished translation, as ids."""

    ids: list[int]  # without start and end symbol
    token_log_probs: list[float]  # nats, of each id and of the end symbol, if there is one
    score: float  # what it was ranked by: see `Scoring`
    truncated: bool  # it reached its maximum length without an end symbol
    tagged: bool = False  # the model wrote the tag of a language within it, which was left out

    def without(self, tags: frozenset[int]) -> "Hypothesis":
        """The same hypothesis, but without any of these tokens; its score stays as it is."""
        if tags.isdisjoint(self.ids):
            return self
        kept, log_probs = [token not in tags for token in self.ids], self.token_log_probs
        if len(log_probs) >= len(kept):  # otherwise it has only the sum
            log_probs = [*compress(log_probs, kept), *log_probs[len(kept) :]]
        return self._replace(ids=[*compress(self.ids, kept)], token_log_probs=log_probs, tagged=True)

    @property
    def log_prob(self) -> float:
        """The model's log-probability in nats, before any penalty."""
        return math.fsum(self.token_log_probs)


class Scoring(NamedTuple):
    """score = cumulative score / penalty(length), in nats."""

    length_penalty: Literal["gnmt", "average", "none"] = "gnmt"
    alpha: float = 0.6
    patience: int = 2  # 0: see `is_done`

    def penalty(self, lengths: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
        """The divisor of a cumulative score, at least 1; the end symbol counts as a token.

        Source: gnmt: ((5 + length) / 6)^alpha, Wu et al. 2016, https://arxiv.org/abs/1609.08144, equation 14;
        average: length^alpha, which is the mean log-probability at alpha = 1.
        """
        match self.length_penalty:
            case "gnmt":
                return ((5.0 + lengths) / 6.0) ** self.alpha
            case "average":
                return lengths.clamp(min=1).float() ** self.alpha
            case "none":
                return torch.ones_like(lengths, dtype=torch.float)
            case _:
                assert_never(self.length_penalty)

    def score(
        self, cumulative_scores: Float[Tensor, "*batch"], lengths: Int[Tensor, "*batch"]
    ) -> Float[Tensor, "*batch"]:
        """Scores of finished hypotheses."""
        return cumulative_scores / self.penalty(lengths)

    def upper_bound(
        self, cumulative_scores: Float[Tensor, "*batch"], max_lengths: Int[Tensor, "*batch"]
    ) -> Float[Tensor, "*batch"]:
        """An upper bound on the score of any continuation of an open hypothesis.

        A cumulative score only falls, because each step adds the logarithm of a probability (logits processors can only
        lower it), and the penalty never falls with the length, so the score at the maximum length is the bound. So
        stopping by it is safe for every length penalty here, not a heuristic.
        """
        return self.score(cumulative_scores, max_lengths)


class BeamState(NamedTuple):
    """All hypotheses of a batch: a sentence has `beam` slots for open ones, and as many for those that have finished.

    Capacity is the longest maximum length and the start symbol.
    """

    sentences: Int[Tensor, " batch"]  # the number of the sentence in each row
    max_lengths: Int[Tensor, " batch"]  # the most tokens to generate, the end symbol included
    slot_ids: Int[Tensor, "batch slots capacity"]  # the start symbol, then what was generated, then anything
    slot_log_probs: Float[Tensor, "batch slots capacity"]  # the model's, of each id; 0 for the start symbol
    cumulative_scores: Float[Tensor, "batch beam"]  # what ranks open hypotheses; -inf: none in this slot
    parents: Int[Tensor, "batch beam"]  # the slot, a step before, of the hypothesis that this one continues
    lengths: Int[Tensor, " batch"]  # generated tokens of the open hypotheses
    num_found: Int[Tensor, " batch"]  # hypotheses that have finished, among the best or not
    finished_scores: Float[Tensor, "batch beam"]  # the best first; -inf: none in this slot
    finished_lengths: Int[Tensor, "batch beam"]  # generated tokens, the end symbol included
    finished_truncated: Bool[Tensor, "batch beam"]

    @property
    def ids(self) -> Int[Tensor, "batch beam capacity"]:
        """The start symbol and the tokens of open hypotheses."""
        return self.slot_ids[:, : self.parents.shape[1]]

    @property
    def num_finished(self) -> Int[Tensor, " batch"]:
        """The number of slots that hold a finished hypothesis."""
        return (self.finished_scores > -math.inf).sum(dim=1)

    @property
    def last_ids(self) -> Int[Tensor, "batch beam"]:
        """The newest token of each open hypothesis."""
        return self.ids.take_along_dim(self.lengths[:, None, None], dim=2)[:, :, 0]

    def select_rows(self, rows: Int[Tensor, " new_batch"] | slice) -> "BeamState":
        """The state of only these rows."""
        return BeamState(*(part[rows] for part in self))

    def insert(self, rows: Sequence[int], new: "BeamState") -> "BeamState":
        """Put new sentences into these rows; rows after the last one are added."""
        num_kept = len(rows) - max(0, max(rows) + 1 - len(self.lengths))  # the others are added
        places = copy_to_device(torch.tensor(rows), self.lengths.device)
        state = BeamState(*(torch.cat((old, fresh[num_kept:])) for old, fresh in zip(self, new, strict=True)))
        for old, fresh in zip(state, new, strict=True):
            old[places] = fresh
        return state


class Candidates(NamedTuple):
    """Selected continuations of open hypotheses: one for each slot, and perhaps others to replace those that finish."""

    cumulative_scores: Float[Tensor, "batch candidates"]  # -inf: no continuation
    beam_indices: Int[Tensor, "batch candidates"]  # the slot of the hypothesis that is continued
    tokens: Int[Tensor, "batch candidates"]


SelectCandidates = Callable[[BeamState, NextTokenScores], Candidates]
"""Selects the continuations that take the open slots."""


def start_beam(
    max_lengths: Int[Tensor, " batch"],
    *,
    beam_size: int,
    capacity: int,
    start_id: int | Int[Tensor, " batch"],
    sentences: Int[Tensor, " batch"] | None = None,
    num_open: int = 1,
) -> BeamState:
    """Hypotheses of the start symbol alone.

    Args:
        capacity: The longest maximum length of all.
        start_id: The last token that the model reads before it predicts the first one: one for all, or one for each.
        sentences: The numbers of the sentences; None: 0, 1, ….
        num_open: Slots that hold a hypothesis at first: one, or all if they are independent.
    """
    batch, device = len(max_lengths), max_lengths.device
    starts = torch.as_tensor(start_id, device=device).expand(batch)[:, None, None]
    scores = torch.full((batch, beam_size), -math.inf, device=device)
    lengths = torch.zeros(batch, dtype=torch.long, device=device)
    return BeamState(
        sentences=torch.arange(batch, device=device) if sentences is None else sentences,
        max_lengths=max_lengths,
        slot_ids=starts.repeat(1, 2 * beam_size, capacity + 1),
        slot_log_probs=torch.zeros((batch, 2 * beam_size, capacity + 1), device=device),
        cumulative_scores=scores.index_fill(1, torch.arange(num_open, device=device), 0.0),
        parents=torch.zeros_like(scores, dtype=torch.long),
        lengths=lengths,
        num_found=lengths.clone(),
        finished_scores=scores,
        finished_lengths=torch.zeros_like(scores, dtype=torch.long),
        finished_truncated=torch.zeros_like(scores, dtype=torch.bool),
    )


def select_best(state: BeamState, scores: NextTokenScores) -> Candidates:
    """The continuations with the greatest cumulative scores, the best first.

    There are twice as many as slots: each hypothesis has one continuation that ends, so enough others remain.
    """
    beam, vocab = scores.shape[1:]
    best, flat = largest(scores, 1 if beam == 1 else 2 * beam, offsets=state.cumulative_scores)
    return Candidates(best, flat // vocab, flat % vocab)


def largest(
    values: NextTokenScores, count: int, *, offsets: Float[Tensor, "batch beam"]
) -> tuple[Float[Tensor, "batch count"], Int[Tensor, "batch count"]]:
    """The `count` largest of `values + offsets` in each sentence, and their indices in the flattened (beam, vocab).

    The result is exactly that of `torch.topk`, in descending order, but several times as fast on a CPU. The k largest
    numbers are in the k chunks with the largest maxima: a chunk outside has k numbers, one in each of the others, that
    are at least as large as all of its own. So one pass for the maxima is enough, and k chunks to search.
    """
    batch, beam, vocab = values.shape
    num_chunks = vocab // CHUNK
    if beam * num_chunks <= count:
        totals = (values + offsets[:, :, None]).flatten(1)
        found = totals.topk(min(count, totals.shape[1]), dim=1)
        return found.values, found.indices
    maxima = values[:, :, : num_chunks * CHUNK].unflatten(2, (num_chunks, CHUNK)).amax(dim=3)
    if vocab % CHUNK:  # the rest after the last whole chunk makes one more
        maxima = torch.cat((maxima, values[:, :, num_chunks * CHUNK :].amax(dim=2, keepdim=True)), dim=2)
    maxima = maxima + offsets[:, :, None]
    chunks = maxima.flatten(1).topk(count, dim=1).indices
    slots, starts = chunks // maxima.shape[2], chunks % maxima.shape[2] * CHUNK
    tokens = starts.clamp(max=vocab - CHUNK)[:, :, None] + torch.arange(CHUNK, device=values.device)
    indices = (slots * vocab)[:, :, None] + tokens
    candidates = values.flatten(1).gather(1, indices.flatten(1)).view(batch, count, CHUNK)
    candidates = candidates + offsets.gather(1, slots)[:, :, None]
    if vocab % CHUNK:  # the rest is filled up with tokens that belong to the chunk before
        candidates = candidates.masked_fill(tokens < starts[:, :, None], -math.inf)
    best, chosen = candidates.flatten(1).topk(count, dim=1)
    return best, indices.flatten(1).gather(1, chosen)


def update_state(
    state: BeamState,
    candidates: Candidates,
    log_probs: Float[Tensor, "batch beam vocab"],
    *,
    end_id: int,
    scoring: Scoring,
) -> BeamState:
    """Extend hypotheses by the selected tokens, and move those that end to the finished ones.

    A hypothesis ends with the end symbol, or without it at the maximum length of its sentence.

    Args:
        log_probs: The model's, of the next token.
    """
    # Four index spaces:
    #     candidate   0 … num_candidates - 1: the selected continuations, the best first
    #     slot        0 … beam - 1: open hypotheses of a sentence; beam … 2 * beam - 1: its finished ones
    #     entry       0 … beam - 1: hypotheses that finished earlier; beam + c: candidate c. A slot takes one of them.
    #     row         2 * beam * sentence + slot: a slot in the whole batch
    (batch, beam), capacity = state.parents.shape, state.slot_ids.shape[2]
    scores, candidate_slots, tokens = candidates  # `candidate_slots`: the slot that each candidate continues
    # A row whose sentence is finished is stepped until it is reused: it must only stay within the capacity.
    lengths = (state.lengths + 1).clamp(max=capacity - 1)
    new_log_probs = log_probs.flatten(1).gather(1, candidate_slots * log_probs.shape[2] + tokens)

    # Candidates that end are finished hypotheses. The best of all stay; of equals, the one found first.
    ends = tokens == end_id
    finishes = (scores > -math.inf) & (ends | (lengths >= state.max_lengths)[:, None])
    is_found = finishes[:, :beam]  # a candidate that ends and is not among the best is dropped
    new_lengths = lengths[:, None].expand(-1, beam)
    new_scores = scoring.score(scores[:, :beam], new_lengths).masked_fill(~is_found, -math.inf)
    found_scores = torch.cat((state.finished_scores, new_scores), dim=1)
    sorted_scores, sorted_entries = found_scores.sort(dim=1, descending=True, stable=True)
    finished_scores, finished_entries = sorted_scores[:, :beam], sorted_entries[:, :beam]

    # The next best candidates take the slots, but none does when `patience` times `beam` hypotheses have finished.
    num_found = state.num_found + is_found.sum(dim=1)
    is_full = num_found >= (scoring.patience or math.inf) * beam
    scores = scores.masked_fill(finishes | is_full[:, None], -math.inf)
    if scores.shape[1] > beam:
        open_candidates = finishes.byte().argsort(dim=1, stable=True)[:, :beam]
    else:
        open_candidates = torch.arange(beam, device=scores.device).expand(batch, -1)

    # Every slot gets the history of the hypothesis that it continues and the next token; earlier finished ones keep
    # their own. The contents after a hypothesis's length are arbitrary.
    slot_entries = torch.cat((beam + open_candidates, finished_entries), dim=1)
    finished_slots = torch.arange(beam, 2 * beam, device=scores.device).expand(batch, -1)
    source_slots = torch.cat((finished_slots, candidate_slots), dim=1).gather(1, slot_entries)
    first_rows = torch.arange(0, 2 * beam * batch, 2 * beam, device=scores.device)[:, None]
    source_rows = (first_rows + source_slots).flatten()
    position = lengths[:, None, None].expand(-1, 2 * beam, 1)

    def extend(histories: Tensor, new: Tensor) -> Tensor:
        continued = histories.flatten(0, 1).index_select(0, source_rows).view_as(histories)
        return continued.scatter_(2, position, F.pad(new, (beam, 0)).gather(1, slot_entries)[:, :, None])

    return BeamState(
        sentences=state.sentences,
        max_lengths=state.max_lengths,
        slot_ids=extend(state.slot_ids, tokens),
        slot_log_probs=extend(state.slot_log_probs, new_log_probs),
        cumulative_scores=scores.gather(1, open_candidates),
        parents=source_slots[:, :beam],
        lengths=lengths,
        num_found=num_found,
        finished_scores=finished_scores,
        finished_lengths=torch.cat((state.finished_lengths, new_lengths), dim=1).gather(1, finished_entries),
        finished_truncated=torch.cat((state.finished_truncated, ~ends[:, :beam]), dim=1).gather(1, finished_entries),
    )


def is_done(state: BeamState, *, scoring: Scoring, num_best: int = 1) -> Bool[Tensor, " batch"]:
    """Whether no open hypothesis can still come among the `num_best` best; safe by `Scoring.upper_bound`.

    With a patience of 0 it is a guess, that of transformers' `early_stopping=False`: no open hypothesis would come
    among all finished ones if it ended now. A sentence with a NaN score is done too: nothing that follows can be
    compared.
    """
    is_guess = scoring.patience == 0
    worst_kept = state.finished_scores[:, : state.parents.shape[1] if is_guess else num_best][:, -1]
    lengths = state.lengths if is_guess else state.max_lengths
    return ~(worst_kept < scoring.upper_bound(state.cumulative_scores.amax(dim=1), lengths))


def finished_hypotheses(state: BeamState) -> list[list[Hypothesis]]:
    """The finished hypotheses of each sentence, the best score first."""
    beam = state.parents.shape[1]
    finished = (state.slot_ids[:, beam:], state.slot_log_probs[:, beam:], *state[-3:])  # the last: `finished_…`
    return [
        [
            Hypothesis(ids[slot][1 : length + truncated[slot]], log_probs[slot][1 : length + 1], score, truncated[slot])
            for slot, (length, score) in enumerate(zip(lengths, scores, strict=True))
            if length > 0
        ]
        for ids, log_probs, scores, lengths, truncated in zip(*(part.tolist() for part in finished), strict=True)
    ]
