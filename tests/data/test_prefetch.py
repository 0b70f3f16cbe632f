"""Steps made ahead have the batches of the epochs, in order; failures come in their place, and no thread is left."""

import itertools
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import pytest

from translate.data import prefetch
from translate.data.epochs import Epoch
from translate.data.prefetch import StepBatches, prefetch_steps

SIZE = 22  # batches of an epoch


class NumberedEpoch(Epoch):
    """An epoch whose batches are only their numbers."""

    def __init__(self, number: int, size: int, making: Callable[[int], object]) -> None:
        self.number, self.size, self.making = number, size, making

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, number: int) -> Any:
        self.making(number)
        return self.number, number


def plan(
    number: int,
    *,
    check: Callable[[], None],
    planning: Callable[[int, Callable[[], None]], object] = lambda number, check: None,
    making: Callable[[int], object] = lambda number: None,
    empty_before: float = 0,
) -> Epoch:
    planning(number, check)
    return NumberedEpoch(number, 0 if number < empty_before else SIZE, making)


def prefetched(
    *,
    epoch: int = 0,
    first: int = 0,
    per_step: int = 1,
    max_steps: int = 1000,
    max_epochs: int | None = None,
    **plans: Any,
) -> AbstractContextManager[Iterator[StepBatches]]:
    limits: dict[str, Any] = {"batches_per_step": per_step, "max_steps": max_steps, "max_epochs": max_epochs}
    return prefetch_steps(partial(plan, **plans), epoch=epoch, first=first, **limits)


def places(steps: Iterator[StepBatches]) -> list[tuple[int, int]]:
    return [(step.epoch_number, step.number) for step in steps]


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = threading.enumerate()
    yield
    assert threading.enumerate() == before


@pytest.mark.parametrize("per_step", [1, 5])
def test_steps_are_those_of_the_epochs(per_step: int) -> None:
    with prefetched(per_step=per_step, max_steps=53) as steps:
        found = list(steps)
    expected = [
        (epoch, first // per_step, [(epoch, batch) for batch in range(first, min(first + per_step, SIZE))])
        for epoch in range(11)
        for first in range(0, SIZE, per_step)
    ]
    assert [(step.epoch_number, step.number, step.batches) for step in found] == expected[:53]


@pytest.mark.parametrize("first", [0, 3, 99])
def test_it_begins_where_it_is_told_to(first: int) -> None:
    with prefetched(epoch=2, first=first, per_step=3, max_steps=8) as steps:
        found = places(steps)
    every = [(epoch, number) for epoch in (2, 3) for number in range(8)]
    begin = min(first, 8)  # 99: there is no such step, and so the next epoch's first
    assert found == every[begin : begin + 8]


@pytest.mark.parametrize("max_steps, max_epochs, epochs", [(7, None, 1), (1000, 2, 2), (0, None, 0), (1000, 0, 0)])
def test_it_ends_and_plans_no_epoch_in_vain(max_steps: int, max_epochs: int | None, epochs: int) -> None:
    planned: list[int] = []
    limits: dict[str, Any] = {"max_steps": max_steps, "max_epochs": max_epochs}
    with prefetched(planning=lambda number, _: planned.append(number), **limits) as steps:
        assert len(list(steps)) == min(max_steps, SIZE * epochs)
    assert planned == list(range(epochs))


@pytest.mark.parametrize(("num_taken", "planned"), [(1, [0, 1]), (22, [0, 1]), (23, [0, 1, 2])])
def test_what_is_planned_depends_only_on_what_is_taken(num_taken: int, planned: list[int]) -> None:
    """So processes that end together have planned the same epochs, though one has made more steps ahead."""
    found: list[int] = []
    with prefetched(planning=lambda number, _: found.append(number)) as steps:
        assert len(list(itertools.islice(steps, num_taken))) == num_taken
        while len(found) < len(planned):
            time.sleep(0.001)
        time.sleep(0.1)  # for one too many
    assert found == planned


def test_only_a_few_are_made_ahead() -> None:
    made: list[int] = []
    most = prefetch._STEPS_AHEAD
    with prefetched(making=made.append) as steps:
        for taken, _ in enumerate(itertools.islice(steps, 4)):
            while len(made) < taken + 1 + most:
                time.sleep(0.001)
            time.sleep(0.02)  # for one too many
            assert made == list(range(taken + 1 + most))


def test_epochs_may_be_without_a_batch() -> None:
    with prefetched(empty_before=3, max_steps=2) as steps:
        assert places(steps) == [(3, 0), (3, 1)]
    with prefetched(empty_before=math.inf):
        time.sleep(0.05)  # and it can be ended


class Broken(Exception):
    pass


def fail_at(wanted: int) -> Callable[..., None]:
    def fail(number: int, *_: object) -> None:
        if number == wanted:
            raise Broken

    return fail


@pytest.mark.parametrize(
    ("failure", "num_before"),  # a plan that fails during an epoch is raised after it
    [({"planning": fail_at(0)}, 0), ({"planning": fail_at(1)}, SIZE), ({"making": fail_at(11)}, 11)],
)
def test_a_failure_comes_in_its_place(failure: dict[str, Any], num_before: int) -> None:
    found: list[int] = []
    with pytest.raises(Broken), prefetched(**failure) as steps:
        for step in steps:
            found.append(step.number)
    assert found == list(range(num_before))


def test_stopping_while_an_epoch_is_planned() -> None:
    """The next epoch is planned when this one begins, and planning asks whether to continue."""
    began = threading.Event()

    def plan_for_ever(number: int, check: Callable[[], None]) -> None:
        while number == 1:
            began.set()
            check()
            time.sleep(0.001)

    with pytest.raises(KeyboardInterrupt), prefetched(planning=plan_for_ever) as steps:
        assert places(itertools.islice(steps, 1)) == [(0, 0)]
        began.wait()
        raise KeyboardInterrupt
