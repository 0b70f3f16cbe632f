"""Memory that was freed: glibc keeps small pieces for the process and gives back large ones, if it is not told."""

import contextlib
import ctypes

# Of glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_GIB = 2**30


def give_back_free_memory() -> None:
    """Return what is free to the system; with another C library than glibc, nothing happens."""
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def keep_free_memory() -> None:
    """Keep what is freed from now on, of all threads in one place; with another C library nothing happens."""
    with contextlib.suppress(AttributeError, OSError, TypeError):
        library = ctypes.CDLL(None)
        library.mallopt(_M_ARENA_MAX, 1)
        library.mallopt(_M_MMAP_THRESHOLD, _GIB)
        library.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
