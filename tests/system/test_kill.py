"""A training process that is killed again and again ends with the bytes of one that never was."""

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import state_of

from translate.errors import RunError
from translate.runs.checkpoint import read_tensors
from translate.runs.directory import RunDirectory

MOMENTS = ("writing", "validating", "anywhen", "starting")


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def last_step(run: RunDirectory) -> int:
    """The step of the last checkpoint; 0 if there is none."""
    try:
        return int(read_tensors(run.checkpoint("last")).metadata["step"])
    except RunError:
        return 0


# Runs in the training process before its command: while it validates there is a file.
MARK_VALIDATIONS = """
import contextlib, pathlib
from translate.training import best_checkpoint

def validate(*args, original=best_checkpoint.validate, **kwargs):
    mark = pathlib.Path({mark!r})
    mark.touch()
    result = original(*args, **kwargs)
    mark.unlink()
    return result

best_checkpoint.validate = validate
"""


def half_written(run: RunDirectory) -> list[Path]:
    return list(run.checkpoints.glob("*.tmp"))


def wait_for(moment: str, run: RunDirectory, mark: Path, process: int, draw: random.Random) -> None:
    """Until the training that was just started comes to such a moment, and a little longer."""

    def until(condition: Callable[[], object], *, seconds: float) -> None:
        while not condition():
            assert is_alive(process), f"it ended before it was {moment}"
        time.sleep(draw.uniform(0.0, seconds))

    wanted = last_step(run) + draw.randrange(4)
    if moment in ("writing", "anywhen"):
        until(lambda: last_step(run) >= wanted, seconds=0.05 if moment == "anywhen" else 0)
    match moment:
        case "starting":
            time.sleep(draw.uniform(0.0, 0.3))
        case "writing":
            until(lambda: half_written(run), seconds=0.002)
        case "validating":
            until(mark.exists, seconds=0.03)


_LONG = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize(
    "num_kills, precision", [(3, "fp32"), pytest.param(20, "fp32", marks=_LONG), pytest.param(20, "bf16", marks=_LONG)]
)
def test_killed_again_and_again(trainings: Any, tmp_path: Path, num_kills: int, precision: str) -> None:
    settings = [f"training.precision={precision}", "training.max_steps=100000"]  # which it never reaches
    run, draw = RunDirectory(tmp_path / "killed"), random.Random(f"{num_kills} {precision}")
    hits, mark = {"writing": 0, "validating": 0}, tmp_path / "validating"
    for number in range(num_kills):
        mark.unlink(missing_ok=True)
        first = MARK_VALIDATIONS.format(mark=str(mark))
        process = trainings.start(trainings.arguments(run.path, *settings, resume=True), first=first)
        wait_for(MOMENTS[number % len(MOMENTS)], run, mark, process, draw)
        os.kill(process, signal.SIGKILL)
        assert trainings.wait() == -signal.SIGKILL, "it ended before it was killed"
        hits["writing"] += bool(half_written(run))
        hits["validating"] += mark.exists()
    settings[1] = f"training.max_steps={last_step(run) + 3}"
    said = trainings.run(run.path, *settings, resume=True)
    assert "Continuing from step" in said
    trainings.run(tmp_path / "straight", *settings)
    assert state_of(run.path) == state_of(tmp_path / "straight")
    assert num_kills < 20 or min(hits.values()) > 0, f"no kill hit what it aimed at: {hits}"
