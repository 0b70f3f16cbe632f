"""The rank of a process as the environment has it, and a world of one process; tests/system/distributed has more."""

import pytest

from translate.distributed.process_group import SINGLE_PROCESS, DistributedEnvironment, read_environment
from translate.errors import InputError


def test_alone() -> None:
    assert (
        SINGLE_PROCESS.all_gather("a"),
        SINGLE_PROCESS.max(3),
        SINGLE_PROCESS.run_on_rank_0(lambda: 5),
        SINGLE_PROCESS.run_on_all_ranks(lambda: 7),
    ) == (["a"], 3, 5, 7)
    assert SINGLE_PROCESS.is_main_process and SINGLE_PROCESS.size == 1
    with pytest.raises(InputError, match="wrong"):
        SINGLE_PROCESS.run_on_all_ranks(lambda: (_ for _ in ()).throw(InputError("wrong")))


def test_the_rank_comes_from_the_environment() -> None:
    for variables, expected in (
        ({}, DistributedEnvironment()),
        ({"WORLD_SIZE": "8"}, DistributedEnvironment()),  # as some batch systems say; torchrun says the rank too
        ({"RANK": "3", "WORLD_SIZE": "8"}, DistributedEnvironment(3, 8, 0, 1)),
    ):
        assert read_environment(variables) == expected
    for rank, message in (
        ("one", "WORLD_SIZE=2, .*'one'; start with torchrun"),
        ("2", ".* count from 0"),
        ("-1", ".* count from 0"),
    ):
        with pytest.raises(InputError, match=f"RANK={rank}, {message}"):
            read_environment({"RANK": rank, "WORLD_SIZE": "2"})
