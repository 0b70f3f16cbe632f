"""Which of several processes this one is, as torchrun, or whoever starts them, writes it into the environment."""

import socket
from collections.abc import Mapping
from typing import NamedTuple

from translate.errors import InputError


class DistributedEnvironment(NamedTuple):
    """The rank of this process, among all processes and among those on its machine."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: int = 1

    def __str__(self) -> str:
        return f"process {self.rank + 1} of {self.world_size} (on {socket.gethostname()})"


def read_environment(variables: Mapping[str, str]) -> DistributedEnvironment:
    """Read the rank of this process; without RANK and WORLD_SIZE it is the only one.

    Raises:
        InputError: A variable is not a number, or the numbers contradict each other.
    """
    if "RANK" not in variables or "WORLD_SIZE" not in variables:
        return DistributedEnvironment()
    variables = {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", **variables}
    numbers = []
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        if not (variables[name].isascii() and variables[name].isdecimal()):
            raise InputError(
                f"the environment has {name}={variables[name]}, which is not a number; start with torchrun, which sets"
                " it"
            )
        numbers.append(int(variables[name]))
    environment = DistributedEnvironment(*numbers)
    rank, world_size, local_rank, local_world_size = environment
    if not (rank < world_size and local_rank < local_world_size):
        raise InputError(
            f"the environment has RANK={rank} of WORLD_SIZE={world_size} and LOCAL_RANK={local_rank} of"
            f" LOCAL_WORLD_SIZE={local_world_size}, but ranks count from 0; start with torchrun, which sets them"
        )
    return environment
