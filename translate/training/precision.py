"""The arithmetic of a training step: narrow products, TF32, kernels that repeat themselves, the scale of an fp16 loss.

All of it holds within a step alone: validation computes as `translate eval` does.
"""

import contextlib
import dataclasses
import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from translate.config import TrainingConfig
from translate.model.device import Precision, choose_precision

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

# As torch.amp.GradScaler has them.
_FIRST_SCALE = 2.0**16
_STEPS_BEFORE_GROWTH = 2000


class Arithmetic(NamedTuple):
    """How a step computes."""

    device: torch.device
    precision: Precision
    tf32: bool = False  # of fp32 products on CUDA
    deterministic: bool = False  # on CUDA

    @classmethod
    def choose(cls, settings: TrainingConfig, device: torch.device) -> "Arithmetic":
        """What the settings say, on this device; to be asked before anything is computed there."""
        if device.type == "cuda" and settings.deterministic:
            # cuBLAS repeats its results with a workspace of a fixed size, which it takes with its first product:
            # https://docs.nvidia.com/cuda/cublas, results reproducibility.
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        precision = choose_precision(settings.precision, device)
        return cls(device, precision, tf32=settings.tf32, deterministic=settings.deterministic)

    @property
    def dtype(self) -> torch.dtype:
        """Of matrix products."""
        return _DTYPES[self.precision]

    def autocast(self) -> torch.autocast:
        """A context in which products are of this precision: for the forward pass, in the thread that computes it."""
        return torch.autocast(self.device.type, dtype=self.dtype, enabled=self.precision != "fp32")

    @contextlib.contextmanager
    def in_step(self) -> Iterator[None]:
        """A context for a whole step, forward, backward and update, in all threads; on other devices than CUDA, none.

        Deterministic kernels are those that give the same bits each time, without which a run that was continued is not
        that of a run that was never stopped: flash attention's backward pass is quicker without.
        """
        if self.device.type != "cuda":
            yield
            return
        with _tf32(self.tf32), _deterministic(self.deterministic):
            yield


@contextlib.contextmanager
def _tf32(enabled: bool) -> Iterator[None]:
    matmul = torch.backends.cuda.matmul
    name, value = ("fp32_precision", "tf32") if hasattr(matmul, "fp32_precision") else ("allow_tf32", True)  # torch 2.8
    before = getattr(matmul, name)
    if enabled:
        setattr(matmul, name, value)
    try:
        yield
    finally:
        setattr(matmul, name, before)


@contextlib.contextmanager
def _deterministic(enabled: bool) -> Iterator[None]:
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    checks: Any = torch.utils.deterministic
    fills = checks.fill_uninitialized_memory
    if enabled:
        torch.use_deterministic_algorithms(True)
        checks.fill_uninitialized_memory = False  # it looks for mistakes, and takes time
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        checks.fill_uninitialized_memory = fills


@dataclasses.dataclass
class LossScale:
    """What the loss is multiplied by, so that small gradients do not vanish in fp16; a power of two.

    It grows and shrinks as `torch.amp.GradScaler` has it. But a step whose gradients overflow is not skipped: it is
    done again with half the scale, so that no pair is lost and a step is a step of the weights.

    Source: Micikevicius et al. 2018, https://arxiv.org/abs/1710.03740, section 3.2.
    """

    scale: float = _FIRST_SCALE
    good_steps: int = 0  # in a row, with this scale

    def unscale_(self, gradients: Iterable[Tensor]) -> None:
        """Divide gradients of the scaled loss."""
        torch._foreach_mul_(list(gradients), 1.0 / self.scale)

    def shrink(self) -> bool:
        """After an overflow: whether there is a smaller scale to try. Without one, the gradients are not finite."""
        self.good_steps = 0
        if self.scale <= 1.0:
            return False
        self.scale /= 2.0
        return True

    def keep(self) -> None:
        """After a step without an overflow."""
        self.good_steps += 1
        if self.good_steps == _STEPS_BEFORE_GROWTH:
            self.scale, self.good_steps = self.scale * 2.0, 0
