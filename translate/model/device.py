"""Where to compute, and in which arithmetic."""

import os
from typing import Any, Literal

import torch

from translate.distributed.environment import Place
from translate.errors import InputError

Precision = Literal["fp32", "bf16", "fp16"]


def choose_device(name: str, *, key: str = "device") -> torch.device:
    """The device that a config names; `auto` is the first CUDA device, else Apple's GPU, else the CPU.

    Args:
        key: Of the config, for an error that names it.

    Raises:
        InputError: A device that this machine lacks.
    """
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    device = torch.device(name)
    lacks_cuda = device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count()
    lacks_mps = device.type == "mps" and not torch.backends.mps.is_available()
    if lacks_cuda or lacks_mps:
        raise InputError(f"{key} = {name}: this machine has no such device; use {key}=auto or {key}=cpu")
    return device


def choose_precision(name: Literal["auto"] | Precision, device: torch.device) -> Precision:
    """The arithmetic that a config names; `auto` is bf16 where the hardware multiplies it, else fp32."""
    if name != "auto":
        return name
    match device.type:
        case "cuda":
            return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"
        case "cpu":
            capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
            return "bf16" if capabilities.get("avx512_bf16") or capabilities.get("amx_bf16") else "fp32"
        case _:
            return "fp32"


def num_cores() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def share_threads(place: Place) -> int:
    """CPU threads for this process, where it is not alone on its machine: an equal part of those that there are."""
    return max(1, num_cores() // place.local_size)
