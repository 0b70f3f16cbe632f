"""Batches made ahead: while a step is computed, one thread makes those of the next steps, another plans the next epoch.

The threads change nothing about the batches, which are a function of the seed and the epoch and come in order. An epoch
is planned when the training comes to the epoch before it, however far ahead the threads are. So the processes of a
training, which stop after the same step, have planned the same epochs, and none waits for another.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from queue import SimpleQueue
from typing import NamedTuple

from translate.data.batching import Batch
from translate.data.epochs import Epoch
from translate.data.token_store import Cancelled

_STEPS_AHEAD = 4


class StepBatches(NamedTuple):
    """The batches of one optimizer step, and the position of the step."""

    batches: list[Batch]
    epoch: Epoch
    epoch_number: int  # from 0
    number: int  # in its epoch, from 0


@dataclass(eq=False)
class Prefetcher:
    """The batches of a training's steps in order, made ahead: a context manager to iterate over.

    An exception that is raised in the making of a step is raised in its place, after the steps before it.

    Args:
        plan_epoch: `TrainingBatches.epoch` or `StreamedBatches.epoch`: plans an epoch by its number.
        epoch: The number of the epoch to begin in, from 0.
        first: The number of its step to begin with, from 0; if the epoch is shorter, the next one follows.
        batches_per_step: The last step of an epoch may have fewer.
        max_steps: The number of steps that are wanted; no epoch beyond them is planned.
        max_epochs: Epochs from this number on are not wanted; None: there is no last one.
    """

    plan_epoch: Callable[..., Epoch]
    _: KW_ONLY
    epoch: int
    first: int
    batches_per_step: int
    max_steps: int
    max_epochs: int | None

    def __post_init__(self) -> None:
        self._is_closed = False
        self._ready: SimpleQueue[int | StepBatches | BaseException | None] = SimpleQueue()  # int: this epoch begins
        self._room = threading.Semaphore(_STEPS_AHEAD)
        self._planner = ThreadPoolExecutor(1, "epochs")
        self._plans: SimpleQueue[Future[Epoch] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._make, name="batches", daemon=True)

    def __enter__(self) -> "Prefetcher":
        if self.max_steps <= 0 or self._is_last(self.epoch - 1):
            self._plans.put(None)
        else:
            self._begin_to_plan(self.epoch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the threads. If segmentations are being sampled, this waits for the lines of one task."""
        self._is_closed = True
        self._room.release()
        self._ready.put(None)
        self._plans.put(None)
        self._thread.join()
        self._planner.shutdown()  # without cancelling a plan that waits, which another process may have begun

    def __iter__(self) -> Iterator[StepBatches]:
        while (ready := self._ready.get()) is not None:
            if isinstance(ready, BaseException):
                raise ready
            if isinstance(ready, int):
                self._begin_to_plan(ready + 1)
            else:
                self._room.release()
                yield ready

    def _make(self) -> None:
        """Put all steps into the queue: the work of the thread."""
        try:
            for step in self._steps():
                self._room.acquire()
                self._check_not_closed()
                self._ready.put(step)
            self._ready.put(None)
        except BaseException as error:
            self._ready.put(error)

    def _steps(self) -> Iterator[StepBatches]:
        number, first, num_left = self.epoch, self.first, self.max_steps
        while (plan := self._plans.get()) is not None:
            epoch = plan.result()
            num_steps = -(-len(epoch) // self.batches_per_step)
            is_last = self._is_last(number) or num_left <= num_steps - first
            if not is_last:
                self._ready.put(number)
            for step in range(first, min(num_steps, first + num_left)):
                start = step * self.batches_per_step
                end = min(start + self.batches_per_step, len(epoch))
                yield StepBatches([epoch[batch] for batch in range(start, end)], epoch, number, step)
                num_left -= 1
            if is_last:
                return
            number, first = number + 1, 0

    def _begin_to_plan(self, number: int) -> None:
        self._plans.put(self._planner.submit(self.plan_epoch, number, check=self._check_not_closed))

    def _is_last(self, epoch: int) -> bool:
        return self.max_epochs is not None and epoch + 1 >= self.max_epochs

    def _check_not_closed(self) -> None:
        if self._is_closed:
            raise Cancelled
