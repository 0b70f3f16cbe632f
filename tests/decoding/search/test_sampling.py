"""Sampling: what is drawn from, that draws follow it, and that they depend on the line and nothing else.

Expected values come from a hand calculation, from plain Python integers, from published numbers, or from statistics
with bounds that a right program exceeds about once in a million seeds (the seeds are fixed); each test says which.
"""

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from translate.decoding.search.beam import start_beam
from translate.decoding.search.sampling import TokenSampler, sample_tokens, splitmix64, uniform_numbers

END, START = 3, 2
NEVER = -math.inf


def sampler(*, num_lines: int = 23, **settings: Any) -> TokenSampler:
    return TokenSampler(**{"seed": 11, "lines": torch.arange(num_lines), **settings})


FOUR = [0.125, 0.5, 0.125, 0.25]


@pytest.mark.parametrize(
    ("given", "settings", "expected"),
    [
        ([0.5, 0.0, 0.2, 0.3], {}, [0.5, 0.0, 0.2, 0.3]),
        # Squares 0.25, 0.04, 0.09 of 0.38; towards 0 only the most probable is left.
        ([0.5, 0.2, 0.3], {"temperature": 0.5}, [0.65789, 0.10526, 0.23684]),
        ([0.04, 0.16, 0.36], {"temperature": 2.0}, [0.16667, 0.33333, 0.5]),  # square roots 0.2, 0.4, 0.6 of 1.2
        *(([0.5, 0.2, 0.3], {"temperature": value}, [1.0, 0.0, 0.0]) for value in (1e-2, 1e-6, 1e-300)),
        ([0.1, 0.5, 0.15, 0.25], {"top_k": 2}, [0.0, 0.66667, 0.0, 0.33333]),
        ([0.2, 0.4, 0.2, 0.2], {"top_k": 2}, [0.2, 0.4, 0.2, 0.2]),  # all as probable as the second
        ([0.5, 0.2, 0.3], {"top_k": 1}, [1.0, 0.0, 0.0]),
        ([0.5, 0.2, 0.3], {"top_k": 5}, [0.5, 0.2, 0.3]),
        (FOUR, {"top_p": 0.5}, [0.0, 1.0, 0.0, 0.0]),
        (FOUR, {"top_p": 0.51}, [0.0, 0.66667, 0.0, 0.33333]),
        (FOUR, {"top_p": 0.76}, FOUR),  # both of the last two
        (FOUR, {"top_p": 1e-9}, [0.0, 1.0, 0.0, 0.0]),
        ([0.1, 0.5, 0.15, 0.25], {"epsilon": 0.2}, [0.0, 0.66667, 0.0, 0.33333]),
        ([0.1, 0.5, 0.15, 0.25], {"epsilon": 0.9}, [0.0, 1.0, 0.0, 0.0]),  # never the most probable
        # Each setting sees what the last one left: top-k 3 of 0.4 0.3 0.2 0.1 leaves 4/9 3/9 2/9; top-p 0.75 of those
        # 4/7 3/7 (of the model: all three); epsilon 0.43 is more than 3/7 = 0.42857 and leaves 1.
        ([0.4, 0.3, 0.2, 0.1], {"top_k": 3, "top_p": 0.75}, [0.57143, 0.42857, 0.0, 0.0]),
        ([0.4, 0.3, 0.2, 0.1], {"top_p": 0.75}, [0.44444, 0.33333, 0.22222, 0.0]),
        ([0.4, 0.3, 0.2, 0.1], {"top_k": 3, "top_p": 0.75, "epsilon": 0.42}, [0.57143, 0.42857, 0.0, 0.0]),
        ([0.4, 0.3, 0.2, 0.1], {"top_k": 3, "top_p": 0.75, "epsilon": 0.43}, [1.0, 0.0, 0.0, 0.0]),
        # Squares of the first two are 16 and 9 of 25 + 4 + 1: temperature comes before top-p.
        ([0.4, 0.3, 0.2, 0.1], {"temperature": 0.5, "top_p": 0.8}, [0.64, 0.36, 0.0, 0.0]),
    ],
)
def test_the_distribution_by_hand(given: list[float], settings: dict[str, float], expected: list[float]) -> None:
    """What is drawn from, where the model has the given probabilities."""
    log_probs = torch.tensor(given).log().view(1, 1, -1)
    assert sampler(**settings).probabilities(log_probs)[0, 0].tolist() == pytest.approx(expected, abs=1e-5)


def test_a_wide_nucleus_against_a_sort() -> None:
    """More tokens than the first look takes in, and flat and sharp rows together."""
    log_probs = (torch.randn(5, 3, 3001) * torch.tensor([0.1, 1.0, 5.0])[:, None]).log_softmax(dim=2)
    result = sampler(top_p=0.9).probabilities(log_probs)
    for row, kept in zip(log_probs.flatten(0, 1).exp(), result.flatten(0, 1), strict=True):
        order = row.sort(descending=True).indices
        before = row[order].double().cumsum(0) - row[order].double()
        expected = torch.zeros(3001, dtype=torch.bool).index_fill(0, order[before < 0.9], True)
        assert torch.equal(kept > 0.0, expected)
        assert torch.allclose(kept[expected], row[expected] / row[expected].sum(), rtol=1e-5)


def test_published_numbers_of_splitmix64() -> None:
    # As Rosetta Code's "Pseudo-random numbers/Splitmix64" has them, for this seed.
    numbers = splitmix64(1234567, torch.arange(5))
    assert [number % 2**64 for number in numbers.tolist()] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_uniform_numbers_are_the_first_bits_of_the_hash_of_line_sample_and_position() -> None:
    lines, samples, positions = torch.tensor([0, 3, 10**9]), torch.tensor([0, 7]), torch.tensor([0, 5])
    numbers = uniform_numbers(2**40 + 1, lines[:, None, None], samples[:, None], positions)
    assert numbers.dtype == torch.float64
    for (i, line), (j, sample), (k, position) in itertools.product(*map(enumerate, (lines, samples, positions))):
        hashed = int(splitmix64(splitmix64(splitmix64(2**40 + 1, line), sample), position)) % 2**64
        assert float(numbers[i, j, k]) == (hashed >> 11) / 2**53


def test_numbers_without_double_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first 24 bits, so that none is rounded to 1."""
    lines, first = torch.arange(100), torch.tensor(0)
    exact = uniform_numbers(5, lines, first, first)
    monkeypatch.setattr("translate.decoding.search.sampling.widest_float", lambda device: torch.float32)
    numbers = uniform_numbers(5, lines, first, first)
    assert numbers.dtype == torch.float32
    assert torch.equal(numbers.double(), (exact * 2**24).floor() / 2**24)


def test_draw_by_hand() -> None:
    # Cumulative: 0.25, 0.25, 0.75, 1; a number on a border belongs to the next token.
    weights = torch.tensor([0.25, 0.0, 0.5, 0.25]).expand(7, 1, 4)
    uniforms = torch.tensor([0.0, 0.24, 0.25, 0.74, 0.75, 0.99, 1 - 2**-53], dtype=torch.float64)
    for scale in (1.0, 3.0):  # weights need not add up to 1
        assert sample_tokens(weights * scale, uniforms[:, None])[:, 0].tolist() == [0, 0, 2, 2, 3, 3, 3]


def test_impossible_tokens_are_never_sampled() -> None:
    uniforms = torch.tensor([[0.0, 1 - 2**-53, 0.5]], dtype=torch.float64)
    weights = torch.tensor([0.0, 0.3, 0.0, 0.1, 0.0, 0.0]).expand(1, 3, 6)
    assert sample_tokens(weights, uniforms).tolist() == [[1, 3, 1]]
    assert sample_tokens(weights, torch.ones(1, 3)).tolist() == [[1, 1, 1]]  # rounded up to 1: the most probable
    assert sample_tokens(torch.zeros(1, 3, 6), uniforms).max() < 6


def chosen(settings: TokenSampler, log_probs: Tensor, *, length: int = 0, sentences: Tensor | None = None) -> Tensor:
    batch, beam, _ = log_probs.shape
    max_lengths = torch.full((batch,), 7)
    state = start_beam(max_lengths, beam_size=beam, capacity=7, start_id=START, sentences=sentences, num_open=beam)
    state.lengths.fill_(length)
    return settings(state, log_probs).tokens


def test_samples_follow_the_distribution() -> None:
    # 23 · 1000 draws; each frequency lies within 5 standard deviations.
    model = torch.tensor([0.4, 0.05, 0.0, 0.25, 0.3])
    log_probs = model.log().expand(23, 1000, 5)
    tokens = chosen(sampler(), log_probs)
    for token, probability in enumerate(model.tolist()):
        frequency = float((tokens == token).double().mean())
        assert abs(frequency - probability) <= 5 * math.sqrt(probability * (1 - probability) / 23000)
    assert set(chosen(sampler(top_k=2), log_probs).unique().tolist()) == {0, 4}


def test_a_draw_depends_on_seed_line_sample_and_position() -> None:
    log_probs = torch.randn(1, 1, 1009).log_softmax(dim=2).expand(23, 11, -1)
    tokens = chosen(sampler(), log_probs)
    assert len(tokens.unique()) > 100  # lines and samples differ
    assert (chosen(sampler(), log_probs, length=1) != tokens).float().mean() > 0.9
    assert (chosen(sampler(seed=12), log_probs) != tokens).float().mean() > 0.9
    assert torch.equal(chosen(sampler(), log_probs), tokens)


def test_a_draw_depends_on_nothing_else() -> None:
    log_probs = torch.randn(23, 11, 1009).log_softmax(dim=2)
    settings = {"top_p": 0.9, "epsilon": 1e-4, "temperature": 0.8}
    tokens = chosen(sampler(**settings), log_probs, length=3)
    order = torch.tensor([19, 2, 5])
    assert torch.equal(chosen(sampler(**settings), log_probs[order], length=3, sentences=order), tokens[order])
    # Lines are known by their numbers, not by their places in a list; fewer samples are the first ones.
    renumbered = sampler(**settings, lines=torch.tensor([2, 19]))
    assert torch.equal(chosen(renumbered, log_probs[[2, 19], :7], length=3), tokens[[2, 19], :7])


def test_cumulative_scores_are_the_models() -> None:
    """Whatever reshapes the distribution, each sample's score is the sum of the log-probabilities it was given."""
    settings = sampler(temperature=0.3, top_k=5, top_p=0.9, epsilon=0.01)
    state = start_beam(torch.full((5,), 3), beam_size=7, capacity=3, start_id=START, num_open=7)
    state.cumulative_scores.copy_(-torch.rand(5, 7))
    state.cumulative_scores[2, 3] = NEVER  # no hypothesis in this slot
    log_probs = torch.randn(5, 7, 13).log_softmax(dim=2)
    scores, beam_indices, tokens = settings(state, log_probs)
    assert beam_indices.tolist() == [list(range(7))] * 5
    assert scores[2, 3] == NEVER
    for sentence in range(5):
        for slot in range(7):
            expected = state.cumulative_scores[sentence, slot] + log_probs[sentence, slot, tokens[sentence, slot]]
            assert float(scores[sentence, slot]) == float(expected)


@pytest.mark.parametrize("settings", [{}, {"top_k": 2}, {"top_p": 0.5}, {"epsilon": 0.1}, {"temperature": 0.1}])
def test_a_hypothesis_without_tokens_ends_in_nothing(settings: dict[str, Any]) -> None:
    log_probs = torch.randn(2, 3, 5).log_softmax(dim=2)
    log_probs[1, 1] = NEVER
    state = start_beam(torch.full((2,), 3), beam_size=3, capacity=3, start_id=START, num_open=3)
    candidates = sampler(**settings)(state, log_probs)
    assert not candidates.cumulative_scores.isnan().any()
    assert (candidates.cumulative_scores == NEVER).nonzero().tolist() == [[1, 1]]
    assert sampler(**settings).probabilities(log_probs).sum(dim=2).tolist() == [
        pytest.approx([1.0, 1.0, 1.0]),
        pytest.approx([1.0, 0.0, 1.0]),
    ]
