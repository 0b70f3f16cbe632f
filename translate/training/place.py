"""Which of the processes that train together this is, as torchrun says, and what of its machine is its own."""

import socket
from collections.abc import Mapping
from typing import NamedTuple

import torch

from translate.errors import InputError
from translate.model.device import choose_device, num_cores


class Place(NamedTuple):
    """Which of all processes this is."""

    rank: int = 0  # among all
    size: int = 1  # how many there are
    local_rank: int = 0  # among those on this machine
    local_size: int = 1

    def __str__(self) -> str:
        return f"process {self.rank + 1} of {self.size} (on {socket.gethostname()})"


def read_place(environment: Mapping[str, str]) -> Place:
    """The place that torchrun, or whoever starts the processes, has written into the environment.

    Raises:
        InputError: Something of it is missing or no number.
    """
    if "RANK" not in environment or "WORLD_SIZE" not in environment:
        return Place()
    numbers = []
    for name, default in (("RANK", None), ("WORLD_SIZE", None), ("LOCAL_RANK", "0"), ("LOCAL_WORLD_SIZE", "1")):
        value = environment.get(name, default)
        if value is None or not value.isascii() or not value.isdecimal():
            raise InputError(
                f"the environment has {name}={value}, which is no number; start with torchrun, which sets it"
            )
        numbers.append(int(value))
    place = Place(*numbers)
    if not (place.rank < place.size and place.local_rank < place.local_size):
        raise InputError(
            f"the environment has RANK={place.rank} of WORLD_SIZE={place.size} and LOCAL_RANK={place.local_rank} of"
            f" LOCAL_WORLD_SIZE={place.local_size}, and counts from 0; start with torchrun, which sets them"
        )
    return place


def choose_own_device(name: str, place: Place) -> torch.device:
    """The device that a config names; of several processes on a machine each takes a GPU of its own.

    Raises:
        InputError: There is none for this process.
    """
    device = choose_device(name)
    if place.size == 1:
        return device
    if device.type == "mps":
        raise InputError("training.device: only one process can train on Apple's GPU; use training.device=cpu")
    if device.type != "cuda":
        return device
    if ":" in name:
        raise InputError(
            f"training.device = {name}: of {place.size} processes each takes a GPU of its own; use"
            " training.device=cuda, and CUDA_VISIBLE_DEVICES to choose among them"
        )
    count = torch.cuda.device_count()
    if place.local_rank >= count:
        raise InputError(
            f"training.device = {name}: there are {place.local_size} processes on this machine, and it has {count}"
            f" GPU{'s' * (count > 1)}; start with --nproc-per-node {count}, or use training.device=cpu"
        )
    return torch.device("cuda", place.local_rank)


def settle_threads(wanted: int | None, place: Place) -> None:
    """Give torch the CPU threads that are wanted; None: as it chooses, or what falls to one of several processes."""
    if wanted is None and place.size > 1:
        wanted = share_threads(place)
    if wanted is not None:
        torch.set_num_threads(wanted)


def share_threads(place: Place) -> int:
    """CPU threads for this process, where it is not alone on its machine: an equal part of those that there are."""
    return max(1, num_cores() // place.local_size)
