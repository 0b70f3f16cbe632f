"""The processes that `torchrun` has started for one command: which of them this is, and what all must agree on.

They need no process group: they agree through torchrun's own store of keys, and share the work through files.
"""

import os
import uuid
from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple

import torch
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from translate.distributed.environment import DistributedEnvironment, read_environment
from translate.errors import InputError, RunError
from translate.model.device import threads_per_process

_CONTACT_SECONDS = 300


class Processes(NamedTuple):
    """One of several processes, or one alone."""

    place: DistributedEnvironment = DistributedEnvironment()
    store: Store | None = None  # None: it is alone

    def agree(self, values: Mapping[str, str]) -> None:
        """Raise the InputError that says in what this process is another than the first to come, if it is.

        A process that torchrun has started again finds what was said before it; that is the same command's too.

        Args:
            values: By what they are; none is empty.
        """
        for what, value in values.items():
            first = self._first(f"agreed/{what}", value)
            if first != value:
                raise InputError(
                    f"process {self.place.rank} has another {what} than the first process: {value}, and not {first};"
                    " all need the same command, files and versions"
                )

    def name(self) -> str:
        """A random name that all processes of one start have in common."""
        return self._first("name", uuid.uuid4().hex)

    def say_joined(self) -> None:
        """Tell those who come late that there is nothing left to do."""
        self._first("joined", "yes")

    def is_joined(self) -> bool:
        """Whether there is nothing left to do."""
        return self.store is not None and self.store.check(["joined"])

    def is_told_elsewhere(self, message: str) -> bool:
        """Whether another process has failed before with the same message, so that it need not be told again."""
        try:
            rank, _, told = self._first("failure", f"{self.place.rank} {message}").partition(" ")
        except RunError:
            return False
        return told == message and rank != str(self.place.rank)

    def share_machine(self) -> None:
        """Take a CUDA device of one's own, in turn where there are fewer, and an even share of the cores."""
        if self.place.world_size == 1:
            return
        if torch.cuda.is_available():
            torch.cuda.set_device(self.place.local_rank % torch.cuda.device_count())
        # torchrun sets 1 where nothing was set; any other number is the user's.
        if os.environ.get("OMP_NUM_THREADS", "1") == "1":
            torch.set_num_threads(threads_per_process(self.place.local_world_size))

    def _first(self, key: str, value: str) -> str:
        """What the first process to come has said."""
        if self.store is None:
            return value
        try:
            return self.store.compare_set(key, "", value).decode()
        except RuntimeError as error:
            lost = f"process {self.place.rank} has lost contact with the others"
            raise RunError(f"{lost}: {_first_line(error)}") from error


def find_processes(environment: Mapping[str, str] = os.environ) -> Processes:
    """This process among those that `torchrun` has started; alone, if it was not torchrun.

    Raises:
        InputError: Variables of the environment that torchrun would not set so.
        RunError: The others cannot be reached.
    """
    place = read_environment(environment)
    return Processes() if place.world_size == 1 else Processes(place, _find_store(environment))


def _find_store(environment: Mapping[str, str]) -> Store:
    address = f"{environment.get('MASTER_ADDR')}:{environment.get('MASTER_PORT')}"
    try:
        store, _, _ = next(iter(rendezvous("env://", timeout=timedelta(seconds=_CONTACT_SECONDS))))
    except (RuntimeError, ValueError) as error:
        raise RunError(f"the other processes cannot be reached at {address}: {_first_line(error)}") from error
    return PrefixStore("translate", store)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
