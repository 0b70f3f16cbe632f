"""What a process keeps that it need not keep."""

import ctypes
import os
from pathlib import Path

import pytest
import torch

from translate import memory
from translate.memory import (
    configure_memory,
    free_memory,
    is_out_of_memory,
    limit_kernel_caches,
)


def test_the_users_environment_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"LRU_CACHE_CAPACITY": "7"})
    limit_kernel_caches()
    assert os.environ["LRU_CACHE_CAPACITY"] == "7"
    assert int(os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"]) < 1024


@pytest.mark.parametrize("largest", [2**25, 2**63])
def test_large_freed_memory_is_kept_by_every_glibc(monkeypatch: pytest.MonkeyPatch, largest: int) -> None:
    class Library:  # older versions of glibc refuse more than half of a heap, 32 MiB
        def __init__(self, name: None) -> None: ...

        def mallopt(self, option: int, value: int) -> int:
            is_accepted = option != -3 or value <= largest
            if is_accepted:
                accepted[option] = value
            return int(is_accepted)

    accepted: dict[int, int] = {}  # by M_ARENA_MAX, M_MMAP_THRESHOLD, M_TRIM_THRESHOLD
    monkeypatch.setattr(ctypes, "CDLL", Library)
    monkeypatch.setattr(os, "environ", {})
    configure_memory()
    assert accepted == {-8: 1, -3: min(largest, 2**30), -1: 2**31 - 1}


@pytest.mark.parametrize("folder", ["jobs/one", ""])  # inside of the container, only the root is there
def test_the_memory_of_a_container_is_free_up_to_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    before = free_memory()
    own, group = tmp_path / "cgroup", tmp_path / "groups" / folder
    own.write_text("9:name=systemd:/\n0::/jobs/one\n", encoding="utf-8")
    group.mkdir(parents=True)
    statistics = "file 9\nactive_file 200\ninactive_file 300\n"
    for name, text in {"memory.max": "5000", "memory.current": "3000", "memory.stat": statistics}.items():
        (group / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(memory, "_GROUPS", tmp_path / "groups")
    monkeypatch.setattr(memory, "_OWN_GROUPS", own)
    assert free_memory() == 2500
    (group / "memory.max").write_text("max", encoding="utf-8")
    assert free_memory() != 2500 and (before is None or before > 2500)


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (MemoryError(), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"), True),
        (torch.OutOfMemoryError("CUDA"), True),
        (ImportError("libtorch.so: failed to map segment from shared object"), True),
        (RuntimeError("can't start new thread"), True),
        (RuntimeError("Resource temporarily unavailable"), True),  # C++: the same
        (OSError(12, "Cannot allocate memory"), True),
        (RuntimeError("shape"), False),
        (ValueError("out of memory"), False),
        (None, False),
    ],
    ids=repr,
)
def test_failed_allocations_are_known(error: BaseException | None, is_one: bool) -> None:
    assert is_out_of_memory(error) == is_one
