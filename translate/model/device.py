"""Where to compute, what a device can do, and a clear error when memory runs out.

No other module asks for a kind of GPU by name: code for CUDA serves any device with PyTorch's streams.
"""

import contextlib
import gc
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from translate.errors import InputError, RunError
from translate.memory import describe_memory, free_memory, is_out_of_memory, release_free_memory

# Otherwise the last bits of MKL's products may depend on where in memory their factors are, as seen on an AMD EPYC: of
# thirty trainings that were stopped and resumed, three then had other bits than one that was not. MKL reads this once.
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")

_LIKE_APPLES = {"mps"}  # kinds of GPU without all of CUDA's features and without double precision
LOADING_HINT = "Close other programs, load fewer models, or use a machine with more memory."


def choose_device(name: str, *, key: str = "device") -> torch.device:
    """The device that a config names under `key`; `auto` takes a GPU if there is one, else the CPU.

    If there are several kinds, CUDA (including ROCm) comes before Intel's (xpu) and Apple's (mps).

    Raises:
        InputError: This machine has no such device.
    """
    if name == "auto":
        kinds = (kind for kind in ("cuda", "xpu", "mps") if torch.get_device_module(kind).is_available())
        return torch.device(next(kinds, "cpu"))
    with contextlib.suppress(RuntimeError):  # not a device name of PyTorch
        device = torch.device(name)
        module = torch.get_device_module(device)
        if module.is_available() and (device.index or 0) < module.device_count():
            return device
    raise InputError(f"{key} = {name}: this machine has no such device; use {key}=auto or {key}=cpu")


def is_asynchronous(device: torch.device) -> bool:
    """Whether the device is a GPU that works through a queue while the host goes on, as with CUDA's streams.

    Such a device has events, copies from pinned memory, fused optimizers, and fused attention with gradients. The CPU
    and, in PyTorch, Apple's GPU do not have all of these.
    """
    return device.type not in {"cpu", *_LIKE_APPLES}


def widest_float(device: torch.device) -> torch.dtype:
    """The most precise type of the device: fp64, but fp32 on Apple's GPU, which has no fp64."""
    return torch.float32 if device.type in _LIKE_APPLES else torch.float64


def compiles_for_each_shape(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether products run kernels that are compiled for each shape, as oneDNN does on a CPU.

    The first product of a shape takes several times as long as the next one, so it is faster to round sizes up until
    few shapes are left; see `varlen.flatten`.
    """
    return device.type == "cpu" and dtype in {torch.bfloat16, torch.float16}


def measures_memory(device: torch.device) -> bool:
    """Whether PyTorch can report the device's free and peak memory, and limit its own use."""
    return hasattr(torch.get_device_module(device), "mem_get_info")


def copy_to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor from the CPU, where possible without waiting for the device."""
    return tensor.pin_memory().to(device, non_blocking=True) if is_asynchronous(device) else tensor.to(device)


def copy_all_to_device(tensors: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """Copies of whole numbers on the CPU to a device, all in one transfer."""
    parts = copy_to_device(torch.cat([tensor.flatten() for tensor in tensors]), device)
    sizes = [tensor.numel() for tensor in tensors]
    return [part.view(like.shape).to(like.dtype) for part, like in zip(parts.split(sizes), tensors, strict=True)]


def copy_to_host(*tensors: Tensor) -> list[Tensor]:
    """Copies of tensors on the CPU, all in one transfer: the host waits for the device once."""
    if all(tensor.device.type == "cpu" for tensor in tensors):
        return list(tensors)
    parts = [tensor.contiguous().flatten().view(torch.uint8) for tensor in tensors]
    copied = torch.cat(parts).cpu().split([len(part) for part in parts])
    return [part.clone().view(like.dtype).view(like.shape) for part, like in zip(copied, tensors, strict=True)]


def start_copy_to_host(tensor: Tensor) -> Callable[[], Tensor]:
    """Start copying a tensor to the CPU; the returned function waits for the copy, but not for later work."""
    if not is_asynchronous(tensor.device):
        return tensor.cpu
    copied = tensor.to("cpu", non_blocking=True)
    event = torch.get_device_module(tensor.device).current_stream(tensor.device).record_event()

    def wait() -> Tensor:
        event.synchronize()
        return copied

    return wait


def threads_per_process(num_processes: int) -> int:
    """CPU threads for each of several processes that share this machine: an equal part of its cores."""
    num_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, num_cores // num_processes)


class OutOfMemory(RunError):
    """The device does not have enough memory for the computation."""


def check_free_memory(num_bytes: int, device: torch.device, *, doing: str, hint: str) -> None:
    """Refuse work that needs more memory than is free, before any of it is allocated.

    Raises:
        OutOfMemory: The device does not have that much memory; Apple's GPU shares the machine's.
    """
    if measures_memory(device):
        module = torch.get_device_module(device)
        unused = module.memory_reserved(device) - module.memory_allocated(device)
        free: int | None = module.mem_get_info(device)[0] + unused
    else:
        free = free_memory()
        if free is not None and num_bytes > free:  # perhaps a training run before this one kept what it freed
            gc.collect()
            release_free_memory()
            free = free_memory()
    if free is not None and num_bytes > free:
        place = "" if device.type == "cpu" else f" on {device}"
        needed, available = describe_memory(num_bytes), describe_memory(free)
        raise OutOfMemory(f"{doing} needs at least {needed} of memory, and {available} are free{place}. {hint}")


def check_loading(path: Path, num_bytes: int) -> None:
    """Refuse to load a file whose content needs more memory than is free; see `check_free_memory`."""
    hint = f"Is the file damaged? If not: {LOADING_HINT}"
    check_free_memory(num_bytes, torch.device("cpu"), doing=f"loading {path}", hint=hint)


@contextlib.contextmanager
def explain_out_of_memory(doing: str, *, hint: str) -> Iterator[None]:
    """Turn a failed allocation into an error that says what was being computed and which settings need less memory.

    If these contexts are nested, the outermost one writes the message: it knows best what the user can change.

    Raises:
        OutOfMemory: The device does not have enough memory.
    """
    try:
        yield
    except (OutOfMemory, RuntimeError, MemoryError) as error:
        refusal = error.__cause__ if isinstance(error, OutOfMemory) else error
        if not is_out_of_memory(refusal):
            raise
        # The first two sentences say how much was requested; the rest is advice on tuning the allocator.
        reason = ". ".join(str(refusal).split("\n")[0].split(". ")[:2]).rstrip(".")
        raise OutOfMemory(f"out of memory on {doing}{f' ({reason})' if reason else ''}. {hint}") from refusal
