"""What a process keeps that it need not keep."""

import os

import pytest

from translate.errors import InputError
from translate.memory import limit_kernel_caches


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
