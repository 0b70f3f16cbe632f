"""Hypotheses in the middle of a search, and what a logits processor forbids them."""

import math
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from translate.decoding.search.beam import BeamState, start_beam
from translate.decoding.search.loop import LogitsProcessor

START, END = 2, 3
VOCAB = 7
NEVER = -math.inf


def state_of(
    histories: Sequence[Sequence[Sequence[int]]],
    *,
    sentences: Sequence[int] | None = None,
    max_lengths: Sequence[int] | None = None,
    capacity: int = 13,
    rubbish: int = 5,
) -> BeamState:
    """Open hypotheses, per sentence and slot; behind each there are ids that only a careless processor looks at."""
    beam_size = len(histories[0])
    state = start_beam(
        torch.tensor(max_lengths or [99] * len(histories)),
        beam_size=beam_size,
        capacity=capacity,
        start_id=START,
        sentences=None if sentences is None else torch.tensor(sentences),
        num_open=beam_size,
    )
    state.ids[:, :, 1:] = rubbish
    for sentence, slots in enumerate(histories):
        state.lengths[sentence] = len(slots[0])
        for slot, tokens in enumerate(slots):
            state.ids[sentence, slot, 1 : 1 + len(tokens)] = torch.tensor(tokens, dtype=torch.long)
    return state


def random_histories(seed: int, *, batch: int = 5, beam: int = 3, vocab: int = VOCAB) -> list[list[list[int]]]:
    generator = random.Random(seed)
    words = [token for token in range(vocab) if token not in (END, START)]
    lengths = [generator.randint(0, 12) for _ in range(batch)]
    return [[generator.choices(words[:4], k=length) for _ in range(beam)] for length in lengths]


def log_probs_for(state: BeamState, vocab: int = VOCAB) -> Tensor:
    return torch.randn(*state.cumulative_scores.shape, vocab).log_softmax(dim=2)


def apply(processor: LogitsProcessor, scores: Tensor, state: BeamState) -> Tensor:
    return processor(scores.clone(), state)


def forbidden(processor: LogitsProcessor, state: BeamState) -> list[list[set[int]]]:
    """The tokens that a processor forbids each hypothesis; the others stay as they are."""
    scores = log_probs_for(state)
    result = apply(processor, scores, state)
    is_forbidden = result == NEVER
    assert torch.equal(result.masked_fill(is_forbidden, 0.0), scores.masked_fill(is_forbidden, 0.0))
    return [[set(row.nonzero()[:, 0].tolist()) for row in rows] for rows in is_forbidden]


def slowly(
    histories: Sequence[Sequence[Sequence[int]]], is_forbidden: Callable[[int, list[int], int], bool]
) -> list[list[set[int]]]:
    """The same by a loop over sentences, slots and tokens."""
    return [
        [{token for token in range(VOCAB) if is_forbidden(sentence, list(tokens), token)} for tokens in slots]
        for sentence, slots in enumerate(histories)
    ]


def check_independence(processor: LogitsProcessor) -> None:
    """A processor looks at no neighbour and at nothing behind a hypothesis, and it raises no score."""
    for seed in range(10):
        histories = random_histories(seed)
        state = state_of(histories)
        scores = log_probs_for(state)
        together = apply(processor, scores, state)
        assert torch.equal(apply(processor, scores, state_of(histories, rubbish=6, capacity=17)), together)
        order = [3, 0, 4]
        shuffled = apply(processor, scores[order], state_of([histories[index] for index in order], sentences=order))
        assert torch.equal(shuffled, together[order])
        assert (together <= scores).all()  # `Scoring.upper_bound` relies on that
        state.lengths[0] = 99  # a row that its sentence has left counts on, beyond the capacity
        state.cumulative_scores[0] = NEVER
        assert torch.equal(apply(processor, scores, state)[1:], together[1:])


class Lab(NamedTuple):
    """The functions above: test modules cannot import each other."""

    state_of: Callable[..., BeamState] = state_of
    random_histories: Callable[..., list[list[list[int]]]] = random_histories
    log_probs_for: Callable[..., Tensor] = log_probs_for
    apply: Callable[..., Tensor] = apply
    forbidden: Callable[..., list[list[set[int]]]] = forbidden
    slowly: Callable[..., list[list[set[int]]]] = slowly
    check_independence: Callable[[LogitsProcessor], None] = check_independence


@pytest.fixture(scope="session")
def lab() -> Lab:
    return Lab()
