"""Adam's step against a hand calculation; state that travels through named tensors."""

import math
from typing import Any, get_args

import pytest
import torch
from harness import random_model
from torch import Tensor, nn

from translate.config.schema import TrainingConfig
from translate.model.device import OutOfMemory
from translate.training.optimizer import (
    AveragedWeights,
    Muon,
    build_optimizers,
    ends_at_max_steps,
    learning_rate,
    orthogonalize,
)


def build(kind: str, **settings: float) -> tuple[nn.Linear, torch.optim.Optimizer]:
    model = nn.Linear(3, 2)
    nn.init.constant_(model.weight, 0.5)
    nn.init.constant_(model.bias, 0.5)
    (optimizer,) = build_optimizers(model, TrainingConfig(optimizer=kind, **settings))  # type: ignore[arg-type]
    for group in optimizer.param_groups:
        group["lr"] = 0.1
    return model, optimizer


def test_a_moving_average_without_memory_names_its_key() -> None:
    class Large(nn.Linear):
        def named_parameters(self, *_: Any, **__: Any) -> Any:
            raise MemoryError

    with pytest.raises(OutOfMemory, match=r"training\.ema_decay"):
        AveragedWeights(Large(1, 1), decay=0.5)


def test_first_adam_step_by_hand() -> None:
    # The corrected moments of the first step are g and g², so the step is rate · g / (|g| + 1e-9) = 0.1 · sign(g).
    model, optimizer = build("adam")
    model.weight.grad = torch.tensor([[1.0, -2.0, 3.0], [-4.0, 5.0, -6.0]])
    model.bias.grad = torch.zeros(2)
    optimizer.step()
    torch.testing.assert_close(model.weight.data, torch.tensor([[0.4, 0.6, 0.4], [0.6, 0.4, 0.6]]))
    assert optimizer.param_groups[0]["betas"] == (0.9, 0.98)
    assert optimizer.param_groups[0]["eps"] == 1e-9


def test_decoupled_decay_spares_vectors() -> None:
    # AdamW with a zero gradient: weights shrink by 1 - 0.1 · 0.01, biases stay.
    model, optimizer = build("adamw", weight_decay=0.01)
    model.weight.grad, model.bias.grad = torch.zeros(2, 3), torch.zeros(2)
    optimizer.step()
    torch.testing.assert_close(model.weight.data, torch.full((2, 3), 0.4995))
    torch.testing.assert_close(model.bias.data, torch.full((2,), 0.5))


def test_average_by_hand() -> None:
    # Decay at step 1 is min(0.5, 2 / 11), at step 100 it is min(0.5, 101 / 110) = 0.5.
    model, _ = build("adam")
    average = AveragedWeights(model, decay=0.5)
    with torch.no_grad():
        model.weight.fill_(1.0)
    average.update(model, step=1)
    expected = 0.5 * 2 / 11 + 1.0 * 9 / 11
    torch.testing.assert_close(average.tensors["weight"], torch.full((2, 3), expected))
    average.update(model, step=100)
    torch.testing.assert_close(average.tensors["weight"], torch.full((2, 3), (expected + 1.0) / 2))


def rate(step: int, *, d_model: int = 512, **settings: Any) -> float:
    return learning_rate(step, TrainingConfig(**settings), d_model=d_model)


def test_noam_is_the_papers_formula() -> None:
    # d_model^-0.5 · min(step^-0.5, step · 4000^-1.5), d_model 512.
    assert rate(1) == pytest.approx(0.04419417 * 1 / 252982.2128, rel=1e-6)
    assert rate(4000) == pytest.approx(0.04419417 / 63.2455532, rel=1e-6)
    assert rate(16000) == pytest.approx(0.04419417 / 126.4911064, rel=1e-6)
    assert rate(100, learning_rate=2.0) == pytest.approx(2 * rate(100))


# After a warm-up of 10 of 110 steps to a rate of 0.01: the rates in the middle and at the end, by hand.
AFTER_WARM_UP: dict[str, tuple[float, float]] = {
    "noam": (0.01 * 16**-0.5 * 60**-0.5, 0.01 * 16**-0.5 * 110**-0.5),
    "inverse_sqrt": (0.01 * math.sqrt(10 / 60), 0.01 * math.sqrt(10 / 110)),
    "constant": (0.01, 0.01),
    "linear": (0.0055, 0.001),
    "cosine": (0.0055, 0.001),
    "wsd": (0.01, 0.001),
}


@pytest.mark.parametrize("schedule", get_args(TrainingConfig.model_fields["schedule"].annotation))
def test_each_schedule_by_hand(schedule: str) -> None:
    middle, end = AFTER_WARM_UP[schedule]
    settings: dict[str, Any] = {"schedule": schedule, "learning_rate": 0.01, "warmup_steps": 10, "max_steps": 110}
    settings["final_learning_rate"] = 0.001
    peak = 0.01 * 16**-0.5 * 10**-0.5 if schedule == "noam" else 0.01
    for step, expected in ((1, peak / 10), (5, peak / 2), (10, peak), (60, middle), (110, end)):
        assert rate(step, d_model=16, **settings) == pytest.approx(expected)
    for changed in ({}, {"final_learning_rate": 0.01}, {"max_steps": 9}):
        assert ends_at_max_steps(TrainingConfig(**settings | changed)) == (end == 0.001)


def test_wsd_decays_in_the_last_steps() -> None:
    settings = {"schedule": "wsd", "learning_rate": 0.01, "warmup_steps": 10, "max_steps": 110, "decay_share": 0.4}
    rates = [rate(step, **settings) for step in (10, 70, 80, 110)]
    assert rates == pytest.approx([0.01, 0.01, 0.005, 0.0])  # a quarter of the decay: its root is a half


def test_no_warm_up() -> None:
    assert rate(1, schedule="linear", learning_rate=0.01, warmup_steps=0, max_steps=100) == pytest.approx(0.0099)
    assert rate(1, schedule="inverse_sqrt", learning_rate=0.01, warmup_steps=0) == pytest.approx(0.01)


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="PyTorch has Muon from version 2.9 on")
def test_muon_is_torchs_muon_for_each_projection_and_adamw_for_the_rest() -> None:
    model = random_model(23, activation="swiglu", d_model=12, num_heads=3, d_ff=20)
    ours = build_optimizers(model, TrainingConfig(optimizer="muon", weight_decay=0.1))
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    parts = {"input_projection.weight": 3, "inner.weight": 2}
    copies: list[tuple[Tensor, list[nn.Parameter]]] = []
    theirs: list[torch.optim.Optimizer] = []
    for name, parameter in model.named_parameters():
        is_matrix = parameter.dim() == 2 and "layers." in name
        number = next((count for end, count in parts.items() if name.endswith(end)), 1)
        projections = [nn.Parameter(each.detach().clone()) for each in parameter.chunk(number)]
        copies.append((parameter, projections))
        if is_matrix:
            theirs.append(torch.optim.Muon(projections, lr=0.01, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"))
        else:
            decay = 0.1 if parameter.dim() > 1 else 0.0
            theirs.append(torch.optim.AdamW(projections, lr=0.01, betas=(0.9, 0.98), eps=1e-9, weight_decay=decay))
    for group in (group for optimizer in ours for group in optimizer.param_groups):
        group["lr"] = 0.01
    for _ in range(3):
        for parameter, projections in copies:
            parameter.grad = torch.randn_like(parameter)
            for projection, gradient in zip(projections, parameter.grad.chunk(len(projections)), strict=True):
                projection.grad = gradient.clone()
        for optimizer in (*ours, *theirs):
            optimizer.step()
    for (name, old), (parameter, projections) in zip(before.items(), copies, strict=True):
        # Torch iterates in bf16; an update has a root mean square of 0.002.
        torch.testing.assert_close(parameter.data, torch.cat([each.data for each in projections]), rtol=0, atol=3e-4)
        assert not torch.allclose(parameter.data, old, rtol=0, atol=1e-3), name


@pytest.mark.parametrize("shape", [(3, 40, 12), (3, 12, 40), (3, 16, 16)])
def test_orthogonal_matrices_keep_their_directions(shape: tuple[int, int, int]) -> None:
    matrices = torch.randn(shape)
    u, _, v = torch.linalg.svd(matrices, full_matrices=False)
    found = orthogonalize(matrices)
    assert torch.linalg.svdvals(found).sub(0.95).abs().max() < 0.35
    # The singular vectors stay, so the product with each pair of them is the new singular value.
    crossed = u.mT @ found @ v.mT
    torch.testing.assert_close(crossed, crossed.diagonal(dim1=1, dim2=2).diag_embed(), rtol=0, atol=0.05)


def test_a_step_of_muon_whose_gradient_is_not_finite_changes_nothing() -> None:
    weights = [nn.Parameter(torch.randn(6, 5)) for _ in range(2)]
    muon = Muon(dict.fromkeys(weights, 1), weight_decay=0.1)
    muon.param_groups[0]["lr"] = 0.1

    def step(found_inf: float, *gradients: Tensor) -> list[Tensor]:
        weights[0].grad, weights[1].grad = gradients
        muon.found_inf = torch.tensor(found_inf)
        muon.step()
        return [*(weight.detach().clone() for weight in weights), *(muon.state[w]["exp_avg"].clone() for w in weights)]

    before = step(0.0, torch.randn(6, 5), torch.randn(6, 5))
    spoiled = step(1.0, torch.randn(6, 5), torch.full((6, 5), math.nan))
    after = step(0.0, torch.randn(6, 5), torch.randn(6, 5))
    assert all(map(torch.equal, before, spoiled)) and not any(map(torch.equal, spoiled, after))
