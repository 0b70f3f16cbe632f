"""Training processes and the system around them: signals, and a second process."""

import os
import re
import shlex
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import state_of

from translate.errors import InputError
from translate.runs.checkpoint import read_tensors
from translate.runs.directory import RunDirectory
from translate.training import train

FOREVER = "training.max_steps=100000"


def wait_until(condition: Callable[[], object], trainings: Any) -> None:
    deadline = time.monotonic() + 100.0
    while not condition():
        assert time.monotonic() < deadline, trainings.log.read_text(encoding="utf-8")
        time.sleep(0.002)


def metrics_bytes(run: Path) -> int:
    metrics = RunDirectory(run).metrics
    return metrics.stat().st_size if metrics.exists() else 0


def test_a_signal_saves_and_says_how_to_go_on(trainings: Any, tmp_path: Path) -> None:
    settings = ("training.max_steps=60", "training.save_every=1000", "training.validate_every=1000")
    run = tmp_path / "a run"
    trainings.run(tmp_path / "straight", *settings)
    arguments, num_bytes = trainings.arguments(run, *settings), 0
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
        process = trainings.start(arguments)
        wait_until(lambda logged=num_bytes: metrics_bytes(run) > logged, trainings)
        os.kill(process, number)
        assert trainings.wait() == code
        told = trainings.log.read_text(encoding="utf-8").splitlines()[-1]
        match = re.fullmatch(
            rf"translate: stopped by {number.name} after step (\d+), and saved\. Continue with: translate (.+)", told
        )
        assert match, told
        arguments, num_bytes = shlex.split(match[2]), metrics_bytes(run)
        assert arguments == ["train", str(run), "--resume"]
    trainings.start(arguments)
    assert trainings.wait() == 0
    assert f"Continuing from step {match[1]}\n" in trainings.log.read_text(encoding="utf-8")
    assert state_of(run) == state_of(tmp_path / "straight")


def test_a_second_interrupt_leaves_at_once_out_of_a_write(trainings: Any, tmp_path: Path) -> None:
    run, slow = tmp_path / "run", tmp_path / "slow"
    # A disk that takes ten minutes from when `slow` is gone, in a call that lets no other Python code run meanwhile.
    slow_disk = (
        "import ctypes, os; fsync = os.fsync\n"
        f"os.fsync = lambda file, slow={str(slow)!r}: "
        "os.remove(slow) or ctypes.PyDLL(None).sleep(600) if os.path.exists(slow) else fsync(file)"
    )
    settings = (FOREVER, "training.save_every=100000", "training.validate_every=100000")
    process = trainings.start(trainings.arguments(run, *settings), first=slow_disk)
    wait_until(lambda: metrics_bytes(run), trainings)
    slow.touch()
    os.kill(process, signal.SIGINT)
    wait_until(lambda: not slow.exists(), trainings)
    os.kill(process, signal.SIGINT)
    assert trainings.wait() == -signal.SIGINT  # what a shell calls 130
    trainings.run(run, "training.max_steps=4", *settings[1:], resume=True)


def test_an_interrupt_before_the_first_step(trainings: Any, tmp_path: Path) -> None:
    run, ready = tmp_path / "run", tmp_path / "ready"
    first = (
        "import pathlib, sys, time, translate.training.preparation\n"
        f"slow = lambda *arguments, **options: (pathlib.Path({str(ready)!r}).touch(), time.sleep(60))\n"
        "sys.modules['translate.training.preparation'].make_tokenizers = slow"
    )
    process = trainings.start(trainings.arguments(run), first=first)
    wait_until(ready.exists, trainings)
    with pytest.raises(InputError, match=f"process {process} on .* is training in this run directory"):
        train(trainings.config(), run, resume=True, command=["test"])  # although there is no run yet
    os.kill(process, signal.SIGINT)
    assert trainings.wait() == 130
    command = shlex.join(["translate", *trainings.arguments(run, resume=True)])
    told = trainings.log.read_text(encoding="utf-8").splitlines()[-1]
    assert told.startswith("translate: interrupted. ") and told.endswith(command)
    assert not run.exists()


def test_the_lock_dies_with_its_process(trainings: Any, tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = trainings.start(trainings.arguments(run, FOREVER))
    wait_until(RunDirectory(run).checkpoint("last").exists, trainings)
    for resume in (True, False):  # a message about the run would suggest to resume it
        with pytest.raises(InputError, match=f"process {process} on .* is training in this run directory"):
            train(trainings.config(FOREVER), run, resume=resume, command=["test"])
    os.kill(process, signal.SIGKILL)
    assert trainings.wait() == -signal.SIGKILL
    step = read_tensors(RunDirectory(run).checkpoint("last")).metadata["step"]
    train(trainings.config(f"training.max_steps={step}"), run, resume=True, command=["test"])
