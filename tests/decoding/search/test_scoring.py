"""Length penalties and the upper bound: by hand, and by continuations drawn at random."""

import random

import pytest
import torch

from translate.config.decoding import DecodingConfig
from translate.decoding.search.beam import Scoring
from translate.decoding.search.settings import maximum_lengths

KINDS = ["gnmt", "average", "none"]


def score(scoring: Scoring, total: float, length: int) -> float:
    return float(scoring.score(torch.tensor(total), torch.tensor(length)))


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
    assert score(Scoring(kind, alpha), -12.0, length) == pytest.approx(expected, rel=1e-6)


def count_violations(scoring: Scoring, bound: Scoring) -> int:
    """Of random hypotheses and random continuations of theirs, how many score more than `bound` says of the former."""
    generator = random.Random(3)
    begun, totals, lengths, limits = [], [], [], []
    for _ in range(500):
        limit = generator.randint(1, 40)
        length = generator.randint(0, limit - 1)
        total = start = -generator.expovariate(1.0 / (1 + length))
        while length < limit:
            length += 1
            total -= generator.choice([0.0, 1e-4, generator.expovariate(2.0)])
            begun.append(start)
            totals.append(total)
            lengths.append(length)
            limits.append(limit)
    upper = bound.upper_bound(torch.tensor(begun), torch.tensor(limits))
    found = scoring.score(torch.tensor(totals), torch.tensor(lengths))
    return int((found > upper + 1e-6).sum())


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 3.0])
@pytest.mark.parametrize("kind", KINDS)
def test_no_continuation_beats_the_upper_bound(kind: str, alpha: float) -> None:
    scoring = Scoring(kind, alpha)
    assert count_violations(scoring, scoring) == 0


def test_an_unsafe_bound_would_be_noticed() -> None:
    """The total itself, as if length did not matter."""
    assert count_violations(Scoring("gnmt", 1.0), Scoring("none")) > 100
    assert count_violations(Scoring("average", 1.0), Scoring("gnmt", 1.0)) > 100


def test_maximum_lengths_by_hand() -> None:
    config = DecodingConfig(max_length_factor=1.5, max_length_constant=3, length_penalty=0.0)
    source_tokens = torch.tensor([1, 2, 7])
    assert maximum_lengths(source_tokens, config, position_limit=None).tolist() == [4, 6, 13]
    assert maximum_lengths(source_tokens, config, position_limit=5).tolist() == [4, 5, 5]
    longer = config.model_copy(update={"min_length_factor": 1.0, "min_length_constant": 4})  # and the end symbol
    assert maximum_lengths(source_tokens, longer, position_limit=None).tolist() == [6, 7, 13]
    after = maximum_lengths(source_tokens, config, position_limit=11, prefix_tokens=torch.tensor([0, 5, 2]))
    assert after.tolist() == [4, 11, 11]
