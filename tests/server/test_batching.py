"""The queue: who shares a batch, who is next, what is refused, dropped or given up. The search is a stand-in's."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from translate.decoding import Translation
from translate.errors import InputError, RunError
from translate.server import batching
from translate.server.batching import BatchQueue, Found, Job, QueueFull


class FakeTranslator:
    """Translates to capitals as soon as the gate is open; remembers its batches. `bad` fails, `worse` breaks."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.gate = threading.Event()

    def translate_stream(
        self, lines: Sequence[str], *, first_number: int, on_translated: Any, on_partial: Any
    ) -> Iterator[Translation]:
        self.batches.append(list(lines))
        assert self.gate.wait(10)
        for number, line in reversed(list(enumerate(lines, start=first_number))):  # found in another order
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
def translator() -> FakeTranslator:
    return FakeTranslator()


@pytest.fixture
def make_queue() -> Iterator[Callable[..., BatchQueue]]:
    made: list[BatchQueue] = []

    def make(**options: Any) -> BatchQueue:
        made.append(BatchQueue(**{"max_characters": 1000, "num_workers": 1, **options}))
        return made[-1]

    yield make
    for queue in made:
        queue.close()


def make_job(translator: Any, *texts: str, key: Any = "same", **options: Any) -> Job:
    def finish(translations: list[Translation]) -> list[Any]:
        return [each.text for each in translations]

    return Job(texts, translator=translator, key=key, finish=finish, **options)


async def results(job: Job, seconds: float = 10.0) -> list[Any]:
    deadline = asyncio.get_running_loop().time() + seconds
    found = {each.number: each.value async for each in job.results(deadline)}
    return [found[number] for number in sorted(found)]


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def begin(queue: BatchQueue, translator: FakeTranslator) -> Job:
    """A job that keeps the only worker busy until the gate opens."""
    first = make_job(translator, "first")
    queue.submit(first)
    await until(lambda: translator.batches)
    return first


def test_what_arrives_meanwhile_shares_the_next_batch_in_turns(
    make_queue: Callable[..., BatchQueue], translator: FakeTranslator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request of one text waits for no more than a turn of another's six; others' settings wait for a batch."""
    monkeypatch.setattr(batching, "BATCH_TEXTS", 4)

    async def scenario() -> None:
        seen: list[int] = []
        queue = make_queue(on_batch=lambda texts, seconds: seen.append(texts))
        first = await begin(queue, translator)
        long = make_job(translator, *(f"l{number}" for number in range(6)))
        short, other = make_job(translator, "s"), make_job(translator, "o", key="others")
        for job in (long, short, other):
            queue.submit(job)
        translator.gate.set()
        assert await results(first) == ["FIRST"] and await results(short) == ["S"] and await results(other) == ["O"]
        assert await results(long) == [f"L{number}" for number in range(6)]
        assert translator.batches == [["first"], ["l0", "l1", "l2", "s"], ["o"], ["l3", "l4", "l5"]]
        await until(lambda: seen == [1, 4, 1, 3])

    asyncio.run(scenario())


def test_jobs_without_a_key_and_calls_are_alone(
    make_queue: Callable[..., BatchQueue], translator: FakeTranslator
) -> None:
    async def scenario() -> None:
        queue = make_queue()
        first = await begin(queue, translator)
        jobs = [make_job(translator, "a", key=None), make_job(translator, "b", key=None), Job(["x"], call=lambda: 7)]
        for job in jobs:
            queue.submit(job)
        translator.gate.set()
        assert [await results(job) for job in (first, *jobs)] == [["FIRST"], ["A"], ["B"], [7]]
        assert translator.batches == [["first"], ["a"], ["b"]]

    asyncio.run(scenario())


def test_a_batch_ends_with_the_text_that_fills_it(
    make_queue: Callable[..., BatchQueue], translator: FakeTranslator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batching, "BATCH_CHARACTERS", 5)

    async def scenario() -> None:
        translator.gate.set()
        job = make_job(translator, "abc", "defg", "h", "i")
        make_queue().submit(job)
        assert await results(job) == ["ABC", "DEFG", "H", "I"]
        assert translator.batches == [["abc", "defg"], ["h", "i"]]

    asyncio.run(scenario())


def test_partial_results_are_joined_and_only_the_newest_is_given(
    make_queue: Callable[..., BatchQueue], translator: FakeTranslator
) -> None:
    async def scenario() -> None:
        queue, job = make_queue(), make_job(translator, "text", key=None, shows_partial=True)
        queue.submit(job)
        translator.gate.set()
        await until(lambda: job.events.qsize() == 3)
        found = [each async for each in job.results(asyncio.get_running_loop().time() + 10)]
        assert found == [Found(0, "TEXT")]
        again = make_job(translator, "text", key=None, shows_partial=True)
        stream = again.results(asyncio.get_running_loop().time() + 10)
        again.deliver(Found(0, "t", is_partial=True))
        assert (await anext(stream)).value == "t"
        await stream.aclose()

    asyncio.run(scenario())


def test_parts_of_a_text_are_joined_in_order(
    make_queue: Callable[..., BatchQueue], translator: FakeTranslator, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        told: list[Found] = []
        job = make_job(translator, "text", key=None, shows_partial=True)
        monkeypatch.setattr(job, "deliver", told.append)
        translator.gate.set()
        make_queue().submit(job)
        await until(lambda: len(told) == 3)
        assert [each.value for each in told] == ["t", "te t", "TEXT"]

    asyncio.run(scenario())


@pytest.mark.parametrize("bad, error", [("bad", InputError), ("worse", RunError)])
def test_a_request_that_cannot_be_answered_fails_alone(
    make_queue: Callable[..., BatchQueue], translator: FakeTranslator, bad: str, error: type[Exception]
) -> None:
    """It shares a batch with others, some of whose texts are found before it fails."""

    async def scenario() -> None:
        queue = make_queue()
        await begin(queue, translator)
        jobs = [make_job(translator, "a", "b"), make_job(translator, "c", bad), make_job(translator, "d", "e")]
        for job in jobs:
            queue.submit(job)
        translator.gate.set()
        assert await results(jobs[0]) == ["A", "B"] and await results(jobs[2]) == ["D", "E"]
        with pytest.raises(error) as raised:
            await results(jobs[1])
        if bad == "bad":
            assert str(raised.value) == "line 2: bad"  # by the number in its own request
        assert len(jobs[0].delivered) == 2 and jobs[0].events.empty()  # nothing twice

    asyncio.run(scenario())


def test_a_full_queue_says_when_to_come_again(
    make_queue: Callable[..., BatchQueue], translator: FakeTranslator
) -> None:
    async def scenario() -> None:
        queue = make_queue(max_characters=30)
        await begin(queue, translator)
        queue.submit(make_job(translator, "a" * 100))  # nothing waits, so even so much is taken
        assert queue.waiting_characters == 101
        with pytest.raises(QueueFull, match=r"busy: ask again in 1 s") as raised:
            queue.submit(make_job(translator, "b"))
        assert raised.value.headers == {"Retry-After": "1"}
        queue._characters_per_second = 0.5
        with pytest.raises(QueueFull, match=r"in 60 s"):
            queue.submit(make_job(translator, "b"))
        translator.gate.set()

    asyncio.run(scenario())


def test_cancelled_work_is_dropped(make_queue: Callable[..., BatchQueue], translator: FakeTranslator) -> None:
    async def scenario() -> None:
        queue = make_queue()
        first = await begin(queue, translator)
        waiting, other = make_job(translator, "never", key=1), make_job(translator, "other", key=2)
        queue.submit(waiting)
        queue.submit(other)
        queue.cancel(waiting)
        queue.cancel(first)  # which is being searched: it is given up at its next result
        translator.gate.set()
        assert await results(other) == ["OTHER"] and translator.batches == [["first"], ["other"]]
        assert not first.delivered and not waiting.delivered and queue.waiting_characters == 0

    asyncio.run(scenario())


def test_the_deadline(make_queue: Callable[..., BatchQueue], translator: FakeTranslator) -> None:
    async def scenario() -> None:
        job = await begin(make_queue(), translator)
        with pytest.raises(TimeoutError):
            await results(job, seconds=0.01)
        translator.gate.set()

    asyncio.run(scenario())


def test_no_texts_are_answered_at_once_and_together_comes_last(
    make_queue: Callable[..., BatchQueue], translator: FakeTranslator
) -> None:
    async def scenario() -> None:
        queue, empty = make_queue(), make_job(translator)
        queue.submit(empty)
        assert await results(empty) == []
        calls: list[int] = []

        def finish(translations: list[Translation]) -> list[Any]:
            calls.append(len(translations))
            return [each.source for each in translations]

        job = Job(["a", "b", "c"], translator=translator, finish=finish, is_together=True)  # type: ignore[arg-type]
        queue.submit(job)
        translator.gate.set()
        assert await results(job) == ["a", "b", "c"] and calls == [3]

    asyncio.run(scenario())


def test_closing_waits_for_what_is_computed(translator: FakeTranslator) -> None:
    async def scenario() -> None:
        queue = BatchQueue(max_characters=100, num_workers=2)
        job = await begin(queue, translator)
        late = make_job(translator, "late", key=3)
        threading.Timer(0.05, translator.gate.set).start()
        await asyncio.to_thread(queue.close)
        queue.submit(late)
        assert await results(job) == ["FIRST"]
        assert not any(thread.is_alive() for thread in queue._threads) and not late.delivered

    asyncio.run(scenario())


def test_the_texts_are_divided_among_the_workers(
    make_queue: Callable[..., BatchQueue], translator: FakeTranslator
) -> None:
    async def scenario() -> None:
        queue, job = make_queue(num_workers=2), make_job(translator, *"abcde")
        queue.submit(job)
        await until(lambda: len(translator.batches) == 2)
        assert sorted(translator.batches) == [["a", "b", "c"], ["d", "e"]]
        translator.gate.set()
        assert await results(job) == list("ABCDE")

    asyncio.run(scenario())


@pytest.mark.parametrize("comes", [True, False])
def test_those_who_were_answered_are_waited_for(
    make_queue: Callable[..., BatchQueue], translator: FakeTranslator, comes: bool
) -> None:
    """Two were answered; one has asked again and waits for the other, who comes, or at last does not."""

    async def scenario() -> None:
        ended: list[int] = []
        queue = make_queue(on_batch=lambda texts, seconds: ended.append(texts))
        first = await begin(queue, translator)
        jobs = [make_job(translator, "a"), make_job(translator, "b")]
        for job in jobs:
            queue.submit(job)
        translator.gate.set()
        for job in [first, *jobs]:
            await results(job)
        await until(lambda: ended == [1, 2])
        assert queue._num_answered >= 2 and not queue._num_computing
        queue._gather_until = time.monotonic() + (100.0 if comes else 0.2)
        started = time.monotonic()
        job, other = make_job(translator, "x"), make_job(translator, "y")
        queue.submit(job)
        if comes:
            await asyncio.sleep(0.05)
            assert len(translator.batches) == 2
            queue.submit(other)
        assert await results(job) == ["X"]
        assert translator.batches[2:] == [["x", "y"] if comes else ["x"]]
        assert comes or time.monotonic() - started > 0.15

    asyncio.run(scenario())


def test_a_worker_waits_no_longer_than_a_share_of_a_batch(
    make_queue: Callable[..., BatchQueue], translator: FakeTranslator
) -> None:
    """The time counts from the end of a batch; a job that is cancelled meanwhile leaves nothing to do."""

    async def scenario() -> None:
        ended: list[float] = []
        queue = make_queue(on_batch=lambda texts, seconds: ended.append(seconds))
        first, begun = await begin(queue, translator), time.monotonic()
        translator.gate.set()
        await results(first)
        await until(lambda: ended)
        assert 0 < queue._gather_until - begun - batching.LINGER * ended[0] < 5
        queue._gather_until, queue._num_answered = time.monotonic() + 100, 1000
        gone = make_job(translator, "gone")
        queue.submit(gone)
        queue.cancel(gone)
        queue._gather_until = 0.0
        last = make_job(translator, "last")
        queue.submit(last)
        assert await results(last) == ["LAST"] and translator.batches == [["first"], ["last"]]

    asyncio.run(scenario())
