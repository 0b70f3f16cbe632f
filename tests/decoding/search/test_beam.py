"""The step of beam search and the largest scores in it: by hand, and against torch.

Whole searches are in `test_loop.py`.
"""

import math

import pytest
import torch
from tables import END, START, A, B, logs
from torch import Tensor

from translate.decoding.search.beam import (
    CHUNK,
    BeamState,
    Scoring,
    finished_hypotheses,
    largest,
    select_best,
    start_beam,
    update_state,
)

# The state


def random_log_probs(beam_size: int, vocab_size: int) -> Tensor:
    return torch.randn(7, beam_size, vocab_size).log_softmax(dim=-1)


def advance(state: BeamState, log_probs: Tensor) -> BeamState:
    return update_state(state, select_best(state, log_probs), log_probs, end_id=END, scoring=Scoring(alpha=0.0))


def test_finished_hypotheses_never_change() -> None:
    state = start_beam(torch.tensor([11, 2, 3, 5, 7, 11, 1]), beam_size=3, capacity=11, start_id=START)
    num_finished_early = 0
    for _ in range(11):
        before = state
        state = advance(state, random_log_probs(3, 5))
        assert (state.num_finished >= before.num_finished).all()
        for row, (old, new) in enumerate(zip(finished_hypotheses(before), finished_hypotheses(state), strict=True)):
            if state.num_found[row] <= 3:  # else a better one may have taken the place of another
                assert all(hypothesis in new for hypothesis in old)
                num_finished_early += len(old)
        # A slot that is left is filled again, unless the search is over.
        num_open = (state.cumulative_scores > -math.inf).sum(dim=1)
        assert (num_open == torch.where((state.num_found >= 6) | (state.lengths >= state.max_lengths), 0, 3)).all()
    assert num_finished_early > 10  # there was something to keep
    assert (state.num_finished == 3).sum() >= 5


def test_a_step_is_pure() -> None:
    state = start_beam(torch.full((7,), 3), beam_size=2, capacity=3, start_id=START)
    copy = BeamState(*(part.clone() for part in state))
    log_probs = random_log_probs(2, 5)
    first, second = advance(state, log_probs), advance(state, log_probs)
    assert all(torch.equal(*parts) for parts in zip(state, copy, strict=True))
    assert all(torch.equal(*parts) for parts in zip(first, second, strict=True))


def test_one_step_by_hand() -> None:
    """Two open hypotheses: A (0.5) goes on with END 0.6 or B 0.4, B (0.25) with A 1.0."""
    state = start_beam(torch.tensor([4]), beam_size=2, capacity=4, start_id=START)
    opening = torch.tensor([[logs(0.25, 0.0, 0.5, 0.25), logs(0.25, 0.25, 0.25, 0.25)]])
    opening[0, 0, END] = -math.inf
    assert select_best(state, opening).beam_indices[:, :2].tolist() == [[0, 0]]
    state = advance(state, opening)
    assert state.ids[:, :, :2].tolist() == [[[START, A], [START, B]]]

    log_probs = torch.tensor([[logs(0.6, 0.0, 0.0, 0.4), logs(0.0, 0.0, 1.0, 0.0)]])
    assert select_best(state, log_probs).beam_indices[0, 1] == 1
    state = advance(state, log_probs)
    # A END 0.3 has finished; B A 0.25 and A B 0.2 go on.
    assert state.slot_ids[0, 2, :3].tolist() == [START, A, END]
    assert state.finished_scores.exp().tolist() == [[pytest.approx(0.3), 0.0]]
    assert state.finished_lengths.tolist() == [[2, 0]] and state.finished_truncated.tolist() == [[False, False]]
    assert state.cumulative_scores.exp().tolist() == [pytest.approx([0.25, 0.2])]
    assert state.ids[0, :, :3].tolist() == [[START, B, A], [START, A, B]] and state.parents.tolist() == [[1, 0]]


def test_the_best_stay_where_more_finish_than_the_beam_has_slots() -> None:
    """A END 0.04 has finished, as the second, of two; B END 0.2 and A END 0.3 follow, and end the search."""
    state = start_beam(torch.tensor([4]), beam_size=2, capacity=4, start_id=START, num_open=2)
    state.finished_scores[0, 0] = math.log(0.04)
    state.num_found[0] = 2
    state.cumulative_scores.copy_(torch.tensor([logs(0.5, 0.4)]))
    state = advance(state, torch.tensor([[logs(0.6, 0.0, 0.4, 0.0), logs(0.5, 0.0, 0.5, 0.0)]]))
    assert state.finished_scores.exp().tolist() == [pytest.approx([0.3, 0.2])]
    assert state.cumulative_scores.tolist() == [[-math.inf, -math.inf]]


def test_new_sentences_are_put_into_rows_that_are_free_or_new() -> None:
    old = start_beam(torch.tensor([5, 7]), beam_size=2, capacity=11, start_id=START)
    old = advance(old, random_log_probs(2, 5)[:2])
    new = start_beam(torch.tensor([2, 3]), beam_size=2, capacity=11, start_id=START, sentences=torch.tensor([17, 13]))
    state = BeamState(*(part.clone() for part in old)).insert([1, 2], new)
    assert state.sentences.tolist() == [0, 17, 13] and state.max_lengths.tolist() == [5, 2, 3]
    for rows, expected in ([0], old.select_rows(slice(0, 1))), ([1, 2], new):
        assert all(torch.equal(part[rows], whole) for part, whole in zip(state, expected, strict=True))


@pytest.mark.parametrize(
    ("kind", "alpha", "length", "expected"),
    [
        ("gnmt", 1.0, 1, -12.0),  # (5 + 1) / 6 = 1
        ("gnmt", 1.0, 7, -6.0),  # (5 + 7) / 6 = 2
        ("gnmt", 2.0, 7, -3.0),
        ("gnmt", 0.5, 19, -6.0),  # sqrt(24 / 6) = 2
        ("gnmt", 0.0, 19, -12.0),
        ("average", 1.0, 1, -12.0),
        ("average", 1.0, 4, -3.0),  # the mean of four tokens
        ("average", 0.5, 16, -3.0),  # sqrt(16) = 4
        ("average", 0.0, 16, -12.0),
        ("none", 1.0, 16, -12.0),
        ("none", 0.0, 1, -12.0),
    ],
)
def test_scores_by_hand(kind: str, alpha: float, length: int, expected: float) -> None:
    score = Scoring(kind, alpha).score(torch.tensor(-12.0), torch.tensor(length))
    assert float(score) == pytest.approx(expected, rel=1e-6)


# The largest numbers in two passes, against `torch.topk` over all sums at once, ties and infinities included


def assert_as_torch(values: Tensor, count: int, offsets: Tensor) -> None:
    """The same values; each index names its value, and none is there twice (but for -inf, which is no value)."""
    totals = (values + offsets[:, :, None]).flatten(1)
    expected = totals.topk(min(count, totals.shape[1]), dim=1).values
    found, places = largest(values, count, offsets=offsets)
    assert torch.equal(found, expected)
    for row in range(len(values)):
        is_real = found[row] > -math.inf
        indices = places[row][is_real]
        assert torch.equal(totals[row, indices], expected[row][is_real])
        assert len(indices.unique()) == len(indices)


# Sizes around one and two chunks
@pytest.mark.parametrize("vocab", [1, 7, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK - 1, 2 * CHUNK, 2 * CHUNK + 1, 8000])
def test_largest_is_torchs(vocab: int) -> None:
    """Of random numbers, of few distinct values, so that many chunks have the same maximum, and of equal ones."""
    for beam in (1, 5):
        for count in {1, 2, 5, 31, 32, vocab - 1, vocab * beam, vocab * beam + 3} - {0}:
            if count < 1500:
                assert_as_torch(torch.randn(3, beam, vocab), count, -3 * torch.rand(3, beam))
    for count in (1, 3, 5, 11):
        assert_as_torch(torch.randint(4, (3, 2, vocab)).float(), count, torch.zeros(3, 2))
        assert_as_torch(torch.zeros(3, 2, vocab), count, torch.tensor([[0.0, 0.0], [0.0, -1.0], [-1.0, 0.0]]))


@pytest.mark.parametrize("vocab", [CHUNK - 1, CHUNK + 1, 2 * CHUNK - 1, 8000])
def test_forbidden_numbers_and_absent_hypotheses(vocab: int) -> None:
    for share in (0.5, 0.999, 1.0):
        values = torch.randn(7, 3, vocab)
        values = values.masked_fill(torch.rand_like(values) < share, -math.inf)
        offsets = torch.randn(7, 3).masked_fill(torch.rand(7, 3) < 0.5, -math.inf)
        offsets[0] = -math.inf
        for count in (1, 5, 13):
            assert_as_torch(values, count, offsets)


@pytest.mark.parametrize("vocab", [5, 256, 511, 8000])
def test_what_is_not_a_number_comes_first(vocab: int) -> None:
    """As in torch, so that a broken model is never mistaken for one that finds all else improbable."""
    for position in {0, vocab // 2, vocab - 1}:
        values = torch.randn(2, 3, vocab)
        values[1, 2, position] = math.nan
        found, places = largest(values, 4, offsets=torch.zeros(2, 3))
        assert found[0].isfinite().all()
        assert found[1].isnan().tolist() == [True, False, False, False]
        assert int(places[1, 0]) == 2 * vocab + position
