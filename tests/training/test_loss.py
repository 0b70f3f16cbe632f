"""Expected values: hand calculation, and `torch.nn.functional.cross_entropy` as the independent program."""

import math

import pytest
import torch
import torch.nn.functional as F

from translate.training.loss import label_smoothed_loss

PAD = 0


def test_two_tokens_by_hand() -> None:
    # One target, of two tokens with probabilities 3/4 and 1/4: without smoothing -ln(3/4); with smoothing 0.2 the
    # target distribution is (0.9, 0.1).
    logits = torch.tensor([[math.log(1.0), math.log(3.0)]])
    target = torch.tensor([1])
    plain = label_smoothed_loss(logits, target, smoothing=0.0, pad_id=PAD)
    assert float(plain.nats) == pytest.approx(-math.log(0.75))
    smoothed = label_smoothed_loss(logits, target, smoothing=0.2, pad_id=PAD)
    assert float(smoothed.nats) == pytest.approx(-0.9 * math.log(0.75) - 0.1 * math.log(0.25))
    assert float(smoothed.cross_entropy) == pytest.approx(-math.log(0.75))
    assert smoothed.tokens == 1


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
def test_agrees_with_torch_in_value_and_gradient(smoothing: float) -> None:
    logits = torch.randn(3, 5, 11, dtype=torch.float32, requires_grad=True)
    targets = torch.randint(1, 11, (3, 5))
    targets[0, 3:] = PAD
    targets[2, 1:] = PAD
    ours = label_smoothed_loss(logits, targets, smoothing=smoothing, pad_id=PAD)
    (gradient,) = torch.autograd.grad(ours.nats, logits)
    reference = F.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), label_smoothing=smoothing, ignore_index=PAD, reduction="sum"
    )
    (reference_gradient,) = torch.autograd.grad(reference, logits)
    torch.testing.assert_close(ours.nats, reference)
    torch.testing.assert_close(gradient, reference_gradient)
    assert ours.tokens == 3 + 5 + 1
    assert (gradient[0, 3:] == 0).all(), "padding never counts"


def test_is_a_sum_so_that_parts_add_up() -> None:
    logits, targets = torch.randn(7, 13), torch.randint(1, 13, (7,))
    whole = label_smoothed_loss(logits, targets, smoothing=0.1, pad_id=PAD)
    parts = [label_smoothed_loss(logits[s], targets[s], smoothing=0.1, pad_id=PAD) for s in (slice(0, 2), slice(2, 7))]
    torch.testing.assert_close(whole.nats, parts[0].nats + parts[1].nats)
    assert whole.tokens == parts[0].tokens + parts[1].tokens


def test_half_precision_logits_are_summed_in_fp32() -> None:
    loss = label_smoothed_loss(torch.randn(3, 7).bfloat16(), torch.tensor([1, 2, 3]), smoothing=0.1, pad_id=PAD)
    assert loss.nats.dtype == torch.float32


@pytest.mark.parametrize("smoothing", [-0.1, 1.0])
def test_refuses_smoothing_that_is_no_probability(smoothing: float) -> None:
    with pytest.raises(ValueError, match=f"smoothing = {smoothing} must be at least 0 and less than 1"):
        label_smoothed_loss(torch.zeros(1, 2), torch.tensor([1]), smoothing=smoothing, pad_id=PAD)


def test_gradient_by_finite_differences_over_several_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("translate.training.loss._chunk_rows", lambda vocab_size: 3)
    logits = torch.randn(7, 5, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([1, 2, PAD, 3, 4, 1, PAD])
    assert torch.autograd.gradcheck(
        lambda x: label_smoothed_loss(x, targets, smoothing=0.1, pad_id=PAD).nats, (logits,), fast_mode=False
    )
