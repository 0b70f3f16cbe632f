"""Steps made ahead have the batches of the epochs, in order; failures come in their place, and no thread is left."""

import itertools
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch

from translate.config.data import DataConfig, TokenizerConfig
from translate.data import prefetch
from translate.data.batching import Batch
from translate.data.corpora import ParallelCorpus
from translate.data.epochs import BatchSettings, Epoch, TrainingBatches
from translate.data.prefetch import StepBatches, prefetch_steps
from translate.data.tokenizer import Tokenizers, train_tokenizer


def make_batches(*, sampling: float | None = None) -> TrainingBatches:
    """About 17 batches an epoch."""
    lines = [" ".join("abc"[(number * place) % 3] for place in range(number % 11 + 1)) for number in range(83)]
    tokenizer = train_tokenizer(["a b c", "ab bc ca"] * 3, TokenizerConfig(vocab_size=14, byte_fallback=False))
    return TrainingBatches(
        [ParallelCorpus("letters", lines, lines[::-1], 1.3)],
        Tokenizers(tokenizer, tokenizer, "joint"),
        BatchSettings(limits=DataConfig(), subword_sampling=sampling, batch_tokens=47, seed=1),
    )


@pytest.fixture(scope="module")
def batches() -> TrainingBatches:
    return make_batches()


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = threading.enumerate()
    yield
    assert threading.enumerate() == before


def prefetched(
    batches: Any, *, epoch: int = 0, first: int = 0, batches_per_step: int = 1, max_steps: int = 1000,
    max_epochs: int | None = None,
) -> AbstractContextManager[Iterator[StepBatches]]:  # fmt: skip
    return prefetch_steps(
        batches.epoch,
        epoch=epoch,
        first=first,
        batches_per_step=batches_per_step,
        max_steps=max_steps,
        max_epochs=max_epochs,
    )


class Watched:
    """The same epochs, and something that happens when one is planned."""

    def __init__(self, batches: TrainingBatches, planning: Callable[[int, Callable[[], None]], Any]) -> None:
        self._batches = batches
        self._planning = planning

    def epoch(self, number: int, *, check: Callable[[], None]) -> Epoch:
        self._planning(number, check)
        return self._batches.epoch(number)


class WatchedEpoch(Epoch):
    """An epoch, and something that happens when a batch is made."""

    def __init__(self, epoch: Epoch, making: Callable[[int], Any]) -> None:
        self.__dict__ |= vars(epoch)
        self._making = making

    def __getitem__(self, number: int) -> Batch:
        self._making(number)
        return super().__getitem__(number)


class WatchedMaking:
    """The same epochs, and something that happens when a batch of one is made."""

    def __init__(self, batches: TrainingBatches, making: Callable[[int], Any]) -> None:
        self._batches = batches
        self._making = making

    def epoch(self, number: int, *, check: Callable[[], None]) -> Epoch:
        return WatchedEpoch(self._batches.epoch(number), self._making)


def same(left: Batch, right: Batch) -> bool:
    return left.indices == right.indices and all(torch.equal(a, b) for a, b in zip(left[:3], right[:3], strict=True))


# What comes


def expected_steps(batches: TrainingBatches, *, batches_per_step: int) -> Iterator[tuple[int, int, list[Batch]]]:
    for number in itertools.count():
        epoch = list(batches.epoch(number))
        for step in range(-(-len(epoch) // batches_per_step)):
            yield number, step, epoch[step * batches_per_step : (step + 1) * batches_per_step]


@pytest.mark.parametrize("sampling", [None, 0.3])
@pytest.mark.parametrize("batches_per_step", [1, 5])
def test_steps_are_those_of_the_epochs(sampling: float | None, batches_per_step: int) -> None:
    batches = make_batches(sampling=sampling)
    with prefetched(batches, batches_per_step=batches_per_step, max_steps=83) as steps:
        found = list(steps)
    expected = list(
        itertools.islice(expected_steps(make_batches(sampling=sampling), batches_per_step=batches_per_step), 83)
    )
    assert expected[-1][0] >= 2  # it is the third epoch, at least
    assert [(step.epoch_number, step.number) for step in found] == [place[:2] for place in expected]
    for step, (_, _, wanted) in zip(found, expected, strict=True):
        assert len(step.batches) == len(wanted)
        assert all(same(*pair) for pair in zip(step.batches, wanted, strict=True))


@pytest.mark.parametrize("first", [0, 3, 99])
def test_it_begins_where_it_is_told_to(batches: TrainingBatches, first: int) -> None:
    num_steps = -(-len(batches.epoch(2)) // 3)
    with prefetched(batches, epoch=2, first=first, batches_per_step=3, max_steps=num_steps) as steps:
        places = [(step.epoch_number, step.number) for step in steps]
    every = [(2, number) for number in range(num_steps)] + [(3, number) for number in range(num_steps)]
    begin = min(first, num_steps)  # 99: there is no such step, and so the next epoch's first
    assert places == every[begin : begin + num_steps]


@pytest.mark.parametrize("max_steps, max_epochs, epochs", [(7, None, 1), (1000, 2, 2), (0, None, 0), (1000, 0, 0)])
def test_it_ends_and_plans_no_epoch_in_vain(
    batches: TrainingBatches, max_steps: int, max_epochs: int | None, epochs: int
) -> None:
    planned: list[int] = []
    watched = Watched(batches, lambda number, _: planned.append(number))
    with prefetched(watched, max_steps=max_steps, max_epochs=max_epochs) as steps:
        found = list(steps)
    assert planned == list(range(epochs))
    assert len(found) == min(max_steps, sum(len(batches.epoch(number)) for number in range(epochs)))


def test_the_next_epoch_is_planned_when_this_one_begins(batches: TrainingBatches) -> None:
    second = threading.Event()
    watched = Watched(batches, lambda number, _: second.set() if number == 1 else None)
    with prefetched(watched) as steps:
        step = next(iter(steps))
        assert (step.epoch_number, step.number) == (0, 0)
        assert second.wait(timeout=30)


@pytest.mark.parametrize("seconds", [0.0, 0.1])
@pytest.mark.parametrize(("num_taken", "planned"), [(1, [0, 1]), (22, [0, 1]), (23, [0, 1, 2])])
def test_what_is_planned_depends_on_what_is_taken_alone(
    batches: TrainingBatches, seconds: float, num_taken: int, planned: list[int]
) -> None:
    """So processes that end together have planned the same epochs, though one has made more steps ahead."""
    assert len(batches.epoch(0)) == 22
    found: list[int] = []
    with prefetched(Watched(batches, lambda number, _: found.append(number))) as steps:
        assert len(list(itertools.islice(steps, num_taken))) == num_taken
        time.sleep(seconds)
    assert found == planned


def test_only_a_few_are_made_ahead(batches: TrainingBatches) -> None:
    made: list[int] = []
    most = prefetch._STEPS_AHEAD
    with prefetched(WatchedMaking(batches, made.append)) as steps:
        for taken, _ in enumerate(itertools.islice(steps, 4)):
            deadline = time.monotonic() + 30
            while len(made) < taken + 1 + most and time.monotonic() < deadline:
                time.sleep(0.001)
            time.sleep(0.02)  # for one too many
            assert made == list(range(taken + 1 + most))


class WithoutBatches:
    """The same epochs, of which those before a number have nothing."""

    def __init__(self, batches: TrainingBatches, *, before: float) -> None:
        self._batches = batches
        self._before = before

    def epoch(self, number: int, *, check: Callable[[], None]) -> Epoch:
        epoch = self._batches.epoch(number)
        if number < self._before:
            epoch.starts = epoch.starts[:0]
        return epoch


def test_epochs_may_be_without_a_batch(batches: TrainingBatches) -> None:
    with prefetched(WithoutBatches(batches, before=3), max_steps=2) as steps:
        assert [(step.epoch_number, step.number) for step in steps] == [(3, 0), (3, 1)]
    with prefetched(WithoutBatches(batches, before=math.inf)):
        time.sleep(0.05)  # and it can be ended


# What goes wrong


class Broken(Exception):
    pass


def fail_at(wanted: int) -> Callable[..., None]:
    def fail(number: int, *_: object) -> None:
        if number == wanted:
            raise Broken(f"number {number}")

    return fail


def test_a_failure_comes_in_its_place(batches: TrainingBatches) -> None:
    num_batches = len(batches.epoch(0))
    cases: list[tuple[Any, int]] = [
        (Watched(batches, fail_at(0)), 0),
        (Watched(batches, fail_at(1)), num_batches),  # planned while the first is gone through, and raised after it
        (WatchedMaking(batches, fail_at(11)), 11),
    ]
    for broken, num_before in cases:
        found: list[StepBatches] = []
        with pytest.raises(Broken, match="number"), prefetched(broken) as steps:
            for step in steps:
                found.append(step)
        assert [step.number for step in found] == list(range(num_before))


@pytest.mark.parametrize("taken", [0, 1, 9])
def test_stopping_early_leaves_nothing_running(batches: TrainingBatches, taken: int) -> None:
    with pytest.raises(KeyboardInterrupt), prefetched(batches) as steps:
        for number, _ in enumerate(steps):
            if number == taken:
                raise KeyboardInterrupt


def test_stopping_while_an_epoch_is_planned(batches: TrainingBatches) -> None:
    began = threading.Event()

    def plan_for_ever(number: int, check: Callable[[], None]) -> None:
        while number == 1:
            began.set()
            check()
            time.sleep(0.001)

    with prefetched(Watched(batches, plan_for_ever)) as steps:
        next(iter(steps))
        assert began.wait(timeout=30)


def test_planning_asks_whether_to_go_on() -> None:
    batches = make_batches(sampling=0.3)
    with pytest.raises(Broken):
        batches.epoch(0, check=lambda: fail_at(0)(0))
