"""Speed, waiting and the time left, on a clock that the test turns; and what people read of them."""

import fcntl
import json
import os
import re
import struct
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from translate.config import Config, TrainingConfig
from translate.runs import RunDirectory
from translate.training import pace as pace_module
from translate.training.metrics_log import MetricsLog
from translate.training.pace import Pace, describe_seconds
from translate.training.progress import Progress
from translate.training.tracking import Tracker

Digits = Callable[..., Config]
RunTraining = Callable[..., list[str]]


class Clock:
    """Shows what it is set to."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def perf_counter(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(pace_module, "time", clock)
    return clock


def train(pace: Pace, progress: Progress, clock: Clock, *, steps: int, computing: float, waiting: float) -> None:
    """Steps of 50 target tokens."""

    def coming() -> Iterator[int]:
        for step in range(steps):
            clock.seconds += waiting
            yield step

    for _ in pace.timed(coming()):
        clock.seconds += computing
        progress.step, progress.target_tokens = progress.step + 1, progress.target_tokens + 50
        pace.end_step()


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
    pace = Pace(TrainingConfig(), progress)
    train(pace, progress, clock, steps=4, computing=9.0, waiting=1.0)
    assert pace.speed() == (200 / 40, 0.1)
    pace.begin_window()
    train(pace, progress, clock, steps=2, computing=1.0, waiting=3.0)
    clock.seconds += 500.0
    pace.end_validation(500.0)
    assert pace.speed() == (100 / 8, 0.75)


def test_the_time_left_counts_steps_and_validations(clock: Clock) -> None:
    progress = Progress("data")
    pace = Pace(TrainingConfig(max_steps=35, validate_every=10), progress)
    train(pace, progress, clock, steps=10, computing=1.9, waiting=0.1)
    assert pace.time_left() == ", 50 s left"  # 25 steps of 2 s; nobody knows yet how long a validation takes
    clock.seconds += 40.0
    pace.end_validation(40.0)
    # After steps 20, 30 and 35: 50 s and 3 · 40 s.
    assert pace.time_left() == ", 3 min left"
    train(pace, progress, clock, steps=25, computing=1.9, waiting=0.1)
    assert pace.time_left() == "", "nothing is left"


def test_the_first_slow_steps_are_forgotten(clock: Clock) -> None:
    progress = Progress("data")
    pace = Pace(TrainingConfig(max_steps=500, validate_every=10_000), progress)
    train(pace, progress, clock, steps=1, computing=1000.0, waiting=0.0)
    train(pace, progress, clock, steps=200, computing=0.1, waiting=0.0)
    assert pace.time_left() == ", 30 s left"


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
    pace = Pace(TrainingConfig(max_steps=max_steps, max_epochs=max_epochs), progress)
    pace.steps_per_epoch = 12
    assert pace.steps_left == left


def test_early_stopping_makes_it_at_most(clock: Clock) -> None:
    progress = Progress("data")
    pace = Pace(TrainingConfig(max_steps=30, patience=3), progress)
    train(pace, progress, clock, steps=20, computing=1.0, waiting=0.0)
    assert pace.time_left() == ", at most 10 s left"


def test_each_line_of_a_log_has_speed_waiting_and_the_time_left(
    run_training: RunTraining, digits: Digits, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_training(digits("training.max_steps=10", "training.log_every=5"), tmp_path / "run")
    lines = [line for line in capsys.readouterr().err.splitlines() if "target tokens/s" in line]
    assert re.search(r", \d+ target tokens/s, \d+\.\d% waiting for data, \d+ s left$", lines[0])
    assert re.search(r", \d+ target tokens/s, \d+\.\d% waiting for data$", lines[1]), (
        "after the last step, none is left"
    )
    records = [json.loads(line) for line in RunDirectory(tmp_path / "run").metrics.read_text().splitlines()]
    shares = [record["waiting"] for record in records if record["kind"] == "train"]
    assert len(shares) == 2 and all(0.0 <= share < 1.0 for share in shares)


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_bar_asks_for_its_text_about_once_a_second(tmp_path: Path, is_terminal: bool) -> None:
    asked: list[str] = []

    def tell() -> str:
        asked.append("loss 3.210, 50 target tokens/s, 12 min left")
        return asked[-1]

    reader, writer = os.openpty() if is_terminal else os.pipe()
    if is_terminal:
        fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    with os.fdopen(writer, "w", encoding="utf-8") as stream, os.fdopen(reader, "rb", buffering=0) as shown:
        metrics = MetricsLog(tmp_path / "metrics.jsonl", first_step=0, mark=None)
        tracker = Tracker(metrics, first_step=0, max_steps=100_000, tensorboard=None, stream=stream)
        for _ in range(50):
            tracker.advance(tell, num_steps=70)
        tracker.close()
        stream.write(".")
        stream.flush()
        text = ""
        while not text.endswith("."):
            text += shown.read(100_000).decode()
    if is_terminal:
        assert len(asked) == 1
        assert "50/70 [" in text and f", {asked[0]}]" in text
    else:
        assert (asked, text) == ([], ".")
