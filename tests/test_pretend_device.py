"""The harness's device itself: what it computes, what it refuses, and what it counts. Facts on CUDA are PyTorch's."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from pretend_device import ELSEWHERE, Crossings, PretendDevice
from torch import Tensor, nn
from torch.nn.attention.varlen import varlen_attn

HERE = {ELSEWHERE: 1}


def counts(crossings: Crossings) -> tuple[int, int, int]:
    return crossings.synchronisations.total(), crossings.to_device.total(), crossings.to_host.total()


MAKERS: list[Callable[[torch.device], Tensor]] = [
    lambda device: torch.tensor([2.0, 3.0], device=device),
    lambda device: torch.tensor([2.0, 3.0]).to(device),
    lambda device: torch.arange(2, 4, device=device).float(),
    lambda device: torch.linspace(2.0, 3.0, 2, device=device) + torch.eye(2, 3, device=device)[0, 1:],
    lambda device: torch.tensor([[3.0, 2.0]], device=device).flip(1).view(2),
]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("is_inference", [False, True])
def test_values_are_those_of_the_cpu(
    pretend: PretendDevice, make: Callable[[torch.device], Tensor], is_inference: bool
) -> None:
    with torch.inference_mode(is_inference):
        made = make(pretend.device)
        view = made[1:]
        view += 4.0
        assert made.device == torch.device("pretend:0") and not made.is_cpu
        assert made.tolist() == [2.0, 7.0]


@pytest.mark.parametrize("tied", [False, True])
def test_a_module_moves_there_and_back_with_its_ties(pretend: PretendDevice, tied: bool) -> None:
    module = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 3))
    if tied:
        module[2].weight = module[0].weight
    before = copy.deepcopy(module.state_dict())
    for device in (pretend.device, torch.device("cpu")):
        module.to(device)
        assert {tensor.device for tensor in (*module.parameters(), *module.buffers())} == {device}
        assert all(isinstance(parameter, nn.Parameter) for parameter in module.parameters())
        assert (module[2].weight is module[0].weight) == tied
    assert all(torch.equal(before[name], tensor) for name, tensor in module.state_dict().items())


def test_gradients_are_those_of_the_cpu(pretend: PretendDevice) -> None:
    def gradients(device: torch.device) -> list[Tensor]:
        torch.manual_seed(3)
        module, inputs = nn.Sequential(nn.Linear(3, 5), nn.GELU(), nn.LayerNorm(5)), torch.randn(7, 3)
        module.to(device)
        F.cross_entropy(module(inputs.to(device)), torch.arange(7, device=device) % 5).backward()
        return [parameter.grad.cpu() for parameter in module.parameters() if parameter.grad is not None]

    there, here = gradients(pretend.device), gradients(torch.device("cpu"))
    assert len(there) == 4 and all(map(torch.equal, there, here))


@pytest.mark.parametrize("fused", [False, True])
def test_optimizers_update_in_place(pretend: PretendDevice, fused: bool) -> None:
    def trained(device: torch.device) -> Tensor:
        weight = nn.Parameter(torch.tensor([1.0, 2.0]).to(device))
        optimizer = torch.optim.AdamW([weight], lr=0.1, fused=fused)
        for _ in range(3):
            optimizer.zero_grad()
            (weight**2).sum().backward()
            nn.utils.clip_grad_norm_([weight], 1.0)
            optimizer.step()
        return weight.detach().cpu()

    assert torch.allclose(trained(pretend.device), trained(torch.device("cpu")), rtol=1e-6)


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


ALLOWED: dict[str, Callable[[Tensor, Tensor], Any]] = {  # with numbers of the host, which kernels take as arguments
    "sum": lambda there, here: there + here[0, 0],
    "choice": lambda there, here: torch.where(there > 0, there, here[0, 0]),
    "filling": lambda there, here: there.masked_fill(there > 0, here[0, 0]),
    "assignment of a number": lambda there, here: there.__setitem__((0, slice(None)), 3.0),
    "masks": lambda there, here: there.masked_fill(there > 0, -1.0).any(),
    "growth": lambda there, here: torch.cat([there, there.new_zeros(1, 2)]),
    "attention": lambda there, here: F.scaled_dot_product_attention(there[None], there[None], there[None]),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_what_cuda_computes_crosses_nothing(pretend: PretendDevice, name: str) -> None:
    there, here = device_and_host(pretend)
    with pretend.counting() as crossings:
        ALLOWED[name](there, here)
    assert counts(crossings) == (0, 0, 0)


# Waits, copies to the device, copies to the host.
COUNTED: dict[str, tuple[Callable[[Tensor, Tensor], Any], tuple[int, int, int]]] = {
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


@pytest.mark.parametrize("is_causal", [False, True])
def test_flash_attention_is_attention_within_each_sequence(pretend: PretendDevice, is_causal: bool) -> None:
    lengths, cu_seqlens = (3, 1, 5), torch.tensor([0, 3, 4, 9], dtype=torch.int32)
    heads = torch.randn(3, 9, 2, 8, dtype=torch.bfloat16)
    there = [each.to(pretend.device).requires_grad_() for each in heads]
    here = [each.float().requires_grad_() for each in heads]
    window = (-1, 0) if is_causal else (-1, -1)
    output = varlen_attn(*there, cu_seqlens.to(pretend.device), cu_seqlens.to(pretend.device), 5, 5, window_size=window)
    parts = zip(*(each.transpose(0, 1).split(lengths, dim=1) for each in here), strict=True)
    expected = torch.cat([F.scaled_dot_product_attention(*part, is_causal=is_causal) for part in parts], dim=1)
    torch.testing.assert_close(output.cpu().float(), expected.transpose(0, 1), atol=0.01, rtol=0.01)
    weights = torch.randn(9, 2, 8)
    (output * weights.to(pretend.device)).sum().backward()
    (expected.transpose(0, 1) * weights).sum().backward()
    for mine, true in zip(there, here, strict=True):
        assert mine.grad is not None
        torch.testing.assert_close(mine.grad.cpu().float(), true.grad, atol=0.03, rtol=0.03)


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
