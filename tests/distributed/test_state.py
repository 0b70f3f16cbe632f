"""Full state dicts: a round trip through them gives a model and its optimizer back exactly."""

import torch

from translate.distributed.process_group import SINGLE_PROCESS
from translate.distributed.state import (
    full_state_dict,
    full_tensor,
    is_sharded,
    load_model_state_dict,
    load_optimizer_state_dict,
    optimizer_state_dict,
)


def test_a_model_and_its_optimizer_come_back_exactly() -> None:
    def build() -> tuple[torch.nn.Linear, torch.optim.Adam]:
        model = torch.nn.Linear(3, 2)
        return model, torch.optim.Adam(model.parameters(), lr=0.1)

    def step(model: torch.nn.Linear, optimizer: torch.optim.Adam) -> None:
        optimizer.zero_grad()
        model(torch.arange(3.0)).square().sum().backward()
        optimizer.step()

    model, optimizer = build()
    step(model, optimizer)
    weights = {name: tensor.clone() for name, tensor in full_state_dict(model.state_dict(), SINGLE_PROCESS).items()}
    state = {name: tensor.clone() for name, tensor in optimizer_state_dict(model, optimizer).items()}
    assert set(state) == {
        f"{name}/{entry}" for name in ("weight", "bias") for entry in ("step", "exp_avg", "exp_avg_sq")
    }

    other, other_optimizer = build()
    step(other, other_optimizer)  # so that there is other state to replace
    load_model_state_dict(other, weights, SINGLE_PROCESS)
    load_optimizer_state_dict(other, other_optimizer, state, SINGLE_PROCESS)
    step(model, optimizer)
    step(other, other_optimizer)
    assert all(torch.equal(*pair) for pair in zip(model.parameters(), other.parameters(), strict=True))


def test_a_plain_tensor_is_whole() -> None:
    tensor = torch.arange(5)
    assert not is_sharded(tensor)
    assert full_tensor(tensor) is tensor
