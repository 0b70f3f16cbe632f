"""The device `pretend` itself: what it refuses, counts and casts. Trainings and searches on it show its numbers."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from pretend_device import ELSEWHERE, Crossings, PretendDevice
from torch import Tensor, nn

HERE = {ELSEWHERE: 1}


def counts(crossings: Crossings) -> tuple[int, int, int]:
    return crossings.synchronisations.total(), crossings.to_device.total(), crossings.to_host.total()


def device_and_host(pretend: PretendDevice) -> tuple[Tensor, Tensor]:
    return torch.ones(2, 2, device=pretend.device), torch.ones(2, 2)


REFUSED: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "sum": lambda there, here: there + here,
    "sum with a number of the device": lambda there, here: here + there[0, 0],
    "in place": lambda there, here: here.add_(there),
    "into a number of the host": lambda there, here: here[0, 0].add_(there[0, 0]),
    "linear": lambda there, here: F.linear(here, there),
    "concatenation": lambda there, here: torch.cat([there, here]),
    "mask": lambda there, here: there.masked_fill(here > 0, 0.0),
    "embedding": lambda there, here: F.embedding(here.long(), there),
    "indices of the device": lambda there, here: here[there.long()],
    "values to indices": lambda there, here: there.index_put_((torch.tensor([0]),), here[:1]),
    "out": lambda there, here: torch.add(there, there, out=here),
    "foreach": lambda there, here: torch._foreach_add_([there], [here]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_tensors_of_the_host_and_of_the_device_do_not_mix(pretend: PretendDevice, name: str) -> None:
    there, here = device_and_host(pretend)
    with pytest.raises(RuntimeError, match="on the same device|should be either on"):
        REFUSED[name](there, here)


# Waits, copies to the device, copies to the host.
COUNTED: dict[str, tuple[Callable[[Tensor, Tensor], Any], tuple[int, int, int]]] = {
    # Numbers of the host are arguments of kernels, and cross nothing.
    "sum": (lambda there, here: there + here[0, 0], (0, 0, 0)),
    "choice": (lambda there, here: torch.where(there > 0, there, here[0, 0]), (0, 0, 0)),
    "filling": (lambda there, here: there.masked_fill(there > 0, here[0, 0]), (0, 0, 0)),
    "assignment of a number": (lambda there, here: there.__setitem__((0, slice(None)), 3.0), (0, 0, 0)),
    "masks": (lambda there, here: there.masked_fill(there > 0, -1.0).any(), (0, 0, 0)),
    "growth": (lambda there, here: torch.cat([there, there.new_zeros(1, 2)]), (0, 0, 0)),
    "attention": (lambda there, here: F.scaled_dot_product_attention(there[None], there[None], there[None]), (0, 0, 0)),
    "item": (lambda there, here: there[0, 0].item(), (1, 0, 0)),
    "bool": (lambda there, here: bool(there.any()), (1, 0, 0)),
    "tolist": (lambda there, here: there.tolist(), (1, 0, 1)),
    "cpu": (lambda there, here: there.cpu(), (1, 0, 1)),
    "cpu without waiting": (lambda there, here: there.to("cpu", non_blocking=True), (0, 0, 1)),
    "equal": (lambda there, here: torch.equal(there, there), (1, 0, 0)),
    "nonzero": (lambda there, here: there.nonzero(), (1, 0, 0)),
    "boolean index": (lambda there, here: there[there > 0], (1, 0, 0)),
    "indices of the device": (lambda there, here: there[there[0].long()], (0, 0, 0)),
    "indices of the host": (lambda there, here: there[here[0].long()], (1, 1, 0)),
    "number at indices of the device": (lambda there, here: there.__setitem__(there[0].long(), 3.0), (1, 1, 0)),
    "assignment at indices of the host": (lambda there, here: there.__setitem__(here[0].long(), there + 1), (1, 1, 0)),
    "tensor": (lambda there, here: torch.tensor([2], device=there.device), (1, 1, 0)),
    "to": (lambda there, here: here.to(there.device), (1, 1, 0)),
    "to of pinned memory": (lambda there, here: here.pin_memory().to(there.device, non_blocking=True), (0, 1, 0)),
    "copy to the device": (lambda there, here: there.copy_(here), (1, 1, 0)),
    "synchronize": (lambda there, here: torch.get_device_module(there.device).synchronize(), (1, 0, 0)),
}


@pytest.mark.parametrize("name", COUNTED)
def test_crossings_are_counted(pretend: PretendDevice, name: str) -> None:
    there, here = device_and_host(pretend)
    cross, expected = COUNTED[name]
    with pretend.counting() as crossings:
        cross(there, here)
    assert counts(crossings) == expected
    assert all(counter == HERE for counter in crossings if counter)
    cross(there, here)
    assert counts(crossings) == expected  # later ones are not


def test_a_wait_for_an_event_is_none_for_the_work(pretend: PretendDevice) -> None:
    with pretend.counting() as crossings:
        event = torch.get_device_module("pretend").current_stream().record_event()
        event.synchronize()
    assert counts(crossings) == (0, 0, 0) and crossings.event_waits == HERE


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_is_that_of_cuda(pretend: PretendDevice, dtype: torch.dtype) -> None:
    linear = nn.Linear(3, 5).to(pretend.device)
    inputs = torch.randn(2, 3).to(pretend.device)
    with torch.autocast("pretend", dtype=dtype):
        hidden = linear(inputs)
        assert hidden.dtype == dtype and (hidden @ hidden.T).dtype == dtype
        assert (inputs @ inputs.T).tolist() == (inputs.to(dtype) @ inputs.to(dtype).T).tolist()
        assert hidden.softmax(-1).dtype == hidden.sum().dtype == F.layer_norm(hidden, (5,)).dtype == torch.float32
        assert F.relu(hidden).dtype == dtype
        hidden.float().sum().backward()
        with torch.autocast("pretend", enabled=False):
            assert linear(inputs).dtype == torch.float32
    assert linear.weight.grad is not None and linear.weight.grad.dtype == torch.float32
    assert linear(inputs).dtype == torch.float32
