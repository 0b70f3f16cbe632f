"""Sentences shared out to threads, each of which searches its own."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Result = TypeVar("Result")


def share_out(
    sentences: Sequence[int],
    search: Callable[[Sequence[int], threading.Event], dict[int, Result]],
    *,
    num_workers: int,
) -> dict[int, Result]:
    """What the searches of all workers find.

    Args:
        search: Searches some sentences, and stops early when the event is set, since another worker has failed.
        num_workers: More than one have a thread of torch's each, for as long as they work.
    """
    stop = threading.Event()
    if num_workers == 1:
        return search(sentences, stop)

    def search_part(first: int) -> dict[int, Result]:
        torch.set_num_threads(1)
        # Each takes every n-th sentence: as much work for each, and always the same.
        return search(sentences[first::num_workers], stop)

    num_threads = torch.get_num_threads()
    found: dict[int, Result] = {}
    try:
        with ThreadPoolExecutor(num_workers) as executor:
            parts = [executor.submit(search_part, first) for first in range(num_workers)]
            try:
                for part in parts:
                    found |= part.result()
            finally:
                stop.set()  # before the executor waits for the others
    finally:
        torch.set_num_threads(num_threads)
    return found
