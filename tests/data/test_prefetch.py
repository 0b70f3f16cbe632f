"""Steps made ahead have the batches of the epochs, in order; failures come in their place, and no thread is left."""

import itertools
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest
import torch

from translate.config.data import DataConfig, TokenizerConfig
from translate.data import prefetch
from translate.data.batching import Batch
from translate.data.corpora import ParallelCorpus
from translate.data.epochs import BatchSettings, Epoch, TrainingBatches
from translate.data.prefetch import StepBatches, prefetch_steps
from translate.data.tokenizer import Tokenizers, train_tokenizer

PlanEpoch = Callable[..., Epoch]


def make_batches(*, sampling: float | None = None) -> TrainingBatches:
    """22 batches in the first epoch."""
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
    plan: PlanEpoch, *, epoch: int = 0, first: int = 0, per_step: int = 1, max_steps: int = 1000,
    max_epochs: int | None = None,
) -> AbstractContextManager[Iterator[StepBatches]]:  # fmt: skip
    return prefetch_steps(
        plan, epoch=epoch, first=first, batches_per_step=per_step, max_steps=max_steps, max_epochs=max_epochs
    )


class WatchedEpoch(Epoch):
    """An epoch, and something that happens when a batch is made."""

    def __init__(self, epoch: Epoch, making: Callable[[int], object]) -> None:
        self.__dict__ |= vars(epoch)
        self._making = making

    def __getitem__(self, number: int) -> Batch:
        self._making(number)
        return super().__getitem__(number)


def watch(
    batches: TrainingBatches,
    *,
    planning: Callable[[int, Callable[[], None]], object] = lambda number, check: None,
    making: Callable[[int], object] = lambda number: None,
    empty_before: float = 0,
) -> PlanEpoch:
    """The same epochs, and something that happens when one is planned, or when a batch of one is made.

    Args:
        empty_before: Epochs before this number have no batch.
    """

    def plan(number: int, *, check: Callable[[], None]) -> Epoch:
        planning(number, check)
        epoch = WatchedEpoch(batches.epoch(number), making)
        if number < empty_before:
            epoch.starts = epoch.starts[:0]
        return epoch

    return plan


def places(steps: Iterator[StepBatches]) -> list[tuple[int, int]]:
    return [(step.epoch_number, step.number) for step in steps]


# What comes


@pytest.mark.parametrize("sampling", [None, 0.3])
@pytest.mark.parametrize("per_step", [1, 5])
def test_steps_are_those_of_the_epochs(sampling: float | None, per_step: int) -> None:
    with prefetched(make_batches(sampling=sampling).epoch, per_step=per_step, max_steps=83) as steps:
        found = list(steps)
    straight, expected = make_batches(sampling=sampling), []
    for number in itertools.count():
        epoch = list(straight.epoch(number))
        expected += [
            (number, first // per_step, epoch[first : first + per_step]) for first in range(0, len(epoch), per_step)
        ]
        if len(expected) >= 83:
            break
    assert number >= 2
    for step, (epoch_number, place, wanted) in zip(found, expected[:83], strict=True):
        assert (step.epoch_number, step.number) == (epoch_number, place)
        for left, right in zip(step.batches, wanted, strict=True):
            assert left.indices == right.indices and all(map(torch.equal, left[:3], right[:3]))


@pytest.mark.parametrize("first", [0, 3, 99])
def test_it_begins_where_it_is_told_to(batches: TrainingBatches, first: int) -> None:
    num_steps = -(-len(batches.epoch(2)) // 3)
    with prefetched(batches.epoch, epoch=2, first=first, per_step=3, max_steps=num_steps) as steps:
        found = places(steps)
    every = [(2, number) for number in range(num_steps)] + [(3, number) for number in range(num_steps)]
    begin = min(first, num_steps)  # 99: there is no such step, and so the next epoch's first
    assert found == every[begin : begin + num_steps]


@pytest.mark.parametrize("max_steps, max_epochs, epochs", [(7, None, 1), (1000, 2, 2), (0, None, 0), (1000, 0, 0)])
def test_it_ends_and_plans_no_epoch_in_vain(
    batches: TrainingBatches, max_steps: int, max_epochs: int | None, epochs: int
) -> None:
    planned: list[int] = []
    plan = watch(batches, planning=lambda number, _: planned.append(number))
    with prefetched(plan, max_steps=max_steps, max_epochs=max_epochs) as steps:
        found = list(steps)
    assert planned == list(range(epochs))
    assert len(found) == min(max_steps, sum(len(batches.epoch(number)) for number in range(epochs)))


@pytest.mark.parametrize("seconds", [0.0, 0.1])
@pytest.mark.parametrize(("num_taken", "planned"), [(1, [0, 1]), (22, [0, 1]), (23, [0, 1, 2])])
def test_what_is_planned_depends_on_what_is_taken_alone(
    batches: TrainingBatches, seconds: float, num_taken: int, planned: list[int]
) -> None:
    """So processes that end together have planned the same epochs, though one has made more steps ahead."""
    assert len(batches.epoch(0)) == 22
    found: list[int] = []
    with prefetched(watch(batches, planning=lambda number, _: found.append(number))) as steps:
        assert len(list(itertools.islice(steps, num_taken))) == num_taken
        time.sleep(seconds)
    assert found == planned


def test_only_a_few_are_made_ahead(batches: TrainingBatches) -> None:
    made: list[int] = []
    most = prefetch._STEPS_AHEAD
    with prefetched(watch(batches, making=made.append)) as steps:
        for taken, _ in enumerate(itertools.islice(steps, 4)):
            deadline = time.monotonic() + 30
            while len(made) < taken + 1 + most and time.monotonic() < deadline:
                time.sleep(0.001)
            time.sleep(0.02)  # for one too many
            assert made == list(range(taken + 1 + most))


def test_epochs_may_be_without_a_batch(batches: TrainingBatches) -> None:
    with prefetched(watch(batches, empty_before=3), max_steps=2) as steps:
        assert places(steps) == [(3, 0), (3, 1)]
    with prefetched(watch(batches, empty_before=math.inf)):
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
    for plan, num_before in (
        (watch(batches, planning=fail_at(0)), 0),
        (watch(batches, planning=fail_at(1)), len(batches.epoch(0))),  # planned during the first, and raised after it
        (watch(batches, making=fail_at(11)), 11),
    ):
        found: list[int] = []
        with pytest.raises(Broken, match="number"), prefetched(plan) as steps:
            for step in steps:
                found.append(step.number)
        assert found == list(range(num_before))


@pytest.mark.parametrize("taken", [0, 1, 9])
def test_stopping_early_leaves_nothing_running(batches: TrainingBatches, taken: int) -> None:
    with pytest.raises(KeyboardInterrupt), prefetched(batches.epoch) as steps:
        next(itertools.islice(steps, taken, None))
        raise KeyboardInterrupt


def test_stopping_while_an_epoch_is_planned(batches: TrainingBatches) -> None:
    """The next epoch is planned when this one begins, and planning asks whether to go on."""
    began = threading.Event()

    def plan_for_ever(number: int, check: Callable[[], None]) -> None:
        while number == 1:
            began.set()
            check()
            time.sleep(0.001)

    with prefetched(watch(batches, planning=plan_for_ever)) as steps:
        assert places(itertools.islice(steps, 1)) == [(0, 0)]
        assert began.wait(timeout=30)
    with pytest.raises(Broken):
        make_batches(sampling=0.3).epoch(0, check=lambda: fail_at(0)(0))
