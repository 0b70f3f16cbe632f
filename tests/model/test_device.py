"""Devices and arithmetic, on a machine that the test pretends to have."""

import functools
from typing import Any

import pytest
import torch
from pretend_device import PretendDevice

from translate.errors import InputError
from translate.model.device import choose_device, copy_to_device, is_asynchronous, measures_memory, start_copy_to_host
from translate.model.precision import choose_precision


def have_devices(
    monkeypatch: pytest.MonkeyPatch, *, cuda_devices: int = 0, xpu: bool = False, mps: bool = False
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda_devices > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda_devices)
    for module, is_there in ((torch.xpu, xpu), (torch.mps, mps)):
        monkeypatch.setattr(module, "is_available", functools.partial(bool, is_there))
        monkeypatch.setattr(module, "device_count", functools.partial(int, is_there))


@pytest.mark.parametrize(
    ("cuda_devices", "xpu", "mps", "expected"),
    [(2, True, True, "cuda"), (1, False, False, "cuda"), (0, True, True, "xpu"), (0, False, True, "mps")]
    + [(0, False, False, "cpu")],
)
def test_auto_takes_the_best_there_is(
    monkeypatch: pytest.MonkeyPatch, cuda_devices: int, xpu: bool, mps: bool, expected: str
) -> None:
    have_devices(monkeypatch, cuda_devices=cuda_devices, xpu=xpu, mps=mps)
    assert choose_device("auto") == torch.device(expected)


def test_a_named_device_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    have_devices(monkeypatch, cuda_devices=2, xpu=True, mps=True)
    for name in ("cpu", "cuda", "cuda:0", "cuda:1", "xpu", "xpu:0", "mps"):
        assert choose_device(name) == torch.device(name)


@pytest.mark.parametrize("name", ["cuda:2", "cuda:97", "mps", "mps:1", "xpu", "hpu", "gpu"])
def test_a_device_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    have_devices(monkeypatch, cuda_devices=2)
    with pytest.raises(InputError, match=f"^device = {name}: "):
        choose_device(name)
    have_devices(monkeypatch)
    with pytest.raises(InputError, match="^training.device = cuda: "):
        choose_device("cuda", key="training.device")


@pytest.mark.parametrize(("supported", "expected"), [(True, "bf16"), (False, "fp32")])
def test_auto_asks_cuda_without_emulation(monkeypatch: pytest.MonkeyPatch, supported: bool, expected: str) -> None:
    # A device that emulates bf16 says True when emulation counts; it would be slower than fp32.
    monkeypatch.setattr(
        torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation or supported
    )
    assert choose_precision("auto", torch.device("cuda")) == expected


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ({"avx512_bf16": True}, "bf16"),
        ({"avx512_bf16": True, "amx_bf16": False, "cpu_name": "AMD EPYC 9R14"}, "bf16"),
        ({"avx512_bf16": True, "amx_bf16": False, "cpu_name": "Intel Xeon"}, "fp32"),
        ({"avx512_bf16": True, "amx_bf16": True, "cpu_name": "Intel Xeon"}, "bf16"),
        ({"amx_bf16": True, "avx512_bf16": False}, "bf16"),
        ({"avx512_bf16": False, "amx_bf16": False, "avx2": True}, "fp32"),
        ({}, "fp32"),
    ],
)
def test_auto_asks_the_processor(monkeypatch: pytest.MonkeyPatch, capabilities: dict[str, Any], expected: str) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    assert choose_precision("auto", torch.device("cpu")) == expected


def test_auto_without_a_question_to_ask_is_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)  # torch before 2.9
    assert choose_precision("auto", torch.device("cpu")) == "fp32"
    assert choose_precision("auto", torch.device("mps")) == "fp32"


def test_an_asynchronous_device_is_given_work_and_not_waited_for(pretend: PretendDevice) -> None:
    assert choose_device("pretend") == torch.device("pretend") and is_asynchronous(pretend.device)
    assert choose_precision("auto", pretend.device) == "bf16"
    with pretend.counting() as crossings:
        copied = copy_to_device(torch.tensor([2, 3]), pretend.device)
        back = start_copy_to_host(copied)
    assert crossings.to_device.total() == 1 and not crossings.synchronisations and back().tolist() == [2, 3]
    assert copied.device == pretend.device and copied.tolist() == [2, 3]


@pytest.mark.parametrize(("name", "expected"), [("cuda", True), ("xpu", True), ("mps", False), ("cpu", False)])
def test_whose_memory_is_known(name: str, expected: bool) -> None:
    assert measures_memory(torch.device(name)) == expected
