"""The rank of a process, as the environment has it."""

import pytest

from translate.distributed.environment import DistributedEnvironment, read_environment
from translate.errors import InputError


@pytest.mark.parametrize(
    "environment, expected",
    [
        ({}, DistributedEnvironment()),
        (
            {"WORLD_SIZE": "8"},
            DistributedEnvironment(),
        ),  # some batch systems say it to each process; torchrun says the rank too
        ({"RANK": "3", "WORLD_SIZE": "8"}, DistributedEnvironment(3, 8, 0, 1)),
        (
            {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"},
            DistributedEnvironment(3, 8, 1, 2),
        ),
    ],
)
def test_expected(environment: dict[str, str], expected: DistributedEnvironment) -> None:
    assert read_environment(environment) == expected


@pytest.mark.parametrize(
    "environment, message",
    [
        ({"RANK": "one", "WORLD_SIZE": "2"}, "RANK=one, which is not a number; start with torchrun"),
        ({"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": ""}, "LOCAL_RANK=, which is not a number"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK=2 of WORLD_SIZE=2 .* count from 0"),
        ({"RANK": "0", "WORLD_SIZE": "0"}, "RANK=0 of WORLD_SIZE=0"),
    ],
)
def test_no_expected(environment: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_environment(environment)
