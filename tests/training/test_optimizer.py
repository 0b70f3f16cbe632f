"""Adam's step against a hand calculation; state that travels through named tensors."""

import copy

import pytest
import torch
from torch import nn

from translate.config import TrainingConfig
from translate.distributed.process_group import SINGLE_PROCESS
from translate.distributed.state import load_optimizer_state_dict, optimizer_state_dict
from translate.training.average import AveragedWeights
from translate.training.optimizer import SharedOptimizer, build_optimizer
from translate.training.workers import Layout, Workers


def build(kind: str, **settings: float) -> tuple[nn.Linear, torch.optim.Optimizer]:
    model = nn.Linear(3, 2)
    nn.init.constant_(model.weight, 0.5)
    nn.init.constant_(model.bias, 0.5)
    optimizer = build_optimizer(model, TrainingConfig(optimizer=kind, **settings))  # type: ignore[arg-type]
    for group in optimizer.param_groups:
        group["lr"] = 0.1
    return model, optimizer


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


@pytest.mark.parametrize("num_workers", [2, 3, 7])  # of five parameters
def test_shared_steps_are_the_optimizers_own(num_workers: int) -> None:
    """To the last bit, from a state that was read in too; and the optimizer has all of it."""
    torch.manual_seed(3)
    first = nn.Sequential(nn.Linear(31, 29), nn.LayerNorm(29), nn.Linear(29, 23, bias=False))
    second = copy.deepcopy(first)
    settings = TrainingConfig(optimizer="adamw", weight_decay=0.01)
    alone, other = build_optimizer(first, settings), build_optimizer(second, settings)
    with Workers(Layout(num_workers, 1)) as workers:
        shared = SharedOptimizer(other, workers)
        for number in range(1, 6):
            if number == 4:
                saved = optimizer_state_dict(second, other)
                load_optimizer_state_dict(second, other, saved, SINGLE_PROCESS)
            for mine, theirs in zip(first.parameters(), second.parameters(), strict=True):
                mine.grad = torch.randn_like(mine)
                theirs.grad = mine.grad.clone()
            for optimizer in (alone, other):
                for group in optimizer.param_groups:
                    group["lr"] = 0.1 / number
            alone.step()
            shared.step()
    for mine, theirs in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    expected, found = optimizer_state_dict(first, alone), optimizer_state_dict(second, other)
    assert expected.keys() == found.keys() and len(found) == 15
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())


@pytest.mark.parametrize("kind", ["adam", "adamw"])
def test_state_goes_out_and_in(kind: str) -> None:
    def step(model: nn.Linear, optimizer: torch.optim.Optimizer, number: int) -> None:
        torch.manual_seed(number)
        model.weight.grad, model.bias.grad = torch.randn(2, 3), torch.randn(2)
        optimizer.step()

    model, optimizer = build(kind)
    step(model, optimizer, 1)
    step(model, optimizer, 2)
    weights, saved = model.state_dict(), optimizer_state_dict(model, optimizer)
    assert set(saved) == {
        f"{name}/{entry}" for name in ("weight", "bias") for entry in ("step", "exp_avg", "exp_avg_sq")
    }
    other_model, other_optimizer = build(kind)
    other_model.load_state_dict(weights)
    load_optimizer_state_dict(other_model, other_optimizer, saved, SINGLE_PROCESS)
    step(model, optimizer, 3)
    step(other_model, other_optimizer, 3)
    assert torch.equal(model.weight, other_model.weight)


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


def test_average_is_lent_and_given_back_even_after_an_error() -> None:
    model, _ = build("adam")
    average = AveragedWeights(model, decay=0.5)
    own = model.weight.data_ptr()
    with torch.no_grad():
        model.weight.fill_(7.0)
    with pytest.raises(RuntimeError, match="on purpose"), average.lent_to(model):
        torch.testing.assert_close(model.weight.data, torch.full((2, 3), 0.5))
        raise RuntimeError("on purpose")
    assert model.weight.data_ptr() == own
    torch.testing.assert_close(model.weight.data, torch.full((2, 3), 7.0))
