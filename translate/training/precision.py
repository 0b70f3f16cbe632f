"""Mixed precision: the types of a training step's products, TF32, deterministic kernels, the loss scale of fp16.

All of this applies within a step only: validation computes as `translate eval` does.
"""

import contextlib
import dataclasses
import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from translate.config.schema import TrainingConfig
from translate.model.device import Precision, choose_precision, has_streams
from translate.runs.progress import LossScaleState

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
_STEPS_BEFORE_GROWTH = 2000  # as in torch.amp.GradScaler


class MixedPrecision(NamedTuple):
    """The number types and kernels of a training step."""

    device: torch.device
    name: Precision
    tf32: bool = False  # for fp32 products on CUDA
    deterministic: bool = False  # on CUDA

    @classmethod
    def choose(cls, settings: TrainingConfig, device: torch.device) -> "MixedPrecision":
        """Choose what the settings mean on this device; call this before anything is computed there."""
        if has_streams(device) and settings.deterministic:
            # cuBLAS is deterministic with a workspace of a fixed size, which it allocates with its first product:
            # https://docs.nvidia.com/cuda/cublas, results reproducibility.
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        name = choose_precision(settings.precision, device)
        return cls(device, name, tf32=settings.tf32, deterministic=settings.deterministic)

    @property
    def dtype(self) -> torch.dtype:
        """The type of matrix products."""
        return _DTYPES[self.name]

    def autocast(self) -> torch.autocast:
        """A context for the forward pass, in the thread that computes it, with products in this precision."""
        return torch.autocast(self.device.type, dtype=self.dtype, enabled=self.name != "fp32")

    @contextlib.contextmanager
    def in_step(self) -> Iterator[None]:
        """A context for a whole step, in all threads, with TF32 and deterministic kernels on CUDA as the settings say.

        Deterministic kernels give the same bits each time, so that a resumed run equals one that was never stopped.
        Without them flash attention's backward pass is faster.
        """
        if not has_streams(self.device):
            yield
            return
        matmul, checks = torch.backends.cuda.matmul, cast(Any, torch.utils.deterministic)
        before = matmul.allow_tf32, checks.fill_uninitialized_memory
        modes = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
        if self.tf32:
            # Not by `fp32_precision`: torch.compile reads the older setting, which then raises an error:
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


@dataclasses.dataclass
class LossScale(LossScaleState):
    """A power of two by which the loss is multiplied, so that small gradients do not vanish in fp16.

    It grows and shrinks like the scale of `torch.amp.GradScaler`, but a step whose gradients overflow is not skipped:
    it is repeated with half the scale.

    Source: Micikevicius et al. 2018, https://arxiv.org/abs/1710.03740, section 3.2.
    """

    def unscale_(self, gradients: Iterable[Tensor | None]) -> None:
        """Divide the gradients of a scaled loss by the scale."""
        torch._foreach_mul_([gradient for gradient in gradients if gradient is not None], 1.0 / self.scale)

    def shrink(self) -> bool:
        """Halve the scale after an overflow; returns False if it cannot be smaller."""
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
