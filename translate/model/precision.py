"""Number types of a computation: how `auto` is resolved, and the precision of a training step."""

import contextlib
import os
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, cast

import torch

from translate.config.schema import TrainingConfig
from translate.model.device import is_asynchronous

Precision = Literal["fp32", "bf16", "fp16"]


def choose_precision(name: Literal["auto"] | Precision, device: torch.device) -> Precision:
    """The precision that a config names; `auto` is bf16 where the device multiplies faster in it, else fp32."""
    if name != "auto":
        return name
    if device.type == "cpu":
        capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
        # Intel needs AMX for that: with AVX-512 alone, its bf16 products took longer than fp32 (docs/performance.md).
        by_avx512 = capabilities.get("avx512_bf16") and "Intel" not in capabilities.get("cpu_name", "")
        return "bf16" if by_avx512 or capabilities.get("amx_bf16") else "fp32"
    if is_asynchronous(device) and torch.get_device_module(device).is_bf16_supported(including_emulation=False):
        return "bf16"
    return "fp32"


class MixedPrecision(NamedTuple):
    """The number types and kernels of a training step; validation computes as `translate eval` does."""

    device: torch.device
    name: Precision
    tf32: bool = False  # for fp32 products on CUDA
    deterministic: bool = False  # on CUDA

    @classmethod
    def choose(cls, settings: TrainingConfig, device: torch.device) -> "MixedPrecision":
        """Resolve the settings for this device; call this before computing anything there."""
        if is_asynchronous(device) and settings.deterministic:
            # cuBLAS is deterministic with a workspace of a fixed size, which it allocates with its first product:
            # https://docs.nvidia.com/cuda/cublas, results reproducibility.
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        name = choose_precision(settings.precision, device)
        return cls(device, name, tf32=settings.tf32, deterministic=settings.deterministic)

    @property
    def dtype(self) -> torch.dtype:
        """The type of matrix products."""
        return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[self.name]

    def autocast(self) -> torch.autocast:
        """A context for the forward pass, in the thread that computes it, with products in this precision."""
        return torch.autocast(self.device.type, dtype=self.dtype, enabled=self.name != "fp32")

    @contextlib.contextmanager
    def in_step(self) -> Iterator[None]:
        """A context for a whole step, in all threads, with TF32 and deterministic kernels on CUDA as the settings say.

        Deterministic kernels give the same bits each time, so a resumed run equals one that was never stopped.
        Without them flash attention's backward pass is faster.
        """
        if not is_asynchronous(self.device):
            yield
            return
        matmul, checks = torch.backends.cuda.matmul, cast(Any, torch.utils.deterministic)
        before = matmul.allow_tf32, checks.fill_uninitialized_memory
        modes = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
        if self.tf32:
            # Not with `fp32_precision`: torch.compile reads the older setting, which then raises an error:
            # https://github.com/pytorch/pytorch/issues/166387.
            matmul.allow_tf32 = True
        if self.deterministic:
            torch.use_deterministic_algorithms(True)
            checks.fill_uninitialized_memory = False  # it takes time and only helps to find bugs
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(modes[0], warn_only=modes[1])
            matmul.allow_tf32, checks.fill_uninitialized_memory = before
