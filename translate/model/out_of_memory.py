"""Running out of memory, as an error that says what was computed and which settings need less."""

import contextlib
from collections.abc import Iterator

import torch

from translate.errors import RunError

# What allocators say that raise no class of their own: PyTorch's for the CPU and for Apple's GPU, C++, and cuBLAS.
_MESSAGES = ("allocate memory", "not enough memory", "out of memory", "bad_alloc", "alloc_failed")


class OutOfMemory(RunError):
    """A device has not got the memory that was asked for."""


@contextlib.contextmanager
def out_of_memory_told(doing: str, *, mend: str) -> Iterator[None]:
    """Within the context, memory that is refused becomes an error for the user.

    Where contexts lie in each other the outermost tells: it knows best what its user can do.

    Args:
        doing: What was computed, with its sizes: "a batch of 3 pairs …".
        mend: Which settings to lower.

    Raises:
        OutOfMemory: The memory of the device is not enough.
    """
    try:
        yield
    except (OutOfMemory, RuntimeError, MemoryError) as error:
        refusal = error.__cause__ if isinstance(error, OutOfMemory) else error
        if refusal is None or not is_out_of_memory(refusal):
            raise
        # Its first two sentences say what was asked for; the rest is for those who tune allocators.
        reason = ". ".join(str(refusal).split("\n")[0].split(". ")[:2]).rstrip(".")
        raise OutOfMemory(f"out of memory on {doing}{f' ({reason})' if reason else ''}. {mend}") from refusal


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception means that memory was refused, on whatever device."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(message in str(error).lower() for message in _MESSAGES)
