"""Mixed precision: the types of a training step's products, TF32, kernels that repeat themselves, the fp16 loss scale.

All of this holds within a step only: validation computes as `translate eval` does.
"""

import contextlib
import dataclasses
import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from translate.config.schema import TrainingConfig
from translate.model.device import Precision, choose_precision

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

# The values of torch.amp.GradScaler.
_FIRST_SCALE = 2.0**16
_STEPS_BEFORE_GROWTH = 2000


class MixedPrecision(NamedTuple):
    """The number types and kernels of a training step."""

    device: torch.device
    name: Precision
    tf32: bool = False  # for fp32 products on CUDA
    deterministic: bool = False  # on CUDA

    @classmethod
    def choose(cls, settings: TrainingConfig, device: torch.device) -> "MixedPrecision":
        """Choose what the settings mean on this device; must be called before anything is computed there."""
        if device.type == "cuda" and settings.deterministic:
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
        if self.device.type != "cuda":
            yield
            return
        matmul, checks = torch.backends.cuda.matmul, cast(Any, torch.utils.deterministic)
        tf32 = ("fp32_precision", "tf32") if hasattr(matmul, "fp32_precision") else ("allow_tf32", True)  # torch 2.8
        before = getattr(matmul, tf32[0]), checks.fill_uninitialized_memory
        modes = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
        if self.tf32:
            setattr(matmul, *tf32)
        if self.deterministic:
            torch.use_deterministic_algorithms(True)
            checks.fill_uninitialized_memory = False  # it takes time and only helps to find mistakes
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(modes[0], warn_only=modes[1])
            setattr(matmul, tf32[0], before[0])
            checks.fill_uninitialized_memory = before[1]


@dataclasses.dataclass
class LossScale:
    """A power of two by which the loss is multiplied, so that small gradients do not vanish in fp16.

    It grows and shrinks like that of `torch.amp.GradScaler`. But a step whose gradients overflow is not skipped: it is
    repeated with half the scale.

    Source: Micikevicius et al. 2018, https://arxiv.org/abs/1710.03740, section 3.2.
    """

    scale: float = _FIRST_SCALE
    good_steps: int = 0  # in a row, with this scale

    def unscale_(self, gradients: Iterable[Tensor | None]) -> None:
        """Divide the gradients of a scaled loss by the scale."""
        torch._foreach_mul_([gradient for gradient in gradients if gradient is not None], 1.0 / self.scale)

    def shrink(self) -> bool:
        """Halve the scale after an overflow; returns False if there is no smaller one to try."""
        self.good_steps = 0
        if self.scale <= 1.0:
            return False
        self.scale /= 2.0
        return True

    def keep(self) -> None:
        """Count a step without an overflow; after many in a row the scale is doubled."""
        self.good_steps += 1
        if self.good_steps == _STEPS_BEFORE_GROWTH:
            self.scale, self.good_steps = self.scale * 2.0, 0
