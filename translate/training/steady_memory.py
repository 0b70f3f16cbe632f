"""On the CPU, resident memory that does not creep through a long training.

Two things make it creep where matrices are multiplied in bf16. oneDNN compiles a kernel for each shape that it meets
and keeps the last 1024 of them: with batches of many shapes hundreds of megabytes, and hardly faster than fewer. And
what is freed, of kernels and of tensors, lies between what is not: glibc keeps it, finds no place in it for the next,
and asks the system for more.
"""

import contextlib
import ctypes
import os

_MOST_KERNELS = 128  # hardly slower than 1024 in training, where most shapes return in a later epoch if at all
_STEPS_BETWEEN = 5  # then giving back costs about a fiftieth of the time


def limit_kernels() -> None:
    """Let oneDNN keep fewer kernels, unless the user has set how many; before its first computation."""
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(_MOST_KERNELS))


def give_back_free_memory(*, after_step: int) -> None:
    """Every so many steps, give the system back what is free; with another C library than glibc, nothing."""
    if after_step % _STEPS_BETWEEN == 0:
        with contextlib.suppress(AttributeError, OSError, TypeError):
            ctypes.CDLL(None).malloc_trim(0)
