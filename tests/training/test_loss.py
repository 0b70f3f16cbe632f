"""Expected values: hand calculation, and `torch.nn.functional.cross_entropy` as the independent program."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from translate.training.loss import SummedLoss, label_smoothed_loss, projected_loss

PAD = 0


def test_two_tokens_by_hand() -> None:
    # One target, of two tokens with probabilities 3/4 and 1/4: without smoothing -ln(3/4); with smoothing 0.2 the
    # target distribution is (0.9, 0.1).
    logits = torch.tensor([[math.log(1.0), math.log(3.0)]])
    target = torch.tensor([1])
    plain = label_smoothed_loss(logits, target, smoothing=0.0, pad_id=PAD)
    assert float(plain.loss) == pytest.approx(-math.log(0.75))
    smoothed = label_smoothed_loss(logits, target, smoothing=0.2, pad_id=PAD)
    assert float(smoothed.loss) == pytest.approx(-0.9 * math.log(0.75) - 0.1 * math.log(0.25))
    assert float(smoothed.nll) == pytest.approx(-math.log(0.75))
    assert smoothed.tokens == 1


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
def test_agrees_with_torch_in_value_and_gradient(smoothing: float) -> None:
    logits = torch.randn(3, 5, 11, dtype=torch.float32, requires_grad=True)
    targets = torch.randint(1, 11, (3, 5))
    targets[0, 3:] = PAD
    targets[2, 1:] = PAD
    ours = label_smoothed_loss(logits, targets, smoothing=smoothing, pad_id=PAD)
    (gradient,) = torch.autograd.grad(ours.loss, logits)
    reference = F.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), label_smoothing=smoothing, ignore_index=PAD, reduction="sum"
    )
    (reference_gradient,) = torch.autograd.grad(reference, logits)
    torch.testing.assert_close(ours.loss, reference)
    torch.testing.assert_close(gradient, reference_gradient)
    assert ours.tokens == 3 + 5 + 1
    assert (gradient[0, 3:] == 0).all(), "padding never counts"


def test_is_a_sum_so_that_parts_add_up() -> None:
    logits, targets = torch.randn(7, 13), torch.randint(1, 13, (7,))
    whole = label_smoothed_loss(logits, targets, smoothing=0.1, pad_id=PAD)
    parts = [label_smoothed_loss(logits[s], targets[s], smoothing=0.1, pad_id=PAD) for s in (slice(0, 2), slice(2, 7))]
    torch.testing.assert_close(whole.loss, parts[0].loss + parts[1].loss)
    assert whole.tokens == parts[0].tokens + parts[1].tokens


def test_half_precision_logits_are_summed_in_fp32() -> None:
    loss = label_smoothed_loss(torch.randn(3, 7).bfloat16(), torch.tensor([1, 2, 3]), smoothing=0.1, pad_id=PAD)
    assert loss.loss.dtype == torch.float32


@pytest.mark.parametrize("smoothing", [-0.1, 1.0])
def test_refuses_smoothing_that_is_no_probability(smoothing: float) -> None:
    with pytest.raises(ValueError, match=f"smoothing = {smoothing} must be at least 0 and less than 1"):
        label_smoothed_loss(torch.zeros(1, 2), torch.tensor([1]), smoothing=smoothing, pad_id=PAD)


# --- the same without logits


def both(
    hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float
) -> tuple[tuple[SummedLoss, list[Tensor]], tuple[SummedLoss, list[Tensor]]]:
    """The projected loss and the one of logits, with the gradients of hidden and weight, of three times the loss."""
    leaves = [hidden, weight]
    results = []
    for loss in (
        projected_loss(hidden, weight, targets, smoothing=smoothing),
        label_smoothed_loss(hidden @ weight.t(), targets, smoothing=smoothing, pad_id=-1),
    ):
        results.append((loss, list(torch.autograd.grad(3.0 * loss.loss, leaves))))
    return results[0], results[1]


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
@pytest.mark.parametrize("num_targets", [1, 63, 64, 65, 300])
def test_projected_is_the_same_over_all_chunks(
    smoothing: float, num_targets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("translate.training.loss._rows", lambda vocab_size, elements: 128 if elements > 2**20 else 50)
    hidden = torch.randn(num_targets, 6, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(11, 6, dtype=torch.float64, requires_grad=True)
    (ours, our_gradients), (expected, expected_gradients) = both(
        hidden, weight, torch.randint(11, (num_targets,)), smoothing
    )
    torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(our_gradients, expected_gradients, rtol=1e-12, atol=1e-12)
    assert ours.tokens == num_targets and not ours.nll.requires_grad


def test_projected_in_autocast_multiplies_in_bf16_and_sums_in_fp32() -> None:
    hidden = torch.randn(200, 64, requires_grad=True)
    weight = (0.3 * torch.randn(501, 64)).requires_grad_()
    targets = torch.randint(501, (200,))
    expected = label_smoothed_loss((hidden.bfloat16() @ weight.bfloat16().t()), targets, smoothing=0.1, pad_id=-1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = projected_loss(hidden, weight, targets, smoothing=0.1)
    assert loss.loss.dtype == torch.float32
    torch.testing.assert_close(loss.loss, expected.loss, rtol=1e-4, atol=0)
    exact = both(hidden, weight, targets, 0.1)[1][1]
    for gradient, right in zip(torch.autograd.grad(3.0 * loss.loss, [hidden, weight]), exact, strict=True):
        assert gradient.dtype == torch.float32
        assert ((gradient - right).norm() / right.norm()) < 0.02


def test_projected_with_no_targets() -> None:
    hidden, weight = torch.randn(0, 4, requires_grad=True), torch.randn(7, 4, requires_grad=True)
    loss = projected_loss(hidden, weight, torch.empty(0, dtype=torch.long), smoothing=0.1)
    loss.loss.backward()
    assert float(loss.loss.detach()) == 0.0 and weight.grad is not None and not weight.grad.any()


def test_projected_without_gradients_costs_none() -> None:
    hidden, weight, targets = torch.randn(5, 4), torch.randn(7, 4), torch.randint(7, (5,))
    with torch.no_grad():
        loss = projected_loss(hidden, weight, targets, smoothing=0.1)
    torch.testing.assert_close(
        loss.loss, label_smoothed_loss(hidden @ weight.t(), targets, smoothing=0.1, pad_id=-1).loss
    )


def test_projected_refuses_smoothing_that_is_no_probability() -> None:
    with pytest.raises(ValueError, match="smoothing = 1.0 must be at least 0 and less than 1"):
        projected_loss(torch.ones(1, 2), torch.ones(3, 2), torch.tensor([0]), smoothing=1.0)
