"""The processes that work together: how they agree, share results, and fail together.

A command that runs alone is a world of one process and never touches torch.distributed.
"""

import atexit
import contextlib
import datetime
import logging
import os
import re
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeVar, cast

import torch
import torch.distributed as dist
from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from translate.errors import InputError, RunError

T = TypeVar("T")

# Within a training step processes wait only for each other's gradients; a first step that compiles may take minutes.
STEP_TIMEOUT = datetime.timedelta(minutes=10)
# The others wait while one trains a tokenizer, loads a model or writes. A process that dies breaks its connections,
# which ends the wait at once, so this is only an upper limit.
_PATIENCE = datetime.timedelta(days=1)
_PATIENCE_WITH_FAILED = datetime.timedelta(minutes=1)
_REPORTED = "translate/reported"  # in the store, once a process has reported an error
_ANSWER_TIMEOUT = datetime.timedelta(seconds=1)
# Torch's backends have no exception class for a process that has ended; their messages contain these words.
_LOST = ("gloo", "nccl", "connection closed by peer", "connection reset", "broken pipe", "tcpstore", "socket")


class Cancelled(BaseException):
    """Raised in work that is abandoned, because its result is no longer needed."""


class SilentExit(SystemExit):
    """Raised in a process, with its exit code, because another process reports an error."""


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
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    texts = {name: variables.get(name, default) for name, default in zip(names, "0101", strict=True)}
    try:
        environment = DistributedEnvironment(*map(int, texts.values()))
        rank, world_size, local_rank, local_world_size = environment
        if rank not in range(world_size) or local_rank not in range(local_world_size):
            raise ValueError("ranks count from 0")
    except ValueError as error:
        found = ", ".join(f"{name}={text}" for name, text in texts.items())
        raise InputError(f"the environment has {found}: {error}; start with torchrun, which sets them") from error
    return environment


class World:
    """All processes of a command, from the point of view of one.

    Every method must be called by all processes, in the same order.

    Args:
        control: Connects the processes on the CPU; None: this process is the only one.
    """

    def __init__(self, environment: DistributedEnvironment, control: dist.ProcessGroup | None) -> None:
        self.environment, self._control = environment, control
        self.rank, self.size = environment.rank, environment.world_size

    @property
    def is_main_process(self) -> bool:
        """Whether this is rank 0, which writes files and messages."""
        return self.rank == 0

    def new_group(self) -> "World":
        """Connect the same processes a second time, for a thread that exchanges data during training."""
        if self._control is None:
            return self
        return World(self.environment, dist.new_group(backend="gloo", timeout=_PATIENCE))

    def share(self, number: int) -> slice:
        """This process's part of a number of items; the parts of all ranks, joined in their order, are all items."""
        return slice(number * self.rank // self.size, number * (self.rank + 1) // self.size)

    def all_gather(self, value: T) -> list[T]:
        """Return the values of all processes, by rank, on each of them."""
        if self._control is None:
            return [value]
        values: list[T] = [value] * self.size
        dist.all_gather_object(values, value, group=self._control)
        return values

    def max(self, number: int) -> int:
        """Return the largest of the processes' numbers."""
        if self._control is None:
            return number
        value = torch.tensor(number)
        dist.all_reduce(value, dist.ReduceOp.MAX, group=self._control)
        return int(value)

    def run_on_all_ranks(self, work: Callable[[], T]) -> T:
        """Run the work on every process; if it fails on one, all end, and the first of those that failed reports it.

        The work must not communicate, because another process may have failed.

        Raises:
            Exception: The work raised it here, and on no lower rank.
            SilentExit: The work failed on another process, whose exit code this is.
        """
        if self._control is None:
            return work()
        results: list[T] = []
        error: Exception | None = None
        try:
            results.append(work())
        except Exception as caught:  # whatever it is, the others must not wait for this process
            error = caught
        codes = self.all_gather(0 if error is None else 2 if isinstance(error, InputError) else 1)
        failed = [rank for rank, code in enumerate(codes) if code]
        if not failed:
            return results[0]
        if error is None or failed[0] != self.rank:
            raise SilentExit(codes[failed[0]])
        if not isinstance(error, InputError | RunError):
            raise error
        raise type(error)(str(error) if self.is_main_process else f"{self.environment}: {error}") from error

    def run_cancellable(self, work: Callable[[], T]) -> T:
        """Like `run_on_all_ranks`; if the work is cancelled in one process, it is cancelled in all."""

        def attempt() -> list[T]:
            try:
                return [work()]
            except Cancelled:
                return []

        result = self.run_on_all_ranks(attempt)
        if any(self.all_gather(not result)):
            raise Cancelled
        return result[0]

    def run_on_rank_0(self, work: Callable[[], T]) -> T:
        """Like `run_on_all_ranks`, but only rank 0 works, and its result is returned on all ranks."""
        results = [self.run_on_all_ranks(work if self.is_main_process else lambda: None)]
        if self._control is not None:
            dist.broadcast_object_list(results, 0, group=self._control)
        return cast(T, results[0])

    def local_rank_0_first(self, work: Callable[[], T]) -> T:
        """Like `run_on_all_ranks`, but local rank 0 goes first, and the others find its result in a cache."""
        goes_first = self.environment.local_rank == 0
        first = self.run_on_all_ranks(work if goes_first else lambda: None)
        return cast(T, self.run_on_all_ranks(lambda: first if goes_first else work()))

    def check_same_on_all_ranks(self, facts: Mapping[str, str]) -> None:
        """End all processes if a fact, by name, is not the same everywhere."""
        first, *others = self.all_gather(dict(facts))
        for number, theirs in enumerate(others, start=2):
            names = sorted({name for name, _ in first.items() ^ theirs.items()})
            if names and not self.is_main_process:
                raise SilentExit(2)
            if names:
                different = (f"{name} = {theirs.get(name)} (there it is {first.get(name)})" for name in names)
                raise InputError(
                    f"all processes must have the same settings, data and versions, but process {number} of {self.size}"
                    f" differs from the first one: {'; '.join(different)}. Start all with the same command"
                )


SINGLE_PROCESS = World(DistributedEnvironment(), None)


@contextlib.contextmanager
def join_world(*, timeout: datetime.timedelta = STEP_TIMEOUT) -> Iterator[World]:
    """Join the processes that this one was started with; ranks > 0 log only errors from then on.

    A process that leaves with `SilentExit` first waits until another has reported the error, for a minute at most.

    Args:
        timeout: How long to wait until all processes have come together, and for each exchange within a step.

    Raises:
        InputError: The environment does not say where the other processes are.
        RunError: The others do not join, or one of them has ended.
    """
    environment = read_environment(os.environ)
    if environment.world_size == 1:
        yield SINGLE_PROCESS
        return
    if environment.rank > 0:
        logging.getLogger("translate").setLevel(logging.ERROR)
    rank, world_size = environment.rank, environment.world_size
    try:
        store, _, _ = next(rendezvous("env://", timeout=timeout))
        store = _fresh_store(store, environment, timeout)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size, timeout=timeout)
        control = dist.new_group(backend="gloo", timeout=_PATIENCE)
    except ValueError as error:  # a variable of the environment is missing
        raise InputError(f"{environment}: {error}; start with torchrun") from error
    except RuntimeError as error:
        address = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        raise RunError(
            f"{environment}: the processes did not come together at {address} within {timeout.total_seconds():.0f} s"
            f" ({_first_sentence(error)}). Check that all were started with the same address and that its port is open"
        ) from error
    world = World(environment, control)
    try:
        yield world
    except BaseException as error:
        atexit.register(dist.destroy_process_group)  # after the error is printed: this ends the other processes
        if isinstance(error, SilentExit):
            # If this process ended first, torchrun would end the reporting one too, perhaps before its message appears.
            with contextlib.suppress(RuntimeError):
                store.wait([_REPORTED], _PATIENCE_WITH_FAILED)
        else:
            atexit.register(store.set, _REPORTED, "")
        is_lost = isinstance(error, dist.DistError) or any(word in str(error).lower() for word in _LOST)
        if not (isinstance(error, RuntimeError) and is_lost):
            raise
        raise RunError(
            f"{environment}: another process has ended or does not answer, and this one cannot continue alone. If it"
            " reported an error, see above. Everything saved so far is intact: start all processes again with --resume"
            f" ({_first_sentence(error)})"
        ) from error
    dist.destroy_process_group()


def _fresh_store(store: Store, environment: DistributedEnvironment, timeout: datetime.timedelta) -> Store:
    """Agree on a part of the store that no process has used before.

    After a restart torchrun gives the processes the store of those that died, with the addresses of the dead, to which
    gloo and NCCL would connect: https://github.com/pytorch/pytorch/issues/135712. Its count of restarts is not the
    same on all machines. So each process asks with a random word, and only the living rank 0 answers it.
    """
    if environment.rank > 0:
        question = secrets.token_hex(8)
        store.set(f"translate/question/{environment.rank}", question)
        name = store.get(f"translate/answer/{question}").decode()
        store.set(f"translate/{name}/{environment.rank}", "")
        return PrefixStore(name, store)
    name, deadline = secrets.token_hex(8), time.monotonic() + timeout.total_seconds()
    others = range(1, environment.world_size)
    while True:
        for rank in others:  # repeatedly, because a question may come from a dead process
            question = store.get(f"translate/question/{rank}").decode()
            store.set(f"translate/answer/{question}", name)
        try:
            store.wait([f"translate/{name}/{rank}" for rank in others], _ANSWER_TIMEOUT)
            return PrefixStore(name, store)
        except dist.DistStoreError:
            if time.monotonic() > deadline:
                raise


def _first_sentence(error: Exception) -> str:
    text = re.sub(r"^\[\S+\] ", "", str(error))  # where in torch's own source it comes from
    return text.split("\n")[0].split(". ")[0].rstrip(".")
