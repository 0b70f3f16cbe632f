"""What a process keeps that it need not keep."""

import os
import subprocess
import sys

import pytest
import torch

from translate.errors import InputError
from translate.memory import limit_kernel_caches

_PRODUCTS_OF_MANY_SHAPES = """
import sys
from pathlib import Path
import torch
from translate.memory import release_free_memory, limit_kernel_caches

if sys.argv[1] == "few":
    limit_kernel_caches()
torch.set_num_threads(1)

def resident():
    release_free_memory()
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096 / 2**20

one, other = torch.ones(1000, 64, dtype=torch.bfloat16), torch.ones(64, 64, dtype=torch.bfloat16)
one[:99] @ other
before = resident()
for rows in range(100, 700):
    one[:rows] @ other
print(resident() - before)
"""


def grown_mib(keep: str) -> float:
    """In a process of its own: both caches are made with the first product."""
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_CACHE_CAPACITY")}
    command = [sys.executable, "-c", _PRODUCTS_OF_MANY_SHAPES, keep]
    return float(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


@pytest.mark.system
@pytest.mark.skipif(
    sys.platform != "linux" or not torch.ops.mkldnn._is_mkldnn_bf16_supported(),
    reason="reads Linux's account of a process, and needs a CPU for which oneDNN compiles products of bf16",
)
def test_few_kernels_are_kept() -> None:
    assert grown_mib("few") < grown_mib("all") / 4


def test_the_users_environment_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"LRU_CACHE_CAPACITY": "7"})
    limit_kernel_caches()
    assert os.environ["LRU_CACHE_CAPACITY"] == "7"
    assert int(os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"]) < 1024


@pytest.mark.parametrize("capacity", ["0", "", "many", "-1", "1.5"])
def test_a_capacity_of_which_pytorch_dies_is_refused(monkeypatch: pytest.MonkeyPatch, capacity: str) -> None:
    monkeypatch.setattr(os, "environ", {"LRU_CACHE_CAPACITY": capacity})
    with pytest.raises(InputError, match=f"LRU_CACHE_CAPACITY='{capacity}'"):
        limit_kernel_caches()
