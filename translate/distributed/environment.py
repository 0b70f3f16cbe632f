"""Which of several processes this is, as torchrun, or whoever starts them, has written into the environment."""

import socket
from collections.abc import Mapping
from typing import NamedTuple

from translate.errors import InputError


class DistributedEnvironment(NamedTuple):
    """Which of all processes this is."""

    rank: int = 0  # among all
    world_size: int = 1  # how many there are
    local_rank: int = 0  # among those on this machine
    local_world_size: int = 1

    def __str__(self) -> str:
        return f"process {self.rank + 1} of {self.world_size} (on {socket.gethostname()})"


def read_environment(environment: Mapping[str, str]) -> DistributedEnvironment:
    """The place that the environment tells; alone, if it does not tell a rank and a number of processes.

    Raises:
        InputError: What it tells is no number, or no place among so many.
    """
    if "RANK" not in environment or "WORLD_SIZE" not in environment:
        return DistributedEnvironment()
    told = {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", **environment}
    numbers = []
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        if not (told[name].isascii() and told[name].isdecimal()):
            raise InputError(
                f"the environment has {name}={told[name]}, which is no number; start with torchrun, which sets it"
            )
        numbers.append(int(told[name]))
    place = DistributedEnvironment(*numbers)
    if not (place.rank < place.world_size and place.local_rank < place.local_world_size):
        raise InputError(
            f"the environment has RANK={place.rank} of WORLD_SIZE={place.world_size} and"
            f" LOCAL_RANK={place.local_rank} of LOCAL_WORLD_SIZE={place.local_world_size}, and counts from 0;"
            " start with torchrun, which sets them"
        )
    return place
