"""Memory that was freed, which glibc keeps or gives back as it is told, and memory of kernels, which oneDNN keeps."""

import contextlib
import ctypes
import os

from translate.errors import InputError

# Of glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_GIB = 2**30

# How many kernels are kept: by oneDNN for all threads, and again by ideep, PyTorch's way to it, for each thread.
_MOST_KERNELS = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": 64, "LRU_CACHE_CAPACITY": 16}


def give_back_free_memory() -> None:
    """Return what is free to the system; with another C library than glibc, nothing happens."""
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def prepare_memory() -> None:
    """Before the first step of a training: what steps free is there for the next one, and few kernels are kept.

    Raises:
        InputError: See `keep_few_kernels`.
    """
    keep_few_kernels()
    keep_free_memory()


def keep_free_memory() -> None:
    """Keep what is freed from now on, of all threads in one place; with another C library nothing happens.

    A system gives memory page by page, and clears each page: done anew in every step it takes as long as the matrix
    products' twentieth part, or a fifth on a virtual machine.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):
        library = ctypes.CDLL(None)
        library.mallopt(_M_ARENA_MAX, 1)
        library.mallopt(_M_MMAP_THRESHOLD, _GIB)
        library.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


def keep_few_kernels() -> None:
    """From before the first product of bf16 on a CPU: of the kernels that are compiled, few are kept.

    There is one for each shape of a product, of half a megabyte, and 1024 of them would be kept, twice: with batches of
    many shapes, half of what a training takes, and hardly faster. What the user's environment says is left alone.

    Raises:
        InputError: It says 0, or no number, to ideep, which would end the process without a word.
    """
    for name, most in _MOST_KERNELS.items():
        os.environ.setdefault(name, str(most))
    told = os.environ["LRU_CACHE_CAPACITY"]
    if not (told.isascii() and told.isdecimal() and int(told) > 0):
        raise InputError(
            f"the environment has LRU_CACHE_CAPACITY={told}, with which PyTorch crashes: leave it out, or let it be at"
            " least 1"
        )
