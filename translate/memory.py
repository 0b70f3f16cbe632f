"""Memory of this machine: how much is free, how the C library keeps freed memory, how many kernels PyTorch caches."""

import contextlib
import ctypes
import os
import re
from collections.abc import Iterator
from pathlib import Path

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # from glibc's malloc.h

# How many compiled kernels are cached: by oneDNN for all threads, and by ideep, PyTorch's way to oneDNN, for each.
_KERNEL_CACHE_SIZES = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": 128, "LRU_CACHE_CAPACITY": 16}

_GROUPS = Path("/sys/fs/cgroup")  # control groups of Linux: its documentation, cgroup-v2
_OWN_GROUPS = Path("/proc/self/cgroup")

# What allocators without an exception class of their own say: PyTorch's for the CPU and for Apple's GPU, C++, cuBLAS.
# The last three are a library that cannot be mapped, and a thread that Python or C++ cannot start.
_OUT_OF_MEMORY_MESSAGES = (
    "allocate memory", "not enough memory", "out of memory", "bad_alloc", "alloc_failed",
    "failed to map segment", "start new thread", "resource temporarily unavailable",
)  # fmt: skip


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error means that Python, C++, PyTorch or the system could not allocate memory or start a thread."""
    text = f"{type(error).__name__}: {error}".lower().replace("outofmemory", "out of memory")
    is_said = any(message in text for message in _OUT_OF_MEMORY_MESSAGES)
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError | OSError | ImportError) and is_said)


def describe_memory(num_bytes: int) -> str:
    """A number of bytes in a unit that suits it."""
    return f"{num_bytes / 2**30:,.1f} GiB" if num_bytes >= 2**30 else f"{num_bytes / 2**20:,.0f} MiB"


def free_memory() -> int | None:
    """Bytes that this process can still take: of the machine and its container; None: not known."""
    limits = [free for _, free in _control_groups()]
    with contextlib.suppress(OSError):  # not Linux
        available = re.findall(r"MemAvailable: *(\d+) kB", _read(Path("/proc/meminfo")))
        limits += [int(kilobytes) * 1024 for kilobytes in available]
    return max(0, min(limits)) if limits else None


def _control_groups() -> Iterator[tuple[int, int]]:
    """The limit and the free bytes of each of Linux's control groups of this process that has a limit."""
    with contextlib.suppress(OSError):
        lines = _read(_OWN_GROUPS).splitlines()
        groups = [_GROUPS / line.removeprefix("0::/") for line in lines if line.startswith("0::/")]
        for folder in [folder for group in groups for folder in (group, *group.parents)]:  # a container may hide some
            with contextlib.suppress(OSError, ValueError):  # "max": there is no limit
                most, taken = (int(_read(folder / file)) for file in ("memory.max", "memory.current"))
                statistics = dict(line.split() for line in _read(folder / "memory.stat").splitlines())
                cached = sum(int(statistics.get(name, 0)) for name in ("active_file", "inactive_file"))
                yield most, most - taken + cached


def _read(path: Path) -> str:
    return path.read_text()  # a file of the system


def configure_memory() -> None:
    """Prepare for training or a search: cache few compiled kernels, and keep freed memory in one arena for all threads.

    Linux hands out memory page by page and clears each page. If every step asks for it again, that takes as long as a
    twentieth of the matrix products, and as a fifth on a virtual machine. Only glibc has a setting that keeps it.
    """
    limit_kernel_caches()
    with contextlib.suppress(AttributeError, OSError, TypeError):
        library = ctypes.CDLL(None)
        library.mallopt(_M_ARENA_MAX, 1)
        library.mallopt(_M_MMAP_THRESHOLD, 2**30) or library.mallopt(_M_MMAP_THRESHOLD, 2**25)  # older glibc
        library.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


def release_free_memory() -> None:
    """Return freed memory to the operating system; does nothing unless the C library is glibc."""
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def limit_kernel_caches() -> None:
    """Cache few of the kernels that oneDNN compiles; to be called before the first bf16 product on a CPU.

    oneDNN compiles half a megabyte for each shape of a product and caches 1024 of them, twice. Attention has products
    of many shapes, so that takes half of a run's memory and saves little time. Sizes set in the environment are kept.
    """
    for name, size in _KERNEL_CACHE_SIZES.items():
        os.environ.setdefault(name, str(size))
