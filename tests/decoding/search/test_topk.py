"""The two-pass top-k against `torch.topk` over all sums at once, which it must equal, ties and infinities included."""

import math

import pytest
import torch
from torch import Tensor

from translate.decoding.search import topk
from translate.decoding.search.topk import CHUNK, largest

NEVER = -math.inf


def assert_as_torch(values: Tensor, count: int, offsets: Tensor) -> None:
    """The same values; each index names its value, and none stands twice (but for -inf, which is no value)."""
    totals = (values + offsets[:, :, None]).flatten(1)
    expected = totals.topk(min(count, totals.shape[1]), dim=1).values
    found = largest(values, count, offsets=offsets)
    assert torch.equal(found.values, expected)
    for row in range(len(values)):
        is_real = found.values[row] > NEVER
        indices = found.indices[row][is_real]
        assert torch.equal(totals[row, indices], expected[row][is_real])
        assert len(indices.unique()) == len(indices)


def test_the_sizes_below_are_around_a_chunk() -> None:
    assert CHUNK == 256


@pytest.mark.parametrize("vocab", [1, 7, 255, 256, 257, 511, 512, 513, 8000])
@pytest.mark.parametrize("beam", [1, 5])
def test_random_numbers(vocab: int, beam: int) -> None:
    for count in {1, 2, 5, 31, 32, vocab - 1, vocab * beam, vocab * beam + 3} - {0}:
        if count < 1500:
            assert_as_torch(torch.randn(3, beam, vocab), count, -3 * torch.rand(3, beam))


@pytest.mark.parametrize("vocab", [256, 257, 511, 769, 8000])
def test_ties(vocab: int) -> None:
    """Few distinct values, so that many chunks have the same maximum; and all numbers equal."""
    for count in (1, 3, 5, 11):
        assert_as_torch(torch.randint(4, (3, 2, vocab)).float(), count, torch.zeros(3, 2))
        assert_as_torch(torch.zeros(3, 2, vocab), count, torch.tensor([[0.0, 0.0], [0.0, -1.0], [-1.0, 0.0]]))


@pytest.mark.parametrize("vocab", [255, 257, 511, 8000])
@pytest.mark.parametrize("share", [0.5, 0.999, 1.0])
def test_forbidden_numbers_and_absent_hypotheses(vocab: int, share: float) -> None:
    for count in (1, 5, 13):
        values = torch.randn(7, 3, vocab)
        values = values.masked_fill(torch.rand_like(values) < share, NEVER)
        offsets = torch.randn(7, 3).masked_fill(torch.rand(7, 3) < 0.5, NEVER)
        offsets[0] = NEVER
        assert_as_torch(values, count, offsets)


def test_the_greatest_may_stand_anywhere() -> None:
    """Each position of a vocabulary with an overlapping last chunk in turn."""
    for position in [0, 1, 254, 255, 256, 257, 509, 510, 511, 512, 700, 766, 767, 768, 769, 770]:
        values = torch.zeros(1, 2, 771)
        values[0, 1, position] = 1.0
        found = largest(values, 1, offsets=torch.zeros(1, 2))
        assert found.values.tolist() == [[1.0]] and found.indices.tolist() == [[771 + position]]


@pytest.mark.parametrize("vocab", [5, 256, 511, 8000])
def test_what_is_not_a_number_comes_first(vocab: int) -> None:
    """As torch has it; so that a broken model is never mistaken for one that finds all else improbable."""
    for position in {0, vocab // 2, vocab - 1}:
        values = torch.randn(2, 3, vocab)
        values[1, 2, position] = math.nan
        found = largest(values, 4, offsets=torch.zeros(2, 3))
        assert found.values[0].isfinite().all()
        assert found.values[1].isnan().tolist() == [True, False, False, False]
        assert int(found.indices[1, 0]) == 2 * vocab + position


def test_one_chunk_too_few_would_be_noticed() -> None:
    """Five numbers, each the maximum of its chunk: a first pass that takes the four best chunks misses the fifth."""
    values = torch.randn(1, 1, 8000)
    values[0, 0, [3, 300, 1000, 4000, 7999]] = torch.tensor([9.0, 8.0, 7.0, 6.0, 5.5])
    assert_as_torch(values, 5, torch.zeros(1, 1))
    real = topk.torch.Tensor.topk

    def short(numbers: Tensor, k: int, **options: int) -> tuple[Tensor, Tensor]:
        found = real(numbers, k, **options)
        if numbers.shape[1] == 32:  # the maxima of 31 whole chunks and the rest: the last chunk is taken twice
            return type(found)((found.values, found.indices[:, [0, 1, 2, 3, 3]]))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topk.torch.Tensor, "topk", short)
        found = largest(values, 5, offsets=torch.zeros(1, 1))
    assert found.values.tolist() != values.flatten(1).topk(5, dim=1).values.tolist()
