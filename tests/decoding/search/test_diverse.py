"""Diverse beam search: by hand, and against a loop over sentences, groups and candidates in plain Python."""

import math
import random

import pytest
import torch
from torch import Tensor

from translate.decoding.search.beam import BeamState, finished_hypotheses, select_best, start_beam, update_state
from translate.decoding.search.diverse import DiverseGroups
from translate.decoding.search.scoring import Scoring

END, START, A, B, C = range(5)
NEVER = -math.inf
LONGEST = torch.tensor([7])  # maximum length


def logs(*probabilities: float) -> list[float]:
    return [math.log(probability) if probability else NEVER for probability in probabilities]


def random_state(seed: int, *, rows: int, beam: int) -> BeamState:
    """In the middle of a search: some slots are empty, and some hypotheses have finished."""
    generator = random.Random(seed)
    state = start_beam(LONGEST.expand(rows), beam_size=beam, capacity=7, start_id=START)
    for row in range(rows):
        num_finished = generator.randint(0, beam)
        for slot in range(beam):
            is_open = slot < beam - num_finished and generator.random() < 0.8
            state.cumulative_scores[row, slot] = -3 * generator.random() if is_open else NEVER
            state.finished_scores[row, slot] = -1.0 if slot < num_finished else NEVER
    return state


def test_one_step_by_hand() -> None:
    """Three groups of one hypothesis each, at the start; a token chosen before costs 0.5 each time.

    A has 0.5, B 0.3, C 0.2: ln -0.69, -1.20, -1.61. The first group takes A; for the second A has -1.19, still the
    best; for the third it has -1.69, and B -1.20 wins. Totals are those of the model.
    """
    state = start_beam(LONGEST.expand(3), beam_size=1, capacity=3, start_id=START)
    scores = torch.tensor([[logs(0.0, 0.0, 0.5, 0.3, 0.2)]]).expand(3, -1, -1)
    candidates = DiverseGroups(3, strength=0.5)(state, scores)
    assert candidates.tokens.tolist() == [[A], [A], [B]]
    assert candidates.cumulative_scores.exp()[:, 0].tolist() == pytest.approx([0.5, 0.5, 0.3])
    # A cost of 1 is enough for the second group, and for the third to take C: -1.61 > -1.69, -2.20.
    assert DiverseGroups(3, strength=1.0)(state, scores).tokens.tolist() == [[A], [B], [C]]


def test_tokens_are_counted_across_a_group() -> None:
    """A group of two in which both hypotheses take A counts A twice, and a token that is not taken not at all."""
    state = start_beam(LONGEST.expand(4), beam_size=2, capacity=3, start_id=START, num_open=2)
    state.cumulative_scores.copy_(torch.tensor([[0.0, 0.0], [0.0, NEVER]] * 2))
    first = logs(0.0, 0.0, 0.9, 0.1, 0.0)
    second = logs(0.0, 0.0, 0.6, 0.4, 0.0)  # ln 0.6 - ln 0.4 = 0.405: a cost of 0.3 is too little once, enough twice
    scores = torch.tensor([[first, first], [second, second]] * 2)
    scores[2, 1] = NEVER  # in the second sentence the first group has one A, and B
    candidates = DiverseGroups(2, strength=0.3)(state, scores)
    assert candidates.tokens[0].tolist() == [A, A] and candidates.tokens[1, 0] == B
    assert candidates.tokens[2].tolist() == [A, B] and candidates.tokens[3, 0] == A
    assert float(candidates.cumulative_scores[1, 0].exp()) == pytest.approx(0.4)


def test_only_real_choices_cost() -> None:
    """The first group has finished: whatever stands in its slots keeps the second one from nothing."""
    state = start_beam(LONGEST.expand(2), beam_size=2, capacity=3, start_id=START)
    state.cumulative_scores[0] = NEVER
    state.finished_scores[0] = -1.0
    scores = torch.tensor([logs(0.1, 0.0, 0.5, 0.4, 0.0)]).expand(2, 2, -1)
    candidates = DiverseGroups(2, strength=9.0)(state, scores)
    expected = select_best(state, scores)
    assert candidates.cumulative_scores[0].tolist() == [NEVER, NEVER]
    assert candidates.tokens[1].tolist() == expected.tokens[1].tolist() == [A, B]


def slow_choice(state: BeamState, scores: Tensor, *, num_groups: int, strength: float) -> list[list[tuple[float, ...]]]:
    """Rows of (total, parent, token), the best by penalised total first."""
    rows: list[list[tuple[float, ...]]] = []
    beam, vocab = scores.shape[1:]
    for row in range(len(scores)):
        if row % num_groups == 0:
            taken: list[int] = []
        candidates = []
        for slot in range(beam):
            for token in range(vocab):
                total = float(state.cumulative_scores[row, slot]) + float(scores[row, slot, token])
                if total > NEVER:
                    candidates.append((total - strength * taken.count(token), total, slot, token))
        candidates.sort(reverse=True)
        kept = candidates[: beam - int(state.num_finished[row])]
        taken += [token for _, _, _, token in kept]
        rows.append([(total, slot, token) for _, total, slot, token in kept])
    return rows


@pytest.mark.parametrize("seed", range(20))
def test_against_a_loop(seed: int) -> None:
    num_groups, beam, strength = 1 + seed % 4, 1 + seed % 3, [0.0, 0.4, 2.0][seed % 3]
    rows = 3 * num_groups
    state = random_state(seed, rows=rows, beam=beam)
    scores = torch.randn(rows, beam, 7).log_softmax(dim=2)
    scores[:, :, 5] = NEVER
    scores[seed % rows] = NEVER  # a row that cannot go on
    candidates = DiverseGroups(num_groups, strength=strength)(state, scores)
    expected = slow_choice(state, scores, num_groups=num_groups, strength=strength)
    for row, wanted in enumerate(expected):
        found = candidates.cumulative_scores[row]
        is_real = found > NEVER
        assert int(is_real.sum()) == len(wanted)
        assert found[is_real].tolist() == pytest.approx([total for total, _, _ in wanted], abs=1e-6)
        assert candidates.beam_indices[row][is_real].tolist() == [parent for _, parent, _ in wanted]
        assert candidates.tokens[row][is_real].tolist() == [token for _, _, token in wanted]


@pytest.mark.parametrize(("num_groups", "strength"), [(1, 0.7), (3, 0.0)])
def test_one_group_or_no_strength_is_beam_search(num_groups: int, strength: float) -> None:
    for seed in range(10):
        state = random_state(seed, rows=6, beam=5)
        scores = torch.randn(6, 5, 601).log_softmax(dim=2)
        candidates = DiverseGroups(num_groups, strength=strength)(state, scores)
        expected = select_best(state, scores)
        assert all(torch.equal(*parts) for parts in zip(candidates, expected, strict=True))


def test_sentences_do_not_touch_each_other() -> None:
    state = random_state(3, rows=12, beam=2)
    scores = torch.randn(12, 2, 11).log_softmax(dim=2)
    groups = DiverseGroups(3, strength=0.8)
    together = groups(state, scores)
    for order in ([3, 4, 5], [9, 10, 11, 0, 1, 2]):
        alone = groups(BeamState(*(part[order] for part in state)), scores[order])
        assert all(torch.equal(part, whole[order]) for part, whole in zip(alone, together, strict=True))


def search(groups: DiverseGroups, *, rows: int) -> list[list[tuple[int, ...]]]:
    generator = torch.Generator().manual_seed(3)
    chain = torch.randn(7, 7, generator=generator).log_softmax(dim=1)
    state = start_beam(torch.full((rows,), 5), beam_size=2, capacity=5, start_id=START)
    for _ in range(5):
        log_probs = chain[state.last_ids]
        state = update_state(state, groups(state, log_probs), log_probs, end_id=END, scoring=Scoring("none"))
    found = finished_hypotheses(state)
    for hypotheses in found:
        for hypothesis in hypotheses:  # ranked by the model's log-probability, free of any penalty
            assert hypothesis.score == pytest.approx(hypothesis.log_prob, abs=1e-5)
    return [[tuple(hypothesis.ids) for hypothesis in hypotheses] for hypotheses in found]


def test_groups_find_different_translations() -> None:
    same = search(DiverseGroups(3, strength=0.0), rows=3)
    different = search(DiverseGroups(3, strength=1.0), rows=3)
    assert same[0] == same[1] == same[2] == different[0]
    assert len({ids for found in different for ids in found}) > len({ids for found in same for ids in found})
