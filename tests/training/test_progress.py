"""Counters of a training, and its speed, waiting and time left on a clock that the test turns."""

import math
from collections.abc import Iterator

import pytest
import torch

from translate.config import TrainingConfig
from translate.training import progress as progress_module
from translate.training.progress import LogWindow, Progress, StepResult, Throughput, describe_seconds

# float32 numbers of very different sizes, so that a sum in another order or precision is another number.
NATS = [1.1e6, 3.3e-4, 7.7e5, 1.3e-6, 123.456]


def results() -> list[StepResult]:
    found = []
    for number, loss in enumerate(NATS, start=1):
        loss, nll, norm = torch.tensor([loss, loss / 3, 1 / number]).unbind()
        found.append(StepResult(loss, nll, 7 * number, norm))
    return found


def test_sums_are_the_same_whenever_they_are_read() -> None:
    by_hand = 0.0
    for value in torch.tensor(NATS).tolist():
        by_hand += value
    windows = [LogWindow(), LogWindow()]
    for number, result in enumerate(results()):
        for window in windows:
            window.add(result)
        if number in (1, 2):
            windows[1].read()
    assert windows[0].means() == windows[1].means() and windows[0] == windows[1]
    assert windows[1].loss == by_hand and windows[1].tokens == 7 * (1 + 2 + 3 + 4 + 5)
    assert windows[1].means()["loss"] == by_hand / 105


def test_adding_a_step_reads_nothing() -> None:
    absent = torch.empty((), device="meta")  # has no number: reading it fails
    window = LogWindow()
    window.add(StepResult(absent, absent, 11, absent))
    assert (window.steps, window.tokens) == (1, 11)
    with pytest.raises((NotImplementedError, RuntimeError)):
        window.read()


def test_a_checkpoint_has_all_of_an_open_window() -> None:
    progress = Progress("data")
    for result in results():
        progress.window.add(result)
    restored = Progress.from_json(progress.to_json())
    assert restored == progress and restored.window.steps == 5
    assert math.isclose(restored.window.gradient_norm, 1 + 1 / 2 + 1 / 3 + 1 / 4 + 1 / 5, rel_tol=1e-6)
    assert restored.window.means() == progress.window.means()


def test_a_checkpoint_of_an_older_version_is_read() -> None:
    window = '{"steps": 2, "nats": 7.5, "cross_entropy": 7.0, "tokens": 3, "gradient_norm": 0.5}'
    progress = Progress.from_json(f'{{"data_fingerprint": "x", "step": 2, "window": {window}}}')
    assert progress.window == LogWindow(steps=2, loss=7.5, nll=7.0, tokens=3, gradient_norm=0.5)


class Clock:
    """Shows what it is set to."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def perf_counter(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress_module, "time", clock)
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
        throughput.end_step()


@pytest.mark.parametrize(
    "seconds, told",
    [
        (0.2, "0 s"),
        (59.4, "59 s"),
        (59.5, "1 min"),
        (12 * 60.0 + 20, "12 min"),
        (59.6 * 60, "1 h 0 min"),
        (3 * 3600.0 + 20 * 60, "3 h 20 min"),
        (23 * 3600 + 59.6 * 60, "1 day 0 h"),
        (52 * 3600.0, "2 days 4 h"),
    ],
)
def test_a_time_as_people_say_it(seconds: float, told: str) -> None:
    assert describe_seconds(seconds) == told


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


def test_early_stopping_makes_it_at_most(clock: Clock) -> None:
    progress = Progress("data")
    throughput = Throughput(TrainingConfig(max_steps=30, patience=3), progress)
    train(throughput, progress, clock, steps=20, computing=1.0, waiting=0.0)
    assert throughput.time_left() == ", at most 10 s left"
