"""One model for many requests: texts that arrive while a batch is computed make the next one.

Each worker thread takes batches from the same queue. The requests take turns, a text at a time, so that a request of
one text does not wait for another's thousand; and each text is answered as soon as it is found, so that a short one
does not wait for the long ones of its batch.
"""

import asyncio
import contextlib
import dataclasses
import itertools
import logging
import math
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Hashable, Sequence
from typing import Any, NamedTuple

import torch

from translate.decoding import Translation, Translator
from translate.errors import InputError

logger = logging.getLogger(__name__)

BATCH_TEXTS = 128
BATCH_CHARACTERS = 16_000  # a batch takes no further text once it has so many
LINGER = 0.5  # of the time of a batch, and a second at most: so long after it workers wait for their share


class QueueFull(Exception):
    """So much waits that a request is not taken.

    Args:
        seconds: When to ask again.
    """

    def __init__(self, seconds: int) -> None:
        super().__init__(f"the server is busy: ask again in {seconds} s")
        self.headers = {"Retry-After": str(seconds)}


class Found(NamedTuple):
    """A result of a job: of the text of this number, or of all its work."""

    number: int
    value: Any
    is_partial: bool = False  # the text so far


class _Abandoned(Exception):
    """Nobody waits for a batch any more."""


@dataclasses.dataclass(eq=False, repr=False)
class Job:
    """The texts of a request, or a call, and the way of its results to the event loop in which it was made.

    Args:
        finish: Makes the values of some translations, in the worker's thread.
        call: Work other than translation; its value is the only result.
        is_together: Translations are finished once their whole batch is found, and not one by one.
    """

    texts: Sequence[str]
    translator: Translator | None = None
    key: Hashable = None  # jobs with the same key share batches
    finish: Callable[[list[Translation]], list[Any]] | None = None
    call: Callable[[], Any] | None = None
    shows_partial: bool = False
    is_together: bool = False
    num_taken: int = 0  # texts that were put into batches
    is_cancelled: bool = False

    def __post_init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.events: asyncio.Queue[Found | Exception] = asyncio.Queue()
        self.num_results = 1 if self.call else len(self.texts)
        self.delivered: set[int] = set()

    @property
    def waiting_characters(self) -> int:
        """Characters of the texts that no batch has taken, and one for each text."""
        return sum(len(text) + 1 for text in itertools.islice(self.texts, self.num_taken, None))

    def deliver(self, event: Found | Exception) -> None:
        """Hand over a result, or why there is none, from any thread."""
        if isinstance(event, Found) and not event.is_partial:
            self.delivered.add(event.number)
        with contextlib.suppress(RuntimeError):  # the event loop is closed: nobody waits
            self.loop.call_soon_threadsafe(self.events.put_nowait, event)

    async def results(self, deadline: float) -> AsyncGenerator[Found]:
        """Yield the results as they come; of partial ones only the newest.

        Args:
            deadline: By the clock of the event loop.

        Raises:
            TimeoutError: The deadline has passed.
            Exception: That for which the job failed.
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
    """The jobs that wait for a model, and the threads that do them.

    Args:
        max_characters: The most characters that may wait. A job that finds nothing waiting is always taken.
        num_workers: Threads; each searches a batch by itself.
        on_batch: Is told the number of texts in each batch and the seconds that it took.
    """

    def __init__(
        self, *, max_characters: int, num_workers: int, on_batch: Callable[[int, float], object] = lambda *_: None
    ) -> None:
        self.max_characters, self.on_batch = max_characters, on_batch
        self._changed = threading.Condition()
        self._jobs: deque[Job] = deque()
        self._is_closed = False
        self._characters_per_second = 1000.0  # of all workers: a guess, until the first batch is measured
        self._gather_until = 0.0  # by time.monotonic: until then workers wait for their share
        self._num_computing = 0  # texts in batches that are not found yet
        self._num_answered = 0  # texts that were found lately: those who asked may soon ask for as many
        self._threads = [threading.Thread(target=self._work, name=f"batches-{n}") for n in range(num_workers)]
        for thread in self._threads:
            thread.start()

    @property
    def _num_waiting(self) -> int:
        return sum(job.num_results - job.num_taken for job in self._jobs)

    @property
    def _share(self) -> int:
        """A worker's share of the texts of all who ask: fewer in a batch are slow, and more leave others idle."""
        expected = self._num_waiting + self._num_computing + self._num_answered
        return min(BATCH_TEXTS, -(-expected // len(self._threads)))

    @property
    def waiting_characters(self) -> int:
        """Characters that wait."""
        return sum(job.waiting_characters for job in tuple(self._jobs))

    def submit(self, job: Job) -> None:
        """Put a job into the queue.

        Raises:
            QueueFull: Too much waits.
        """
        with self._changed:
            waiting = self.waiting_characters
            if waiting and waiting + job.waiting_characters > self.max_characters:
                raise QueueFull(min(60, max(1, math.ceil(waiting / self._characters_per_second))))
            if job.num_results:
                self._jobs.append(job)
                self._num_answered = max(0, self._num_answered - job.num_results)
                self._changed.notify()

    def cancel(self, job: Job) -> None:
        """Drop what of a job has not begun; a batch that nobody else waits for is given up too."""
        with self._changed:
            job.is_cancelled = True
            if job in self._jobs:
                self._jobs.remove(job)

    def close(self) -> None:
        """End the threads as soon as what they compute is found; jobs that wait are left undone."""
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
            seconds = max(time.perf_counter() - started, 1e-6)
            with self._changed:
                self._num_computing -= sum(index not in job.delivered for job, index in batch if not job.call)
                self._gather_until = time.monotonic() + min(1.0, LINGER * seconds)
                self._changed.notify_all()
            characters = sum(len(job.texts[index]) + 1 for job, index in batch if job.texts)
            rate = len(self._threads) * characters / seconds
            self._characters_per_second += 0.2 * (rate - self._characters_per_second)
            self.on_batch(len(batch), seconds)

    def _take(self) -> list[tuple[Job, int]]:
        """Wait for work, and take the next batch: jobs with their texts' numbers. Empty: the queue is closed."""
        with self._changed:
            while not self._is_closed and not self._gather():
                self._changed.wait()
            if self._is_closed:
                return []
            first = self._jobs[0]
            if first.call:
                return [(self._jobs.popleft(), 0)]
            share = self._share
            turns = deque(job for job in self._jobs if job is first or (job.key == first.key and job.key is not None))
            batch: list[tuple[Job, int]] = []
            characters = 0
            while turns and len(batch) < share and characters < BATCH_CHARACTERS:
                job = turns.popleft()
                batch.append((job, job.num_taken))
                characters += len(job.texts[job.num_taken])
                job.num_taken += 1
                if job.num_taken < job.num_results:
                    turns.append(job)
            # Other jobs are next; those that have had a turn come behind them.
            taken = {job for job, _ in batch}
            rest = [job for job in self._jobs if job in taken and job.num_taken < job.num_results]
            self._jobs = deque([*(job for job in self._jobs if job not in taken), *rest])
            self._num_computing += len(batch)
            if self._jobs:
                self._changed.notify()
            return batch

    def _gather(self) -> bool:
        """Wait for a worker's share, but not for long; whether there is work.

        Those who were answered ask again, a few at a time: batches of the first of them would be small, which is slow.
        """
        while self._jobs and not self._is_closed and self._num_waiting < self._share:
            left = self._gather_until - time.monotonic()
            if left <= 0:
                self._num_answered = 0
                break
            self._changed.wait(left)
        return bool(self._jobs)

    def _compute(self, batch: list[tuple[Job, int]]) -> None:
        """Compute a batch and deliver its results; a request that cannot be answered fails alone."""
        jobs = list(dict.fromkeys(job for job, _ in batch))
        try:
            if (call := jobs[0].call) is not None:
                jobs[0].deliver(Found(0, call()))
            else:
                self._translate(sorted(batch, key=lambda pair: jobs.index(pair[0])))
        except _Abandoned:
            pass
        except Exception as error:
            if not isinstance(error, InputError):
                logger.error(f"A batch of {len(batch)} texts failed: {error}", exc_info=error)
            if len(jobs) == 1:
                self.cancel(jobs[0])
                jobs[0].deliver(error)
                return
            for job in jobs:
                if own := [pair for pair in batch if pair[0] is job and pair[1] not in job.delivered]:
                    self._compute(own)

    def _translate(self, batch: list[tuple[Job, int]]) -> None:
        job, first_number = batch[0]  # the number seeds samples and names lines, in batches of one job
        assert job.translator is not None
        together: list[tuple[Job, int, Translation]] = []

        def on_translated(number: int, translation: Translation) -> None:
            owner, index = batch[number - first_number]
            if all(each.is_cancelled for each, _ in batch):
                raise _Abandoned
            if owner.is_together:
                together.append((owner, index, translation))
            else:
                self._deliver(owner, [index], [translation])

        parts: dict[int, str] = {}

        def on_partial(number: int, piece: int, text: str) -> None:
            if job.is_cancelled:
                raise _Abandoned
            parts[piece] = text
            shown = " ".join(parts[each] for each in sorted(parts) if parts[each])
            job.deliver(Found(batch[number - first_number][1], shown, is_partial=True))

        found = job.translator.translate_stream(
            [owner.texts[index] for owner, index in batch],
            first_number=first_number,
            on_translated=on_translated,
            on_partial=on_partial if job.shows_partial else None,
        )
        for _ in found:
            pass
        for owner, group in itertools.groupby(together, key=lambda each: each[0]):
            members = list(group)
            self._deliver(owner, [index for _, index, _ in members], [translation for *_, translation in members])

    def _deliver(self, job: Job, indices: list[int], translations: list[Translation]) -> None:
        assert job.finish is not None
        values = job.finish(translations)
        with self._changed:
            self._num_computing -= len(values)
            self._num_answered += len(values)
        for index, value in zip(indices, values, strict=True):
            job.deliver(Found(index, value))
