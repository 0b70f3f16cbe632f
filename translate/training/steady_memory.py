"""On the CPU, memory that a step frees is there for the next one, and what the process has does not creep.

A system gives memory page by page, and clears each page: done anew in every step it takes as long as the matrix
products' twentieth part, or a fifth on a virtual machine. And where products are of bf16, oneDNN compiles a kernel for
each shape that it meets and keeps the last 1024 of them: with batches of many shapes hundreds of megabytes, and hardly
faster than fewer.
"""

import os

from translate.memory import keep_free_memory

_MOST_KERNELS = 64


def prepare_memory() -> None:
    """Before the first step: glibc keeps what is freed, and oneDNN fewer kernels unless the user has set how many."""
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(_MOST_KERNELS))
    keep_free_memory()
