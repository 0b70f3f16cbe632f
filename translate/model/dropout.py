"""Dropout whose masks are a function of a seed, whichever thread draws them.

On a CPU, torch draws the numbers of a mask one after another, which takes as long as a matrix product. Here 16 random
bits decide on each element, so one draw of a fast generator serves four, and dropped elements are cleared bitwise.
"""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

_seeded = threading.local()  # has this thread's generator as `bits`
_INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}  # by the bytes of an element


class Dropout(nn.Module):
    """In training, set each element to zero with probability p, and divide the others by 1 - p.

    On a CPU, p is rounded to a multiple of 1/65536 that is less than 1. Masks come from the generator of
    `dropout_seeded`, and outside it from torch's own, which `torch.manual_seed` seeds.

    Raises:
        ValueError: p is outside [0, 1).

    Source: Srivastava et al. 2014, https://jmlr.org/papers/v15/srivastava14a.html.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0.0 <= p < 1.0:
            raise ValueError(f"p = {p} must be at least 0 and less than 1")
        self.p = p

    def forward(self, hidden: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        if not self.training or self.p == 0.0:
            return hidden
        if hidden.device.type != "cpu" or torch.compiler.is_compiling():
            return F.dropout(hidden, self.p)
        dropped: Tensor = _DropoutFunction.apply(hidden, min(round(self.p * 65536), 65535))  # type: ignore[no-untyped-call]
        return dropped


@contextlib.contextmanager
def dropout_seeded(*seed: int, device: torch.device) -> Iterator[None]:
    """Within the context, the dropout masks of this thread depend only on the seed: non-negative numbers.

    Torch's own generators, from which GPUs and compiled layers draw, are seeded too; the CPU's only by the main thread,
    because all threads share it.
    """
    sequence = np.random.SeedSequence(seed)
    if device.type != "cpu" or threading.current_thread() is threading.main_thread():
        torch.manual_seed(int(sequence.generate_state(1, np.uint64)[0] >> 1))
    before = getattr(_seeded, "bits", None)
    _seeded.bits = np.random.SFC64(sequence)
    try:
        yield
    finally:
        _seeded.bits = before


class _DropoutFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, dropped_of_65536: int) -> Tensor:
        bits = getattr(_seeded, "bits", None) or np.random.SFC64(int(torch.randint(2**63 - 1, ())))
        size = hidden.numel()
        draws = torch.from_numpy(bits.random_raw(-(-size // 4)).view(np.int16)[:size])
        keep = torch.empty(size, dtype=torch.int16)  # -1, in which all bits are set, for each element that is kept
        torch.ge(draws, dropped_of_65536 - 32768, out=keep).neg_()
        ctx.save_for_backward(keep.view(hidden.shape))
        ctx.scale = 65536 / (65536 - dropped_of_65536)
        return _clear(hidden, keep.view(hidden.shape)).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _clear(gradient, *ctx.saved_tensors).mul_(ctx.scale), None


def _clear(values: Tensor, keep: Tensor) -> Tensor:
    integers = values.contiguous().view(_INTEGERS[values.element_size()])
    return integers.bitwise_and(keep.to(integers.dtype)).view(values.dtype)
