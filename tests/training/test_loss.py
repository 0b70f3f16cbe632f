"""Expected values: hand calculation, and `torch.nn.functional.cross_entropy` as the independent program."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from translate.training.loss import SummedLoss, label_smoothed_loss


def reference(logits: Tensor, targets: Tensor, smoothing: float) -> SummedLoss:
    """The summed loss by torch, of whole logits."""
    loss = F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")
    return SummedLoss(loss, F.cross_entropy(logits, targets, reduction="sum").detach(), len(targets))


def with_gradients(loss: SummedLoss, *leaves: Tensor) -> tuple[SummedLoss, list[Tensor]]:
    """The loss, and the gradients of three times the loss."""
    return loss, list(torch.autograd.grad(3.0 * loss.loss, leaves))


def test_two_tokens_by_hand() -> None:
    # One target, of two tokens with probabilities 3/4 and 1/4: without smoothing -ln(3/4); with smoothing 0.2 the
    # target distribution is (0.9, 0.1).
    hidden, weight = torch.tensor([[1.0]]), torch.tensor([[math.log(1.0)], [math.log(3.0)]])
    target = torch.tensor([1])
    plain = label_smoothed_loss(hidden, weight, target, smoothing=0.0)
    assert float(plain.loss) == pytest.approx(-math.log(0.75))
    smoothed = label_smoothed_loss(hidden, weight, target, smoothing=0.2)
    assert float(smoothed.loss) == pytest.approx(-0.9 * math.log(0.75) - 0.1 * math.log(0.25))
    assert float(smoothed.nll) == pytest.approx(-math.log(0.75))
    assert smoothed.tokens == 1


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
@pytest.mark.parametrize("num_targets", [1, 64, 65, 300])
def test_agrees_with_torch_in_value_and_gradient_over_all_chunks(
    smoothing: float, num_targets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("translate.training.loss._rows", lambda vocab_size, elements: 128 if elements > 2**20 else 50)
    hidden = torch.randn(num_targets, 6, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(11, 6, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(11, (num_targets,))
    ours, gradients = with_gradients(label_smoothed_loss(hidden, weight, targets, smoothing=smoothing), hidden, weight)
    expected = with_gradients(reference(hidden @ weight.t(), targets, smoothing), hidden, weight)
    torch.testing.assert_close((ours, gradients), expected, rtol=1e-11, atol=1e-11)
    assert ours.tokens == num_targets and not ours.nll.requires_grad


def test_vectors_after_the_last_target_count_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("translate.training.loss._rows", lambda vocab_size, elements: 128 if elements > 2**20 else 50)
    hidden, weight, bias = (
        torch.randn(*size, dtype=torch.float64, requires_grad=True) for size in ((300, 6), (11, 6), (11,))
    )
    targets, wanted = torch.randint(11, (107,)), [hidden, weight, bias]
    ours = label_smoothed_loss(hidden, weight, targets, bias=bias, smoothing=0.1)
    expected = reference(hidden[:107] @ weight.t() + bias, targets, 0.1)
    torch.testing.assert_close(with_gradients(ours, *wanted), with_gradients(expected, *wanted), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("num_targets", [1, 65, 300])
def test_r_drop_agrees_with_torch_in_value_and_gradient(num_targets: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("translate.training.loss._rows", lambda vocab_size, elements: 128 if elements > 2**20 else 50)
    hidden = torch.randn(2 * num_targets, 6, dtype=torch.float64, requires_grad=True)
    weight, bias = (torch.randn(*size, dtype=torch.float64, requires_grad=True) for size in ((11, 6), (11,)))
    targets = torch.randint(11, (num_targets,))
    logits = hidden @ weight.t() + bias
    once = reference(logits, targets.repeat(2), 0.1)
    p, q = logits.log_softmax(dim=-1).chunk(2)
    divergence = sum(F.kl_div(*pair, log_target=True, reduction="sum") for pair in ((p, q), (q, p)))
    # The paper's equation 4, halved: both cross-entropies plus alpha times half of both divergences.
    expected = SummedLoss((once.loss + 5.0 * divergence / 2) / 2, once.nll / 2, num_targets)
    ours = label_smoothed_loss(hidden, weight, targets, bias=bias, smoothing=0.1, r_drop=5.0)
    wanted = [hidden, weight, bias]
    torch.testing.assert_close(with_gradients(ours, *wanted), with_gradients(expected, *wanted), rtol=1e-11, atol=1e-11)


def test_the_bias_has_its_gradient_and_a_very_low_one_changes_nothing_else() -> None:
    hidden, weight, bias = (torch.randn(*size, requires_grad=True) for size in ((65, 6), (11, 6), (11,)))
    targets = torch.randint(1, 11, (65,))
    ours = label_smoothed_loss(hidden, weight, targets, bias=bias, smoothing=0.1)
    expected = reference(hidden @ weight.t() + bias, targets, 0.1)
    wanted = [hidden, weight, bias]
    torch.testing.assert_close(with_gradients(ours, *wanted), with_gradients(expected, *wanted), rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        bias[0] = -100.0  # as imports do with ids that the other toolkit does not have
        without = reference((hidden @ weight.t() + bias)[:, 1:], targets - 1, 0.0)
    excluded = label_smoothed_loss(hidden, weight, targets, bias=bias, smoothing=0.0)
    torch.testing.assert_close(excluded.loss.detach(), without.loss)


def test_autocast_multiplies_in_bf16_and_sums_in_fp32() -> None:
    hidden = torch.randn(200, 64, requires_grad=True)
    weight = (0.3 * torch.randn(501, 64)).requires_grad_()
    targets = torch.randint(501, (200,))
    narrow_logits = (hidden.bfloat16() @ weight.bfloat16().t()).float()
    expected = reference(narrow_logits, targets, 0.1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = label_smoothed_loss(hidden, weight, targets, smoothing=0.1)
    assert loss.loss.dtype == torch.float32
    torch.testing.assert_close(loss.loss, expected.loss, rtol=1e-4, atol=0)
    _, exact = with_gradients(reference(hidden @ weight.t(), targets, 0.1), hidden, weight)
    for gradient, right in zip(torch.autograd.grad(3.0 * loss.loss, [hidden, weight]), exact, strict=True):
        assert gradient.dtype == torch.float32
        assert ((gradient - right).norm() / right.norm()) < 0.02


def test_no_targets() -> None:
    hidden, weight = torch.randn(0, 4, requires_grad=True), torch.randn(7, 4, requires_grad=True)
    loss = label_smoothed_loss(hidden, weight, torch.empty(0, dtype=torch.long), smoothing=0.1)
    loss.loss.backward()
    assert float(loss.loss.detach()) == 0.0 and weight.grad is not None and not weight.grad.any()


@pytest.mark.parametrize("smoothing", [-0.1, 1.0])
def test_smoothing_that_is_no_probability(smoothing: float) -> None:
    with pytest.raises(ValueError, match=f"smoothing = {smoothing} must be at least 0 and less than 1"):
        label_smoothed_loss(torch.ones(1, 2), torch.ones(3, 2), torch.tensor([0]), smoothing=smoothing)


def test_frozen_embeddings_get_no_gradient_and_vectors_and_bias_the_same() -> None:
    hidden, weight, bias = torch.randn(7, 5), torch.randn(11, 5), torch.randn(11)
    targets = torch.randint(0, 11, (7,))
    leaves = [each.clone().requires_grad_() for each in (hidden, weight, bias)]
    label_smoothed_loss(*leaves[:2], targets, bias=leaves[2], smoothing=0.1).loss.backward()
    for trained in ((0,), (0, 2), (0, 1)):
        some = [each.clone().requires_grad_(number in trained) for number, each in enumerate((hidden, weight, bias))]
        label_smoothed_loss(*some[:2], targets, bias=some[2], smoothing=0.1).loss.backward()
        for number, (mine, whole) in enumerate(zip(some, leaves, strict=True)):
            assert whole.grad is not None and whole.grad.any()
            assert mine.grad is None if number not in trained else mine.grad is not None
            assert mine.grad is None or torch.equal(mine.grad, whole.grad)
