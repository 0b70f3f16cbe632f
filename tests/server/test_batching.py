"""Which jobs share a batch, which is next, and what is refused, dropped or abandoned. The search is a fake."""

import asyncio
import functools
import itertools
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import HTTPException

from translate.decoding import Translation
from translate.errors import InputError, RunError
from translate.server import batching
from translate.server.batching import BatchQueue, Found, Job

MakeQueue = Callable[..., BatchQueue]


class FakeTranslator:
    """Translates to capitals once the gate is open, and remembers its batches. `bad` and `worse` are errors."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.gate = threading.Event()

    def translate_stream(
        self, lines: Sequence[str], *, first_number: int, on_translated: Any, on_partial: Any, check: Any
    ) -> Iterator[Translation]:
        self.batches.append(list(lines))
        assert self.gate.wait(10)
        for number, line in reversed(list(enumerate(lines, start=first_number))):  # in another order
            check()
            if line == "bad":
                raise InputError(f"line {number + 1}: bad")
            if line == "worse":
                raise RunError("the weights are not finite")
            if on_partial is not None:
                on_partial(number, 1, line[:1])
                on_partial(number, 0, line[:2])
            translation = Translation(line, line.upper(), [], 0.0, 0.0, truncated=False, source_truncated=False)
            on_translated(number, translation)
            yield translation


@pytest.fixture
def fake() -> FakeTranslator:
    return FakeTranslator()


@pytest.fixture
def make_queue() -> Iterator[MakeQueue]:
    made: list[BatchQueue] = []

    def make(**options: Any) -> BatchQueue:
        made.append(BatchQueue(**{"max_characters": 1000, "num_workers": 1, **options}))
        return made[-1]

    yield make
    for queue in made:
        queue.close()


def asynchronous(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test in an event loop."""
    return functools.wraps(test)(lambda **arguments: asyncio.run(test(**arguments)))  # type: ignore[arg-type]


def make_job(fake: Any, *texts: str, key: Any = "same", **options: Any) -> Job:
    return Job(texts, translator=fake, key=key, finish=lambda found: found.text, **options)


async def results(job: Job, seconds: float = 10.0) -> list[Any]:
    deadline = asyncio.get_running_loop().time() + seconds
    found = {each.number: each.value async for each in job.results(deadline)}
    return [found[number] for number in sorted(found)]


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def begin(queue: BatchQueue, fake: FakeTranslator) -> Job:
    """A job that keeps the only worker busy until the gate opens."""
    first = make_job(fake, "first")
    queue.submit(first)
    await until(lambda: fake.batches)
    return first


@asynchronous
async def test_waiting_jobs_share_the_next_batch_in_turns(
    make_queue: MakeQueue, fake: FakeTranslator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request with one text does not wait for another's six. Other settings, and calls, have batches of their own."""
    monkeypatch.setattr(batching, "BATCH_TEXTS", 4)
    sizes: list[int] = []
    queue = make_queue(on_batch=lambda texts, seconds: sizes.append(texts))
    first, empty = await begin(queue, fake), make_job(fake)
    queue.submit(empty)
    assert await results(empty) == []
    jobs = {
        "long": make_job(fake, *(f"l{number}" for number in range(6))),
        "short": make_job(fake, "s"),
        "other": make_job(fake, "o", key="other"),
        "alone": make_job(fake, "a", key=None),
        "also alone": make_job(fake, "b", key=None),
        "call": Job(["x"], call=lambda check: 7),
    }
    for job in jobs.values():
        queue.submit(job)
    fake.gate.set()
    assert await results(first) == ["FIRST"] and await results(jobs.pop("long")) == [f"L{n}" for n in range(6)]
    assert [await results(job) for job in jobs.values()] == [["S"], ["O"], ["A"], ["B"], [7]]
    assert fake.batches == [["first"], ["l0", "s", "l1", "l2"], ["o"], ["a"], ["b"], ["l3", "l4", "l5"]]
    await until(lambda: sizes == [1, 4, 1, 1, 1, 1, 3])


@asynchronous
async def test_a_batch_ends_with_the_text_that_fills_it(
    make_queue: MakeQueue, fake: FakeTranslator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batching, "BATCH_CHARACTERS", 5)
    fake.gate.set()
    job = make_job(fake, "abc", "defg", "h", "i")
    make_queue().submit(job)
    assert await results(job) == ["ABC", "DEFG", "H", "I"]
    assert fake.batches == [["abc", "defg"], ["h", "i"]]


@asynchronous
async def test_texts_are_divided_among_the_workers(make_queue: MakeQueue, fake: FakeTranslator) -> None:
    queue, job = make_queue(num_workers=2), make_job(fake, *"abcde")
    queue.submit(job)
    await until(lambda: len(fake.batches) == 2)
    assert sorted(fake.batches) == [["a", "b", "c"], ["d", "e"]]
    fake.gate.set()
    assert await results(job) == list("ABCDE")


@asynchronous
async def test_partial_results_are_joined_in_order_and_outdated_ones_skipped(
    make_queue: MakeQueue, fake: FakeTranslator, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, job = make_queue(), make_job(fake, "text", key=None, shows_partial=True)
    sent: list[Found] = []
    deliver = job.deliver
    monkeypatch.setattr(job, "deliver", lambda found: (sent.append(found), deliver(found)))
    queue.submit(job)
    fake.gate.set()
    await until(lambda: job.events.qsize() == 3)
    assert [each.value for each in sent] == ["t", "te t", "TEXT"]
    assert [each async for each in job.results(asyncio.get_running_loop().time() + 10)] == [Found(0, "TEXT")]
    again = make_job(fake, "text", key=None, shows_partial=True)
    again.deliver(Found(0, "t", is_partial=True))
    await until(again.events.qsize)
    stream = again.results(0.0)
    assert (await anext(stream)).value == "t"
    with pytest.raises(TimeoutError):  # the deadline has passed
        await anext(stream)


@pytest.mark.parametrize("bad, error", [("bad", InputError), ("worse", RunError)])
@asynchronous
async def test_an_error_belongs_to_its_batch(
    make_queue: MakeQueue, fake: FakeTranslator, bad: str, error: type[Exception]
) -> None:
    """Texts of the batch that were translated before it are answered, and so are later batches."""
    queue = make_queue()
    first = await begin(queue, fake)
    failing, lucky, unlucky = make_job(fake, bad, "a"), make_job(fake, "b"), make_job(fake, "c", "d")
    later = make_job(fake, "e", key="other")
    for job in (unlucky, failing, lucky, later):
        queue.submit(job)
    fake.gate.set()
    assert [await results(job) for job in (first, lucky, later)] == [["FIRST"], ["B"], ["E"]]
    for job in (failing, unlucky):
        with pytest.raises(error):
            await results(job)
    assert lucky.events.empty() and queue.waiting_characters == 0


@asynchronous
async def test_a_full_queue_says_when_to_retry(make_queue: MakeQueue, fake: FakeTranslator) -> None:
    queue = make_queue(max_characters=30)
    first = await begin(queue, fake)
    queue.submit(job := make_job(fake, "a" * 100))  # nothing waits, so even so much is accepted
    assert queue.waiting_characters == 101
    with pytest.raises(HTTPException) as raised:
        queue.submit(make_job(fake, "b"))
    assert raised.value.status_code == 429 and "Retry-After" in raised.value.headers
    queue.cancel(job)
    fake.gate.set()
    assert await results(first) == ["FIRST"]


@asynchronous
async def test_cancelled_jobs_are_dropped(make_queue: MakeQueue, fake: FakeTranslator) -> None:
    queue = make_queue()
    first = await begin(queue, fake)
    waiting, other = make_job(fake, "never", key=1), make_job(fake, "other", key=2)
    queue.submit(waiting)
    queue.submit(other)
    queue.cancel(waiting)
    queue.cancel(first)  # which is being searched: it is abandoned at its next step
    fake.gate.set()
    assert await results(other) == ["OTHER"] and fake.batches == [["first"], ["other"]]
    assert not first.delivered and not waiting.delivered and queue.waiting_characters == 0

    began = threading.Event()

    def call(check: Callable[[], None]) -> None:
        began.set()
        while True:
            check()
            time.sleep(0.001)

    queue.submit(endless := Job(["x"], call=call))
    await until(began.is_set)
    queue.cancel(endless)
    queue.submit(last := make_job(fake, "last"))
    assert await results(last) == ["LAST"] and not endless.delivered


@asynchronous
async def test_closing_waits_for_the_current_batch(fake: FakeTranslator) -> None:
    queue = BatchQueue(max_characters=100, num_workers=2)
    job = await begin(queue, fake)
    threading.Timer(0.05, fake.gate.set).start()
    await asyncio.to_thread(queue.close)
    late = make_job(fake, "late", key=3)
    queue.submit(late)
    assert await results(job) == ["FIRST"] and not late.delivered
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("batches-")]


@pytest.mark.parametrize("event", ["second client", "timeout", "cancelled"])
@asynchronous
async def test_a_worker_waits_briefly_for_clients_that_were_answered(
    make_queue: MakeQueue, fake: FakeTranslator, monkeypatch: pytest.MonkeyPatch, event: str
) -> None:
    """Two clients were answered. One sends another text, and the worker waits for the other: at most a second."""
    num_batches: list[int] = []
    queue = make_queue(on_batch=lambda texts, seconds: num_batches.append(texts))
    jobs = [await begin(queue, fake), make_job(fake, "a"), make_job(fake, "b")]
    for job in jobs[1:]:
        queue.submit(job)
    fake.gate.set()
    assert [await results(job) for job in jobs] == [["FIRST"], ["A"], ["B"]]
    await until(lambda: num_batches == [1, 2])
    monkeypatch.setattr(batching, "LINGER", 1e9)  # after the next batch
    now = time.monotonic() + 1.0  # from here on a clock that stands still
    ticks = itertools.count().__next__  # seconds, one for each batch
    monkeypatch.setattr(batching, "time", SimpleNamespace(monotonic=lambda: now, perf_counter=ticks))
    queue.submit(last := make_job(fake, "c", "d"))
    assert await results(last) == ["C", "D"]
    await until(lambda: num_batches == [1, 2, 2])
    first, second = make_job(fake, "x"), make_job(fake, "y")
    queue.submit(first)
    await asyncio.sleep(0.05)
    assert len(fake.batches) == 3
    if event == "cancelled":
        queue.cancel(first)
    if event == "timeout":
        now += 1.0
    else:
        queue.submit(second)
        assert await results(second) == ["Y"]
    if event != "cancelled":
        assert await results(first) == ["X"]
    assert fake.batches[3:] == {"second client": [["x", "y"]], "timeout": [["x"]], "cancelled": [["y"]]}[event]
