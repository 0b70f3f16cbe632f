"""Prefetching: during a step, one thread makes the batches of the next steps, and another plans the next epoch.

The batches are a function of the seed and the epoch, whatever the threads do, and they come in order. An epoch is
planned when training reaches the epoch before it. All processes of a training run stop after the same step, so they
have planned the same epochs, and none waits for another.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from typing import NamedTuple

from translate.data.batching import Batch
from translate.data.epochs import Epoch
from translate.data.token_store import results_in_order
from translate.distributed.process_group import Cancelled

_STEPS_AHEAD = 4


class StepBatches(NamedTuple):
    """The batches of one optimizer step, and the position of the step."""

    batches: list[Batch]
    epoch: Epoch
    epoch_number: int  # from 0
    number: int  # in its epoch, from 0


@contextmanager
def prefetch_steps(
    plan_epoch: Callable[..., Epoch],
    *,
    epoch: int,
    first: int,
    batches_per_step: int,
    max_steps: int,
    max_epochs: int | None,
    wait_for: Callable[[Future[Epoch]], object] = lambda planned: None,
) -> Iterator[Iterator[StepBatches]]:
    """A context in which the batches of a run's steps are prefetched, in order; at its end it waits for threads.

    An exception while preparing a step is raised in its place, after the steps before it.

    Args:
        plan_epoch: `TrainingBatches.epoch` or `StreamedBatches.epoch`: plans an epoch by its number.
        epoch: The number of the epoch to begin in, from 0.
        first: The number of its first step, from 0; if the epoch is shorter, the next one follows.
        batches_per_step: The last step of an epoch may have fewer.
        max_steps: The number of steps; no epoch after them is planned.
        max_epochs: The number of epochs, counted from epoch 0; None: no limit.
        wait_for: Called before each epoch, in the thread that takes the steps; may wait until the epoch is planned, or
            raise an exception to end the steps.
    """
    is_closed = threading.Event()

    def check_not_closed() -> None:
        if is_closed.is_set():
            raise Cancelled

    def plan(number: int) -> Future[Epoch]:
        return planner.submit(plan_epoch, number, check=check_not_closed)

    def make_step(planned: Epoch, number: int, step: int) -> StepBatches:
        start = step * batches_per_step
        batches = range(start, min(start + batches_per_step, len(planned)))
        return StepBatches([planned[batch] for batch in batches], planned, number, step)

    def steps(first: int, num_left: int) -> Iterator[StepBatches]:
        next_epoch = None
        for number in count(epoch):
            if num_left <= 0 or (max_epochs is not None and number >= max_epochs):
                return
            next_epoch = next_epoch or plan(number)
            wait_for(next_epoch)
            planned = next_epoch.result()
            end = min(-(-len(planned) // batches_per_step), first + num_left)
            num_left -= max(0, end - first)
            if num_left > 0 and (max_epochs is None or number + 1 < max_epochs):
                next_epoch = plan(number + 1)
            tasks = (maker.submit(make_step, planned, number, step) for step in range(first, end))
            yield from results_in_order(tasks, num_ahead=_STEPS_AHEAD)
            first = 0

    with ThreadPoolExecutor(1, "epochs") as planner, ThreadPoolExecutor(1, "batches") as maker:
        try:
            yield steps(first, max_steps)
        finally:
            is_closed.set()
            maker.shutdown(cancel_futures=True)  # plans are not cancelled: another process may have started one
