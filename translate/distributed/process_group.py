"""The processes that train together, as torchrun starts them: which one this is, and how all of them agree.

A training alone is a world of one process, and never touches torch.distributed.
"""

import atexit
import contextlib
import datetime
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from typing import NoReturn, TypeVar

import torch
import torch.distributed as dist
from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from translate.distributed.environment import DistributedEnvironment, read_environment
from translate.errors import InputError, RunError

T = TypeVar("T")

# Within a step processes wait for each other's gradients alone; a first step that compiles may take some of them long.
STEP_TIMEOUT = datetime.timedelta(minutes=10)
# While one trains a tokenizer, validates or writes, the others wait. One that dies breaks its connections, which ends
# the wait at once; so this is no more than a limit.
_PATIENCE = datetime.timedelta(days=1)
_SECONDS_BETWEEN_LOOKS = 0.02
_EXIT_CODES = {InputError: 2, RunError: 1}
# What torch's engines say, whose errors have no class of their own, of a process that they do not reach any more.
_LOST = ("gloo", "nccl", "connection closed by peer", "connection reset", "broken pipe", "tcpstore", "socket")
_LATE = ("timed out", "timeout")


class World:
    """All processes of a training, as one of them sees it.

    What needs all of them must be called by all, in the same order. Alone, everything is this process's own.

    Args:
        control: Connects the processes for agreements, on the CPU; None: this one is alone.
    """

    def __init__(self, environment: DistributedEnvironment, control: dist.ProcessGroup | None) -> None:
        self.rank, self.size = environment.rank, environment.world_size
        self.environment = environment
        self._control = control

    @property
    def is_main_process(self) -> bool:
        """Whether this is the process that writes and speaks."""
        return self.rank == 0

    def all_gather(self, value: T) -> list[T]:
        """The values of all processes, by rank, on each of them."""
        if self._control is None:
            return [value]
        values: list[T] = [value] * self.size
        dist.all_gather_object(values, value, group=self._control)
        return values

    def max(self, number: int) -> int:
        """The largest of the numbers that the processes give."""
        if self._control is None:
            return number
        value = torch.tensor(number)
        dist.all_reduce(value, dist.ReduceOp.MAX, group=self._control)
        return int(value)

    def broadcast(self, tensor: torch.Tensor) -> torch.Tensor:
        """The first process's tensor, on each.

        Args:
            tensor: On the CPU; elsewhere than on the first process it is overwritten.
        """
        if self._control is not None:
            dist.broadcast(tensor, 0, group=self._control)
        return tensor

    def run_on_all_ranks(self, work: Callable[[], T]) -> T:
        """What every process does for itself; if one fails, all end, and one of them says why.

        Args:
            work: Needs no other process.

        Raises:
            InputError: As the work does, in the first process that failed.
            RunError: The same.
            SystemExit: In the others, with the exit code of that failure.
        """
        if self._control is None:
            return work()
        value, error = _tried(work)
        codes = self.all_gather(_exit_code(error))
        failed = [rank for rank, code in enumerate(codes) if code]
        if not failed:
            assert not isinstance(value, _Nothing)
            return value
        if error is None or failed[0] != self.rank:
            self.exit(codes[failed[0]])
        raise type(error)(str(error) if self.is_main_process else f"{self.environment}: {error}") from error

    def run_on_rank_0(self, work: Callable[[], T]) -> T:
        """What the first process does for all: its result, on each; if it fails, it says why, and all end.

        Args:
            work: Needs no other process.

        Raises:
            InputError: As the work does, in the first process.
            RunError: The same.
            SystemExit: In the others, with the exit code of that failure.
        """
        if self._control is None:
            return work()
        value, error = _tried(work) if self.is_main_process else (_Nothing(), None)
        told: list[tuple[T | _Nothing, int]] = [(value, _exit_code(error))]
        dist.broadcast_object_list(told, 0, group=self._control)
        if error is not None:
            raise error
        result, code = told[0]
        if isinstance(result, _Nothing):
            self.exit(code)
        return result

    def local_rank_0_first(self, work: Callable[[], T]) -> T:
        """Like `run_on_all_ranks`, but local rank 0 goes first, and the others find what it has left in a cache."""
        if self._control is None:
            return work()
        goes_first = self.environment.local_rank == 0
        found = self.run_on_all_ranks(work if goes_first else lambda: None)
        others = self.run_on_all_ranks(work if not goes_first else lambda: None)
        result = found if goes_first else others
        assert result is not None
        return result

    def exit(self, code: int) -> NoReturn:
        """End this process without a word, when the one that says why has ended.

        If it ended before, torchrun would end that other one too, perhaps in the midst of its words.

        Raises:
            SystemExit: With the code.
        """
        with contextlib.suppress(RuntimeError):
            self.max(code)
        raise SystemExit(code)

    def check_same_on_all_ranks(self, facts: Mapping[str, str]) -> None:
        """End all, if something that must be the same everywhere is not.

        Raises:
            InputError: On the first process; it says what differs where.
            SystemExit: On the others.
        """
        everywhere = self.all_gather(dict(facts))
        for rank, theirs in enumerate(everywhere):
            different = [
                f"{name} = {theirs.get(name)} (there it is {facts.get(name)})"
                for name in sorted({*theirs, *everywhere[0]})
                if theirs.get(name) != everywhere[0].get(name)
            ]
            if not different:
                continue
            if not self.is_main_process:
                self.exit(_EXIT_CODES[InputError])
            raise InputError(
                f"the processes of a training must have the same settings, data and versions, but process {rank + 1} of"
                f" {self.size} has not what the first one has: {'; '.join(different)}. Start all with the same command"
            )


SINGLE_PROCESS = World(DistributedEnvironment(), None)


@contextlib.contextmanager
def joined(*, timeout: datetime.timedelta = STEP_TIMEOUT) -> Iterator[World]:
    """The world that this process was started into, for the time of a training.

    Args:
        timeout: For all to come together, and then for each exchange within a step.

    Raises:
        InputError: The environment does not say where the others are.
        RunError: They do not come, or one of them is gone.
    """
    environment = read_environment(os.environ)
    if environment.world_size == 1:
        yield SINGLE_PROCESS
        return
    with _meeting_told(environment, timeout):
        store, _, _ = next(rendezvous("env://", timeout=timeout))
        store = _fresh_part(store, environment, timeout)
        dist.init_process_group(
            "gloo", store=store, rank=environment.rank, world_size=environment.world_size, timeout=timeout
        )
        control = dist.new_group(backend="gloo", timeout=_PATIENCE)
    try:
        with _loss_told(environment):
            yield World(environment, control)
    except BaseException:
        atexit.register(dist.destroy_process_group)  # first it is said what happened: that ends the others
        raise
    dist.destroy_process_group()


def _fresh_part(store: Store, environment: DistributedEnvironment, timeout: datetime.timedelta) -> Store:
    """A part of the store that all processes know, and none that was there before them.

    After a restart torchrun gives them the store of those that died, with the addresses of these, to which gloo and
    NCCL would connect: https://github.com/pytorch/pytorch/issues/135712. Its count of restarts is not the same on all
    machines. So each process asks with a word that nobody has used before, and only the living first one answers.

    Raises:
        DistStoreError: They have not all come in time.
    """
    if environment.rank > 0:
        question = secrets.token_hex(8)
        store.set(f"translate/question/{environment.rank}", question)
        store.wait([f"translate/answer/{question}"], timeout)
        name = store.get(f"translate/answer/{question}").decode()
        store.set(f"translate/{name}/{environment.rank}", "")
        return PrefixStore(name, store)
    name, deadline = secrets.token_hex(8), time.monotonic() + timeout.total_seconds()
    missing = set(range(1, environment.world_size))
    while missing:
        for rank in sorted(missing):
            if store.check([f"translate/question/{rank}"]):  # perhaps that of one that died
                store.set(f"translate/answer/{store.get(f'translate/question/{rank}').decode()}", name)
            if store.check([f"translate/{name}/{rank}"]):
                missing.remove(rank)
        if missing and time.monotonic() > deadline:
            raise dist.DistStoreError(f"{len(missing)} of {environment.world_size} have not come")
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    return PrefixStore(name, store)


class _Nothing:
    """Stands for the result of work that was not done."""


def _tried(work: Callable[[], T]) -> tuple[T | _Nothing, InputError | RunError | None]:
    try:
        return work(), None
    except (InputError, RunError) as error:
        return _Nothing(), error


def _exit_code(error: InputError | RunError | None) -> int:
    return next((code for kind, code in _EXIT_CODES.items() if isinstance(error, kind)), 0)


@contextlib.contextmanager
def _meeting_told(environment: DistributedEnvironment, timeout: datetime.timedelta) -> Iterator[None]:
    try:
        yield
    except ValueError as error:  # what a variable of the environment is missing
        raise InputError(f"{environment}: {error}; start with torchrun") from error
    except RuntimeError as error:
        where = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        raise RunError(
            f"{environment}: the processes did not come together at {where} within {timeout.total_seconds():.0f} s"
            f" ({_first_sentence(error)}). See that all were started, with the same address, and that its port is open"
        ) from error


@contextlib.contextmanager
def _loss_told(environment: DistributedEnvironment) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        text = str(error).lower()
        if not isinstance(error, dist.DistError) and not any(sign in text for sign in _LOST):
            raise
        what = "another process of this training has ended, and this one cannot go on without it"
        if any(sign in text for sign in _LATE):
            what = "another process of this training does not answer: it hangs, or its machine or network is gone"
        raise RunError(
            f"{environment}: {what}. If it said why, that stands above. Checkpoints written so far are intact: start"
            f" all again with --resume ({_first_sentence(error)})"
        ) from error


def _first_sentence(error: Exception) -> str:
    text = re.sub(r"^\[\S+\] ", "", str(error))  # where in torch's own source it comes from
    return text.split("\n")[0].split(". ")[0].rstrip(".")
