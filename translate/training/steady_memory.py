"""On the CPU, resident memory that does not creep through a long training.

Two things make it creep where matrices are multiplied in bf16. oneDNN compiles a kernel for each shape that it meets
and keeps the last 1024 of them: with batches of many shapes hundreds of megabytes, and hardly faster than fewer. And
what is freed, of kernels and of tensors, lies between what is not: glibc keeps it, finds no place in it for the next,
and asks the system for more.
"""

import os

from translate.memory import give_back_free_memory

# The demo in bf16, one thread, means of a hundred steps: 945 MiB at step 600 and 972 at step 2000; without these two
# 1700 at step 500 and 2040 at step 2000.
_MOST_KERNELS = 128
_STEPS_BETWEEN = 5


def limit_kernels() -> None:
    """Let oneDNN keep fewer kernels, unless the user has set how many; before its first computation."""
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(_MOST_KERNELS))


def give_back_now_and_then(*, after_step: int) -> None:
    """Give free memory back to the system every so many steps."""
    if after_step % _STEPS_BETWEEN == 0:
        give_back_free_memory()
