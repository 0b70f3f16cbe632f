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


@pytest.mark.parametrize(
    "environment, expected",
    [
        ({}, DistributedEnvironment()),
        ({"WORLD_SIZE": "8"}, DistributedEnvironment()),  # as some batch systems say; torchrun says the rank too
        ({"RANK": "3", "WORLD_SIZE": "8"}, DistributedEnvironment(3, 8, 0, 1)),
    ],
)
def test_expected(environment: dict[str, str], expected: DistributedEnvironment) -> None:
    assert read_environment(environment) == expected


@pytest.mark.parametrize(
    "environment, message",
    [
        ({"RANK": "one", "WORLD_SIZE": "2"}, "RANK=one, WORLD_SIZE=2, .*'one'; start with torchrun"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK=2, WORLD_SIZE=2, .* count from 0"),
    ],
)
def test_no_expected(environment: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_environment(environment)
