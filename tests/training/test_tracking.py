"""`metrics.jsonl` holds each record once, however often its training was stopped; lines and a bar for people."""

import contextlib
import fcntl
import json
import math
import os
import re
import resource
import signal
import struct
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from translate.config.schema import Config, TrainingConfig
from translate.errors import RunError
from translate.runs.directory import RunDirectory
from translate.runs.progress import Progress
from translate.training import StoppedBySignal, tracking
from translate.training.tracking import Recorder, Throughput, describe_seconds, describe_step, describe_validation

Digits = Callable[..., Config]
RunTraining = Callable[..., list[str]]
Happening = Callable[..., contextlib.AbstractContextManager[None]]
StateOf = Callable[[Path], Any]
STEP = {
    "step": 1_000_000,
    "nll": 1.2345,
    "perplexity": 3.43,
    "learning_rate": 2.5e-7,
    "target_tokens_per_second": 123_456.7,
}


def test_metrics_are_cut_to_what_the_checkpoint_vouches_for(
    run_training: RunTraining,
    happening: Happening,
    progress_of: Callable[..., dict[str, Any]],
    stateful: Digits,
    tmp_path: Path,
    straight: Path,
    state_of: StateOf,
) -> None:
    config, run = stateful(), tmp_path / "run"
    with happening(in_step=9, what=signal.SIGINT), pytest.raises(StoppedBySignal):
        run_training(config, run)
    file = RunDirectory(run).metrics
    vouched = file.read_bytes()
    assert progress_of(run)["metrics_bytes"] == len(vouched)
    # Lines of the very step of the checkpoint, which a look at steps would keep; and half a line.
    file.write_bytes(vouched + b'{"kind": "train", "step": 9}\n{"kind": "valida')
    said = run_training(config, run, resume=True)
    assert file.read_bytes().startswith(vouched) and not any(str(file) in line for line in said)
    assert state_of(run) == state_of(straight)


def test_changed_metrics_are_kept_by_step_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "metrics.jsonl"
    lines = [json.dumps({"kind": "train", "step": step}) + "\n" for step in (5, 10, 15)]
    huge = '{"step": ' + "9" * 5000 + "}\n"
    for text in ("".join(lines), "".join(lines) + '{"kind": "tr', "".join(lines) + "[" * 10_000 + "\n[]\n" + huge):
        file.write_text(text, encoding="utf-8")
        # Of a checkpoint of version 0.1.0, which has no mark, by step too, and nothing is to be said.
        with Recorder(RunDirectory(tmp_path), TrainingConfig(), Progress("data", step=10)):
            pass
        assert file.read_text(encoding="utf-8") == lines[0] + lines[1] and not caplog.messages
    file.write_text("".join(lines), encoding="utf-8")
    marked = Progress("data", step=10, metrics_bytes=30, metrics_sha256="0" * 64)
    with Recorder(RunDirectory(tmp_path), TrainingConfig(), marked):
        pass
    assert file.read_text(encoding="utf-8") == lines[0] + lines[1]
    assert caplog.messages == [f"{file} has changed since its checkpoint; its lines up to step 10 are kept"]


def test_metrics_that_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    run, settings = RunDirectory(tmp_path), TrainingConfig()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Recorder(run, settings, Progress("data")) as recorder:
        recorder.record({"kind": "train", "step": 1})
        before, mark = file.read_bytes(), recorder.sync()
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 5, hard))  # for this one write alone
        try:
            with pytest.raises(RunError) as caught:
                recorder.record({"kind": "train", "step": 2})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert str(caught.value) == f"{file}: cannot be written: File too large; free some space on that disk"
    assert file.read_bytes() != before, "a part of the line was written"
    continued = Progress("data", step=1, metrics_bytes=mark[0], metrics_sha256=mark[1])
    with Recorder(run, settings, continued) as recorder:
        assert file.read_bytes() == before and recorder.sync() == mark


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_bar_asks_for_its_text_about_once_a_second(tmp_path: Path, is_terminal: bool) -> None:
    asked: list[str] = []

    def tell() -> str:
        asked.append("loss 3.210, 5,000 tok/s, 12 min left")
        return asked[-1]

    reader, writer = os.openpty() if is_terminal else os.pipe()
    if is_terminal:
        fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    with os.fdopen(writer, "w", encoding="utf-8") as stream, os.fdopen(reader, "rb", buffering=0) as shown:
        settings = TrainingConfig(max_steps=100_000)
        with Recorder(RunDirectory(tmp_path), settings, Progress("data"), stream=stream) as recorder:
            for _ in range(50):
                recorder.advance(tell, num_steps=7000)
        stream.write(".")
        stream.flush()
        text = ""
        while not text.endswith("."):
            text += shown.read(100_000).decode()
    if is_terminal:
        assert len(asked) == 1
        assert "50/7,000 [" in text and f", {asked[0]}]" in text
    else:
        assert (asked, text) == ([], ".")


def test_a_validation_has_a_bar_below_that_of_the_training(tmp_path: Path) -> None:
    reader, writer = os.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with os.fdopen(writer, "w", encoding="utf-8") as stream, os.fdopen(reader, "rb", buffering=0) as shown:
        recorder = Recorder(RunDirectory(tmp_path), TrainingConfig(max_steps=70), Progress("data"), stream=stream)
        with recorder, recorder.validating(20) as advance:
            time.sleep(0.15)
            advance(9)
        stream.write(".")
        stream.flush()
        text = ""
        while not text.endswith("."):
            text += shown.read(100_000).decode()
    before, begun, after = text.partition("\n\rvalidating:   0%|")
    assert " 0/70 [" in before and begun and re.search(r"\rvalidating:  45%\|█+.*\| \[00:00, 00:00 left\]", after)
    assert after.rpartition("validating")[2].count(" " * 79) == 1, "it is cleared"


def test_a_validation_without_a_terminal_has_no_bar(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    recorder = Recorder(RunDirectory(tmp_path), TrainingConfig(max_steps=70), Progress("data"))
    with recorder, recorder.validating(20) as advance:
        advance(20)
    assert capfd.readouterr() == ("", "")


# --- speed, waiting and the time left, on a clock that the test turns


class Clock:
    """Shows what it is set to."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def perf_counter(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(tracking, "time", clock)
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


@pytest.mark.parametrize(
    "perplexity, told",
    [
        (1.0, "1.00"),
        (99.994, "99.99"),
        (99.996, "100"),
        (22026.5, "22,026"),
        (999_999.4, "999,999"),
        (1_234_567.0, "1e+06"),
        (math.exp(700), "1e+304"),
    ],
)
def test_a_perplexity_has_at_most_seven_characters(perplexity: float, told: str) -> None:
    assert describe_step({**STEP, "perplexity": perplexity})[0] == f"Step 1,000,000: loss 1.234, ppl {told}"
    assert len(told) <= 7


def test_the_line_of_a_step_fits_80_columns() -> None:
    quality, speed = describe_step(STEP)
    assert quality + speed == "Step 1,000,000: loss 1.234, ppl 3.43, lr 2.5e-07, 123,457 tok/s"
    assert len(f"{quality}{speed}, ≤ 9.9 days left") == 80
    assert describe_step({**STEP, "learning_rate": 0.0})[1] == ", lr 0, 123,457 tok/s"


def test_the_line_of_a_validation_fits_80_columns() -> None:
    record = {"step": 12_000, "BLEU": 25.314, "chrF": 50.126, "loss": 1.2345, "perplexity": 3.43, "seconds": 12.0}
    scores, others = describe_validation(record, is_best=True)
    assert scores + others == "Step 12,000: validation BLEU 25.31, chrF 50.13, loss 1.234, ppl 3.43, best, 12 s"
    assert len(scores + others) == 80
    assert describe_validation(record, is_best=False) == (scores, ", loss 1.234, ppl 3.43, 12 s")
    # One more character, and the time has no room.
    scores, others = describe_validation({**record, "step": 123_000}, is_best=True)
    assert others.endswith("best") and len(scores + others) == 75


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
