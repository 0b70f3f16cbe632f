"""Batches made ahead: while a step is computed, a thread makes those of the next, and another plans the next epoch.

What is made does not depend on it: batches are functions of the seed and the epoch, and come in their order. Nor do
the epochs that are planned: each is when whoever takes the groups comes to the one before, wherever the threads are. So
the processes of a training, which stop after the same step, have planned the same epochs, and none waits for another.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import NamedTuple, Protocol, runtime_checkable

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


class _Begun(NamedTuple):
    """Stands before the groups of an epoch that another follows."""

    epoch_number: int


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
    ) -> None:
        """
        Args:
            epoch: The number of the epoch to begin in, from 0.
            first: The number of its group to begin with, from 0; if it has no more, the next epoch follows.
            group_size: Batches of a group; the last of an epoch may have fewer.
            max_groups: How many are wanted; no epoch is planned beyond them.
            max_epochs: Epochs from this number on are not wanted; None: there is no last one.
        """
        self._batches = batches
        self._epoch = epoch
        self._first = first
        self._group_size = group_size
        self._max_groups = max_groups
        self._max_epochs = max_epochs
        self._is_closed = False
        self._ready: SimpleQueue[_Begun | Group | BaseException | None] = SimpleQueue()
        self._room = threading.Semaphore(_GROUPS_AHEAD)
        self._planner = ThreadPoolExecutor(1, "epochs")
        self._plans: SimpleQueue[Future[Epoch] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._make, name="batches", daemon=True)

    def __enter__(self) -> "Prefetched":
        if self._max_groups <= 0 or self._is_last(self._epoch - 1):
            self._plans.put(None)
        else:
            self._begin_to_plan(self._epoch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the threads. One that draws segmentations ends with the 50,000 lines that it is at."""
        self._is_closed = True
        self._room.release()
        self._ready.put(None)
        self._plans.put(None)
        self._thread.join()
        self._planner.shutdown()  # without cancelling what waits, for another process may have begun it

    def __iter__(self) -> Iterator[Group]:
        while True:
            ready = self._ready.get()
            if ready is None:
                return
            if isinstance(ready, BaseException):
                raise ready
            if isinstance(ready, _Begun):
                self._begin_to_plan(ready.epoch_number + 1)
                continue
            self._room.release()
            yield ready

    def _make(self) -> None:
        """What the thread does."""
        try:
            for group in self._groups():
                self._room.acquire()
                self._refuse_if_closed()
                self._ready.put(group)
            self._ready.put(None)
        except BaseException as error:
            self._ready.put(error)

    def _groups(self) -> Iterator[Group]:
        number, first, num_left = self._epoch, self._first, self._max_groups
        while (plan := self._plans.get()) is not None:
            epoch = plan.result()
            num_groups = -(-len(epoch) // self._group_size)
            is_last = self._is_last(number) or num_left <= num_groups - first
            if not is_last:
                self._ready.put(_Begun(number))
            for group in range(first, min(num_groups, first + num_left)):
                yield Group(self._batches_of(epoch, group), epoch, number, group)
                num_left -= 1
            if is_last:
                return
            number, first = number + 1, 0

    def _begin_to_plan(self, epoch: int) -> None:
        self._plans.put(self._planner.submit(self._plan, epoch))

    def _is_last(self, epoch: int) -> bool:
        return self._max_epochs is not None and epoch + 1 >= self._max_epochs

    def _plan(self, epoch: int) -> Epoch:
        return self._batches.epoch(epoch, check=self._refuse_if_closed)

    def _batches_of(self, epoch: Epoch, group: int) -> list[Batch]:
        first = group * self._group_size
        return [epoch[number] for number in range(first, min(first + self._group_size, len(epoch)))]

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise _Closed


class _Closed(Exception):
    """Nobody waits for what is being made."""
