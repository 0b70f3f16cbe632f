"""One model for many requests: texts that arrive while a batch is computed form the next one.

Worker threads take batches from the same queue. Requests take turns, one text at a time, so a request with one text
does not wait for a request with a thousand. Each text is answered as soon as it is translated, so a short one does not
wait for the long ones in its batch.
"""

import asyncio
import contextlib
import dataclasses
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Hashable, Sequence
from typing import Any, NamedTuple

import torch
from fastapi import HTTPException

from translate.decoding import Request, Translation, Translator
from translate.errors import InputError

logger = logging.getLogger(__name__)

BATCH_TEXTS = 128
BATCH_CHARACTERS = 16_000  # a batch takes no more texts once it has this many
LINGER = 0.5  # how long workers wait for their share, as a fraction of the last batch's time; at most a second


class Found(NamedTuple):
    """The result for one text of a job, by its index, or the only result of a call."""

    number: int
    value: Any
    is_partial: bool = False  # the translation so far


class _Cancelled(Exception):
    """All clients have their answers, or have disconnected."""


@dataclasses.dataclass(eq=False, repr=False)
class Job:
    """The texts of a request, or a call; its results go to the event loop in which it was created.

    Args:
        key: Jobs with the same key share batches; a job with None shares with no other.
        request: Makes the translator's input from a text.
        finish: Converts a translation into a result, in the worker's thread.
        call: Work other than translation; its value is the only result. Its argument is a function to call between
            batches, which raises an error once the job is cancelled.
    """

    texts: Sequence[str]
    translator: Translator | None = None
    key: Hashable = None
    request: Callable[[str], str | Request] = str
    finish: Callable[[Translation], Any] = lambda translation: translation
    call: Callable[[Callable[..., None]], Any] | None = None
    shows_partial: bool = False
    num_taken: int = 0  # texts that have been put into batches
    is_cancelled: bool = False

    def __post_init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.events: asyncio.Queue[Found | Exception] = asyncio.Queue()
        self.num_results = 1 if self.call else len(self.texts)
        self.delivered: set[int] = set()

    @property
    def waiting_characters(self) -> int:
        """Characters of the texts that are not in a batch yet, plus one per text."""
        return sum(len(text) + 1 for text in itertools.islice(self.texts, self.num_taken, None))

    def deliver(self, event: Found | Exception) -> None:
        """Send a result, or the error that prevents it, from any thread."""
        if isinstance(event, Found) and not event.is_partial:
            self.delivered.add(event.number)
        with contextlib.suppress(RuntimeError):  # the event loop is closed
            self.loop.call_soon_threadsafe(self.events.put_nowait, event)

    async def results(self, deadline: float) -> AsyncGenerator[Found]:
        """Yield the results as they arrive, skipping partial ones that are outdated.

        Args:
            deadline: Time of the event loop's clock.

        Raises:
            TimeoutError: The deadline has passed.
            Exception: The job failed with this error.
        """
        missing = self.num_results
        while missing:
            async with asyncio.timeout_at(deadline):
                event = await self.events.get()
            while isinstance(event, Found) and event.is_partial and not self.events.empty():
                event = self.events.get_nowait()
            if isinstance(event, Exception):
                raise event
            missing -= not event.is_partial
            yield event


class BatchQueue:
    """The jobs that wait for a model, and the threads that compute them.

    Args:
        max_characters: Limit of waiting characters. A job is always accepted if nothing waits.
        num_workers: Number of threads; each searches its own batches.
        on_batch: Called after each batch with its number of texts and its seconds.
    """

    def __init__(
        self, *, max_characters: int, num_workers: int, on_batch: Callable[[int, float], object] = lambda *_: None
    ) -> None:
        self.max_characters, self.on_batch = max_characters, on_batch
        self._changed = threading.Condition()
        self._jobs: deque[Job] = deque()
        self._is_closed = False
        self._gather_until = 0.0  # in time.monotonic's seconds
        self._num_computing = 0  # texts in batches without a translation yet
        self._num_answered = 0  # recent translations; their clients may soon send as many texts
        self._threads = [threading.Thread(target=self._work, name=f"batches-{n}") for n in range(num_workers)]
        for thread in self._threads:
            thread.start()

    @property
    def waiting_characters(self) -> int:
        """Number of waiting characters."""
        return sum(job.waiting_characters for job in tuple(self._jobs))

    def submit(self, job: Job) -> None:
        """Put a job into the queue.

        Raises:
            HTTPException: The queue is full.
        """
        with self._changed:
            waiting = self.waiting_characters
            if waiting and waiting + job.waiting_characters > self.max_characters:
                raise HTTPException(429, "the queue is full; try again later", {"Retry-After": "10"})
            if job.num_results:
                self._jobs.append(job)
                self._num_answered = max(0, self._num_answered - job.num_results)
                self._changed.notify()

    def cancel(self, job: Job) -> None:
        """Drop a job; a batch is abandoned within a step once all of its jobs are cancelled or answered."""
        with self._changed:
            job.is_cancelled = True
            if job in self._jobs:
                self._jobs.remove(job)

    def close(self) -> None:
        """End the threads after their current batches; waiting jobs are dropped."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        torch.set_num_threads(1)
        while batch := self._take():
            started = time.perf_counter()
            self._compute(batch)
            seconds = time.perf_counter() - started
            with self._changed:
                self._num_computing -= sum(index not in job.delivered for job, index in batch if not job.call)
                self._gather_until = time.monotonic() + min(1.0, LINGER * seconds)
                self._changed.notify_all()
            self.on_batch(len(batch), seconds)

    def _take(self) -> list[tuple[Job, int]]:
        """Wait for the next batch: jobs and text indices. It is empty when the queue is closed."""
        with self._changed:
            share = self._gather()
            if self._is_closed:
                return []
            first = self._jobs[0]
            if first.call:
                return [(self._jobs.popleft(), 0)]
            turns, others = deque[Job](), list[Job]()
            for job in self._jobs:
                shares = job is first or (job.key == first.key and job.key is not None)
                (turns if shares else others).append(job)
            batch: list[tuple[Job, int]] = []
            characters = 0
            while turns and len(batch) < share and characters < BATCH_CHARACTERS:
                job = turns.popleft()
                batch.append((job, job.num_taken))
                characters += len(job.texts[job.num_taken])
                job.num_taken += 1
                if job.num_taken < job.num_results:
                    turns.append(job)
            self._jobs = deque([*others, *turns])  # those that have had no turn come next
            self._num_computing += len(batch)
            if self._jobs:
                self._changed.notify()
            return batch

    def _gather(self) -> int:
        """Wait for a worker's share of all texts, but not for long; returns the share.

        Smaller batches are slow, and larger ones leave other workers idle. Clients that have been answered send new
        texts a few at a time, and a batch of the first few would be small.
        """
        while not self._is_closed:
            waiting = sum(job.num_results - job.num_taken for job in self._jobs)
            expected = waiting + self._num_computing + self._num_answered
            share = min(BATCH_TEXTS, -(-expected // len(self._threads)))
            left = self._gather_until - time.monotonic()
            if waiting and (waiting >= share or left <= 0):
                self._num_answered = self._num_answered if waiting >= share else 0
                return share
            self._changed.wait(left if waiting else None)
        return 0

    def _compute(self, batch: list[tuple[Job, int]]) -> None:
        """Compute a batch and deliver its results, or deliver the error to all jobs without a result."""

        def check(*_: object) -> None:
            if all(job.is_cancelled or index in job.delivered for job, index in batch):
                raise _Cancelled

        try:
            if (call := batch[0][0].call) is not None:
                batch[0][0].deliver(Found(0, call(check)))
            else:
                self._translate(batch, check)
        except _Cancelled:
            pass
        except Exception as error:
            if not isinstance(error, InputError):
                logger.error(f"A batch of {len(batch)} texts failed: {error}", exc_info=error)
            for job in {job for job, index in batch if index not in job.delivered}:
                self.cancel(job)
                job.deliver(error)

    def _translate(self, batch: list[tuple[Job, int]], check: Callable[[], None]) -> None:
        job, first_number = batch[0]  # in a batch of one job, the number seeds samples and appears in messages
        assert job.translator is not None

        def on_translated(number: int, translation: Translation) -> None:
            owner, index = batch[number - first_number]
            value = owner.finish(translation)
            with self._changed:
                self._num_computing -= 1
                self._num_answered += 1
            owner.deliver(Found(index, value))

        parts: dict[int, str] = {}

        def on_partial(number: int, piece: int, text: str) -> None:
            parts[piece] = text
            shown = " ".join(parts[piece] for piece in sorted(parts) if parts[piece])
            job.deliver(Found(batch[number - first_number][1], shown, is_partial=True))

        for _ in job.translator.translate_stream(
            [owner.request(owner.texts[index]) for owner, index in batch],
            first_number=first_number,
            on_translated=on_translated,
            on_partial=on_partial if job.shows_partial else None,
            check=check,
        ):
            pass
