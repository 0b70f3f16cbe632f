"""Expected values: the definition (zero with probability p, else divided by 1 - p), and binomial bounds of 5 sigma."""

import threading

import pytest
import torch
from torch import Tensor

from translate.model.dropout import Dropout, dropout_seeded

CPU = torch.device("cpu")


def dropped(values: Tensor, p: float, *seed: int) -> Tensor:
    with dropout_seeded(*seed, device=CPU):
        result: Tensor = Dropout(p).train()(values)
    return result


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_elements_are_zero_or_divided(p: float, dtype: torch.dtype) -> None:
    values = torch.randn(37, 1001).to(dtype)
    values[values == 0.0] = 1.0
    result = dropped(values, p, 1)
    kept = result != 0.0
    scale = 65536 / (65536 - round(p * 65536))
    assert scale == pytest.approx(1 / (1 - p), rel=1e-4)
    torch.testing.assert_close(result[kept], values[kept] * scale)
    sigma = (p * (1 - p) / values.numel()) ** 0.5
    assert kept.double().mean().item() == pytest.approx(1 - p, abs=5 * sigma)


def test_neighbours_and_columns_are_dropped_independently() -> None:
    kept = (dropped(torch.ones(1000, 400), 0.5, 3) != 0.0).double()
    for one, other in ((kept[:, :-1], kept[:, 1:]), (kept[:-1], kept[1:]), (kept[:, :-4], kept[:, 4:])):
        both = (one * other).mean().item()
        assert both == pytest.approx(0.25, abs=5 * (0.25 * 0.75 / one.numel()) ** 0.5)
    assert (kept.mean(dim=0) - 0.5).abs().max() < 5 * (0.25 / 1000) ** 0.5, "no column is dropped more than others"


def test_the_gradient_is_that_of_the_same_mask() -> None:
    values = torch.randn(50, 30, requires_grad=True)
    result = dropped(values, 0.3, 1)
    direction = torch.randn(50, 30)
    (gradient,) = torch.autograd.grad(result, values, direction)
    mask = (result != 0.0) * (result / values).detach().max()
    torch.testing.assert_close(gradient, direction * mask)


def test_a_mask_is_a_function_of_the_seed_whatever_the_thread() -> None:
    values = torch.ones(64, 65)
    here = dropped(values, 0.5, 7, 3, 0)
    assert torch.equal(here, dropped(values, 0.5, 7, 3, 0))
    for other in ((7, 3, 1), (7, 4, 0), (8, 3, 0)):
        assert not torch.equal(here, dropped(values, 0.5, *other))

    there: list[Tensor] = []
    with dropout_seeded(99, device=CPU):  # this thread's, and no other's
        thread = threading.Thread(target=lambda: there.append(dropped(values, 0.5, 7, 3, 0)))
        thread.start()
        thread.join()
    assert torch.equal(here, there[0])


def test_without_a_seed_torch_seeds() -> None:
    values, dropout = torch.ones(999), Dropout(0.5).train()
    torch.manual_seed(1)
    first, second = dropout(values), dropout(values)
    torch.manual_seed(1)
    assert torch.equal(first, dropout(values)) and torch.equal(second, dropout(values))
    assert not torch.equal(first, second)


def test_what_is_not_finite_is_dropped_too() -> None:
    result = dropped(torch.full((999,), float("nan")), 0.5, 1)
    assert 300 < int((result == 0.0).sum()) < 700 and bool(result[result != 0.0].isnan().all())


def test_evaluation_and_zero_change_nothing() -> None:
    values = torch.randn(5)
    assert Dropout(0.9).eval()(values) is values
    assert Dropout(0.0).train()(values) is values


def test_strided_and_empty_tensors() -> None:
    values = torch.randn(6, 8)
    assert torch.equal(dropped(values.t(), 0.5, 1), dropped(values.t().contiguous(), 0.5, 1))
    assert dropped(torch.ones(0, 3), 0.5, 1).shape == (0, 3)


@pytest.mark.parametrize("p", [-0.1, 1.0])
def test_refuses_what_is_no_probability(p: float) -> None:
    with pytest.raises(ValueError, match=f"p = {p} must be at least 0 and less than 1"):
        Dropout(p)
