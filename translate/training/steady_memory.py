"""On the CPU, memory that a step frees is there for the next one, and what the process has does not creep.

A system gives memory page by page, and clears each page: done anew in every step it takes as long as the matrix
products' twentieth part, or a fifth on a virtual machine.
"""

from translate.memory import keep_few_kernels, keep_free_memory


def prepare_memory() -> None:
    """Before the first step: glibc keeps what is freed, and oneDNN few kernels."""
    keep_few_kernels()
    keep_free_memory()
