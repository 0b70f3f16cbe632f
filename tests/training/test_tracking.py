"""`metrics.jsonl` holds each record once, however often its training was stopped; lines and a bar for people."""

import contextlib
import fcntl
import json
import os
import re
import resource
import signal
import struct
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from translate.config import Config
from translate.errors import RunError
from translate.runs import RunDirectory
from translate.training import StoppedBySignal
from translate.training.progress import MetricsMark
from translate.training.tracking import MetricsLog, Tracker

Digits = Callable[..., Config]
RunTraining = Callable[..., list[str]]
Happening = Callable[..., contextlib.AbstractContextManager[None]]
StateOf = Callable[[Path], Any]


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
    for text in ("".join(lines), "".join(lines) + '{"kind": "tr'):
        file.write_text(text, encoding="utf-8")
        # Of a checkpoint of version 0.1.0, which has no mark, by step too, and nothing is to be said.
        MetricsLog(file, first_step=10, mark=None).close()
        assert file.read_text(encoding="utf-8") == lines[0] + lines[1] and not caplog.messages
    file.write_text("".join(lines), encoding="utf-8")
    MetricsLog(file, first_step=10, mark=MetricsMark(30, "0" * 64)).close()
    assert file.read_text(encoding="utf-8") == lines[0] + lines[1]
    assert caplog.messages == [f"{file} has changed since its checkpoint; its lines up to step 10 are kept"]


def test_metrics_that_cannot_be_written_are_told_once(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    log = MetricsLog(file, first_step=0, mark=None)
    log.append({"kind": "train", "step": 1})
    before, mark = file.read_bytes(), log.sync()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 5, hard))  # for this one write alone
    try:
        with pytest.raises(RunError) as caught:
            log.append({"kind": "train", "step": 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    log.close()
    assert str(caught.value) == f"{file}: cannot be written: File too large; free some space on that disk"
    assert file.read_bytes() != before, "a part of the line was written"
    continued = MetricsLog(file, first_step=1, mark=mark)
    assert file.read_bytes() == before and continued.sync() == mark
    continued.close()


def test_each_line_of_a_log_has_speed_waiting_and_the_time_left(
    run_training: RunTraining,
    digits: Digits,
    tmp_path: Path,
) -> None:
    messages = run_training(digits("training.max_steps=10", "training.log_every=5"), tmp_path / "run")
    lines = [line for line in messages if "target tokens/s" in line]
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
