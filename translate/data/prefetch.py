"""Batches made ahead: while a step is computed, a thread makes those of the next, and another plans the next epoch.

What is made does not depend on it: batches are functions of the seed and the epoch, and come in their order.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import NamedTuple, Protocol, runtime_checkable

import torch

from translate.data.batching import Batch
from translate.data.epochs import Epoch

_GROUPS_AHEAD = 4


@runtime_checkable
class PlansEpochs(Protocol):
    """`TrainingBatches`, or whatever else has epochs."""

    def epoch(self, number: int, *, check: Callable[[], None]) -> Epoch:
        """Epoch `number`, from 0; `check` is called now and then, and what it raises ends the planning."""


class Group(NamedTuple):
    """The batches of one optimizer step, and where it stands."""

    batches: list[Batch]
    epoch: Epoch
    epoch_number: int  # from 0
    number: int  # in its epoch, from 0


class Prefetched:
    """The groups of a training in their order, made ahead: a context, in which one goes through them.

    An exception met while a group was made, or an epoch planned, is raised in its place, after the groups before it.
    """

    def __init__(
        self,
        batches: PlansEpochs,
        *,
        epoch: int,
        first: int,
        group_size: int,
        max_groups: int,
        max_epochs: int | None,
        device: torch.device,
    ) -> None:
        """
        Args:
            epoch: The number of the epoch to begin in, from 0.
            first: The number of its group to begin with, from 0; if it has no more, the next epoch follows.
            group_size: Batches of a group; the last of an epoch may have fewer.
            max_groups: How many are wanted; no epoch is planned beyond them.
            max_epochs: Epochs from this number on are not wanted; None: there is no last one.
            device: Where they will go: for CUDA they are made in memory from which it can copy by itself.
        """
        self._batches = batches
        self._epoch = epoch
        self._first = first
        self._group_size = group_size
        self._max_groups = max_groups
        self._max_epochs = max_epochs
        self._device = device
        self._is_closed = False
        self._ready: SimpleQueue[Group | BaseException | None] = SimpleQueue()
        self._room = threading.Semaphore(_GROUPS_AHEAD)
        self._thread = threading.Thread(target=self._make, name="batches", daemon=True)

    def __enter__(self) -> "Prefetched":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the threads. One that draws segmentations ends with the 50,000 lines that it is at."""
        self._is_closed = True
        self._room.release()
        self._ready.put(None)
        self._thread.join()

    def __iter__(self) -> Iterator[Group]:
        while True:
            ready = self._ready.get()
            if ready is None:
                return
            if isinstance(ready, BaseException):
                raise ready
            self._room.release()
            yield ready

    def _make(self) -> None:
        """What the thread does."""
        # Memory to copy from belongs to a device, and each thread has a current one.
        on_device = torch.cuda.device(self._device) if self._device.type == "cuda" else contextlib.nullcontext()
        try:
            with on_device, ThreadPoolExecutor(1, "epochs") as planner:
                for group in self._groups(planner):
                    self._room.acquire()
                    self._refuse_if_closed()
                    self._ready.put(group)
            self._ready.put(None)
        except BaseException as error:
            self._ready.put(error)

    def _groups(self, planner: ThreadPoolExecutor) -> Iterator[Group]:
        number, first, num_left = self._epoch, self._first, self._max_groups
        if num_left <= 0 or self._is_last(number - 1):
            return
        plan = planner.submit(self._plan, number)
        while True:
            self._refuse_if_closed()  # there may be epochs without a batch
            epoch = plan.result()
            num_groups = -(-len(epoch) // self._group_size)
            is_last = self._is_last(number) or num_left <= num_groups - first
            if not is_last:
                plan = planner.submit(self._plan, number + 1)
            for group in range(first, min(num_groups, first + num_left)):
                yield Group(self._batches_of(epoch, group), epoch, number, group)
                num_left -= 1
            if is_last:
                return
            number, first = number + 1, 0

    def _is_last(self, epoch: int) -> bool:
        return self._max_epochs is not None and epoch + 1 >= self._max_epochs

    def _plan(self, epoch: int) -> Epoch:
        return self._batches.epoch(epoch, check=self._refuse_if_closed)

    def _batches_of(self, epoch: Epoch, group: int) -> list[Batch]:
        first = group * self._group_size
        batches = [epoch[number] for number in range(first, min(first + self._group_size, len(epoch)))]
        return [_pinned(batch) for batch in batches] if self._device.type == "cuda" else batches

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise _Closed


class _Closed(Exception):
    """Nobody waits for what is being made."""


def _pinned(batch: Batch) -> Batch:
    """The same batch in memory that is not moved, so that a device copies it while the program goes on."""
    return batch._replace(
        source_ids=batch.source_ids.pin_memory(),
        target_input_ids=batch.target_input_ids.pin_memory(),
        target_output_ids=batch.target_output_ids.pin_memory(),
    )
