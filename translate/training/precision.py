"""Mixed precision: the types of a training step's products, TF32, kernels that repeat themselves.

All of this holds within a step only: validation computes as `translate eval` does.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import torch

from translate.config.schema import TrainingConfig
from translate.model.device import Precision, choose_precision, has_streams

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class MixedPrecision(NamedTuple):
    """The number types and kernels of a training step."""

    device: torch.device
    name: Precision
    tf32: bool = False  # for fp32 products on CUDA
    deterministic: bool = False  # on CUDA

    @classmethod
    def choose(cls, settings: TrainingConfig, device: torch.device) -> "MixedPrecision":
        """Choose what the settings mean on this device; must be called before anything is computed there."""
        if has_streams(device) and settings.deterministic:
            # cuBLAS repeats its results with a workspace of a fixed size, which it takes with its first product:
            # https://docs.nvidia.com/cuda/cublas, results reproducibility.
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        name = choose_precision(settings.precision, device)
        return cls(device, name, tf32=settings.tf32, deterministic=settings.deterministic)

    @property
    def dtype(self) -> torch.dtype:
        """The type of matrix products."""
        return _DTYPES[self.name]

    def autocast(self) -> torch.autocast:
        """A context for the forward pass, in the thread that computes it, with products of this precision."""
        return torch.autocast(self.device.type, dtype=self.dtype, enabled=self.name != "fp32")

    @contextlib.contextmanager
    def in_step(self) -> Iterator[None]:
        """A context for a whole step, in all threads, with TF32 and deterministic kernels on CUDA as the settings say.

        Deterministic kernels give the same bits each time, without which a continued run would differ from one that
        was never stopped; without them flash attention's backward pass is quicker.
        """
        if not has_streams(self.device):
            yield
            return
        matmul, checks = torch.backends.cuda.matmul, cast(Any, torch.utils.deterministic)
        before = matmul.allow_tf32, checks.fill_uninitialized_memory
        modes = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
        if self.tf32:
            # Not by `fp32_precision`, behind whose back torch.compile asks for the older setting, which then raises:
            # https://github.com/pytorch/pytorch/issues/166387.
            matmul.allow_tf32 = True
        if self.deterministic:
            torch.use_deterministic_algorithms(True)
            checks.fill_uninitialized_memory = False  # it takes time and only helps to find mistakes
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(modes[0], warn_only=modes[1])
            matmul.allow_tf32, checks.fill_uninitialized_memory = before
