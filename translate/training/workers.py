"""Threads that compute pieces of a step at once.

On a CPU several products on one core each are faster than one after the other on several cores: the cores need not wait
for each other after each product, and what is no product runs on all of them too. PyTorch does its work without holding
Python's lock, so threads are enough, and the weights are there only once.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import torch

from translate.config import TrainingConfig

T = TypeVar("T")
R = TypeVar("R")

_LEAST_TOKENS = 512  # of a piece, on each side: with fewer, what Python does weighs too much


class Layout(NamedTuple):
    """Who computes a step in this process."""

    workers: int  # pieces computed at once
    threads: int  # of torch, for each of them

    def __str__(self) -> str:
        threads = f"{self.threads} CPU thread{'s' * (self.threads > 1)}"
        return threads if self.workers == 1 else f"{self.workers} pieces of a batch at once, each on {threads}"


def choose_layout(settings: TrainingConfig, device: torch.device, *, num_processes: int = 1) -> Layout:
    """On a CPU a worker for each thread that may be used, if the batches are large enough; elsewhere one.

    Args:
        num_processes: That train together: of several each computes a piece of its own.
    """
    threads = torch.get_num_threads()
    if num_processes > 1 or device.type != "cpu" or settings.compile:  # a compiled program has its own threads
        return Layout(1, threads)
    workers = max(1, min(threads, settings.num_batch_tokens * settings.accumulate_batches // _LEAST_TOKENS))
    return Layout(workers, max(1, threads // workers))


def share_evenly(sizes: Sequence[int], *, shares: int) -> list[list[int]]:
    """The items shared out, so that the sizes of each share add up to about as much.

    Returns:
        Numbers of items; a share has none if there are fewer items.
    """
    shared: list[list[int]] = [[] for _ in range(shares)]
    loads = [0] * shares
    for item in sorted(range(len(sizes)), key=lambda item: -sizes[item]):
        lightest = loads.index(min(loads))
        shared[lightest].append(item)
        loads[lightest] += sizes[item]
    return shared


class Workers:
    """So many threads, or the caller's own where one is enough."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._pool: ThreadPoolExecutor | None = None
        if layout.workers > 1:
            self._pool = ThreadPoolExecutor(
                layout.workers, "piece", initializer=torch.set_num_threads, initargs=(layout.threads,)
            )

    def map(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """The results in the order of the items.

        Raises:
            Exception: What the work on the first item that failed raised.
        """
        if self._pool is None:
            return [work(item) for item in items]
        return list(self._pool.map(work, items))

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *exception: object) -> None:
        """End the threads, when what they are at is done."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
