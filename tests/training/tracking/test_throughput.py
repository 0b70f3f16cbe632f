"""Speed, waiting and the time left, measured by a clock that the test sets."""

from collections.abc import Iterator

import pytest

from translate.config.schema import TrainingConfig
from translate.runs.progress import Progress
from translate.training.tracking import throughput
from translate.training.tracking.throughput import Throughput, describe_seconds


class Clock:
    """Shows what it is set to."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def perf_counter(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(throughput, "time", clock)
    return clock


def train(
    throughput: Throughput, progress: Progress, clock: Clock, *, steps: int, computing: float, waiting: float
) -> None:
    """Steps of 50 target tokens."""

    def coming() -> Iterator[int]:
        for step in range(steps):
            clock.seconds += waiting
            yield step

    for _ in throughput.timed(coming()):
        clock.seconds += computing
        progress.step, progress.target_tokens = progress.step + 1, progress.target_tokens + 50


@pytest.mark.parametrize(
    "seconds, told",
    [
        (0.2, "0 s"),
        (59.4, "59 s"),
        (59.5, "1 min"),
        (12 * 60.0 + 20, "12 min"),
        (59.6 * 60, "1.0 h"),
        (3 * 3600.0 + 20 * 60, "3.3 h"),
        (9.96 * 3600, "10 h"),
        (23.9 * 3600, "24 h"),
        (23.96 * 3600, "1.0 days"),
        (52 * 3600.0, "2.2 days"),
        (100 * 86400.0, "100 days"),
    ],
)
def test_a_time_as_people_say_it(seconds: float, told: str) -> None:
    assert describe_seconds(seconds) == told and len(told) <= 8


def test_speed_and_waiting_are_of_the_steps_since_the_last_entry(clock: Clock) -> None:
    progress = Progress("data")
    throughput = Throughput(TrainingConfig(), progress)
    train(throughput, progress, clock, steps=4, computing=9.0, waiting=1.0)
    assert throughput.speed() == (200 / 40, 0.1)
    throughput.begin_window()
    train(throughput, progress, clock, steps=2, computing=1.0, waiting=3.0)
    clock.seconds += 500.0
    throughput.end_validation(500.0)
    assert throughput.speed() == (100 / 8, 0.75)


def test_the_time_left_counts_steps_and_validations(clock: Clock) -> None:
    progress = Progress("data")
    throughput = Throughput(TrainingConfig(max_steps=35, validate_every=10), progress)
    train(throughput, progress, clock, steps=10, computing=1.9, waiting=0.1)
    assert throughput.time_left() == ", 50 s left"  # 25 steps of 2 s; nobody knows yet how long a validation takes
    clock.seconds += 40.0
    throughput.end_validation(40.0)
    # After steps 20, 30 and 35: 50 s and 3 · 40 s.
    assert throughput.time_left() == ", 3 min left"
    train(throughput, progress, clock, steps=25, computing=1.9, waiting=0.1)
    assert throughput.time_left() == "", "nothing is left"


def test_the_first_slow_steps_are_forgotten(clock: Clock) -> None:
    progress = Progress("data")
    throughput = Throughput(TrainingConfig(max_steps=500, validate_every=10_000), progress)
    train(throughput, progress, clock, steps=1, computing=1000.0, waiting=0.0)
    throughput.begin_window()
    train(throughput, progress, clock, steps=200, computing=0.1, waiting=0.0)
    assert throughput.time_left() == ", 30 s left"


@pytest.mark.parametrize(
    "max_steps, max_epochs, left",
    [
        (1000, None, 990),
        (1000, 3, 26),  # 2 steps of this epoch, and two epochs of 12
        (15, 3, 5),
    ],
)
def test_steps_left_end_with_whatever_comes_first(max_steps: int, max_epochs: int | None, left: int) -> None:
    progress = Progress("data", step=10, epoch=0, step_in_epoch=10)
    throughput = Throughput(TrainingConfig(max_steps=max_steps, max_epochs=max_epochs), progress)
    throughput.steps_per_epoch = 12
    assert throughput.steps_left == left


def test_early_stopping_makes_it_a_bound(clock: Clock) -> None:
    progress = Progress("data")
    throughput = Throughput(TrainingConfig(max_steps=30, patience=3), progress)
    train(throughput, progress, clock, steps=20, computing=1.0, waiting=0.0)
    assert throughput.time_left() == ", ≤ 10 s left"
