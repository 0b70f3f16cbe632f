"""The directory of a training: empty, half made, moved, lost, or in use by another."""

import contextlib
import io
import itertools
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from translate.config import Config
from translate.data.tokenizer import load_tokenizers
from translate.errors import InputError, RunError
from translate.runs import RunDirectory, create_run
from translate.runs.verify import verify_run
from translate.training import StoppedBySignal

Digits = Callable[..., Config]
RunTraining = Callable[..., list[str]]
Happening = Callable[..., contextlib.AbstractContextManager[None]]
StateOf = Callable[[Path], Any]


def test_resume_before_the_first_checkpoint(
    run_training: RunTraining, happening: Happening, stateful: Digits, tmp_path: Path, straight: Path, state_of: StateOf
) -> None:
    config, run = stateful(), tmp_path / "run"
    with happening(in_step=1, what=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        run_training(config, run)
    assert not any(RunDirectory(run).checkpoints.iterdir())
    said = run_training(config, run, resume=True)
    assert f"{run} has no checkpoint yet: its training begins at the first step" in said
    assert state_of(run) == state_of(straight)


class Killed(BaseException):
    """As a process is killed: nothing is cleaned up after it."""


@contextlib.contextmanager
def killed_after(num_operations: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Within the context so many operations on files are done, and no more."""
    left = [num_operations]

    def until_killed(operation: Callable[..., Any]) -> Callable[..., Any]:
        def operate(*args: Any, **kwargs: Any) -> Any:
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            return operation(*args, **kwargs)

        return operate

    with monkeypatch.context() as patch:
        for module, names in ((os, ("mkdir", "open", "replace", "unlink")), (io, ("open",))):
            for name in names:
                patch.setattr(module, name, until_killed(getattr(module, name)))
        yield


def test_killed_anywhere_while_the_run_is_made(
    run_training: RunTraining, digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state_of: StateOf
) -> None:
    """Before its description is there it is no run, and is begun anew; with it, it is whole, and goes on."""
    config = digits("training.max_steps=1", "data.validation=null")
    run_training(config, tmp_path / "straight")
    tokenizers = load_tokenizers(tmp_path / "straight" / "tokenizer")
    was_begun = []
    for num_operations in itertools.count():
        run = tmp_path / f"killed after {num_operations}"
        try:
            with killed_after(num_operations, monkeypatch):
                create_run(run, config=config, tokenizers=tokenizers, command=["test"])
            break
        except Killed:
            pass
        was_begun.append((run / "run.json").exists())
        said = run_training(config, run, resume=True)
        beginning = "has no checkpoint yet: its training begins at the first step"
        assert f"{run} {beginning if was_begun[-1] else 'holds no run to continue: beginning one'}" in said
        assert state_of(run) == state_of(tmp_path / "straight")
        assert not verify_run(run).unsound and not list(run.rglob("*.tmp"))
    assert was_begun == sorted(was_begun) and was_begun.count(False) > 10 and was_begun[-1]


def test_checkpoints_without_a_run_are_not_overwritten(
    run_training: RunTraining, stateful: Digits, finished: Path
) -> None:
    (finished / "run.json").unlink()
    with pytest.raises(InputError) as caught:
        run_training(stateful(), finished, resume=True)
    assert str(caught.value).startswith(f"{finished} is an incomplete run directory: it has config.yaml, tokenizer, ")


def test_a_moved_run_goes_on(
    run_training: RunTraining, happening: Happening, stateful: Digits, tmp_path: Path, straight: Path, state_of: StateOf
) -> None:
    config = stateful()
    with happening(in_step=9, what=signal.SIGINT), pytest.raises(StoppedBySignal):
        run_training(config, tmp_path / "here")
    (tmp_path / "far").mkdir()
    (tmp_path / "here").rename(tmp_path / "far" / "away")
    said = run_training(config, tmp_path / "far" / "away", resume=True)
    assert "going on from step 9" in said
    assert state_of(tmp_path / "far" / "away") == state_of(straight)
    assert not (tmp_path / "here").exists()


def test_a_second_training_in_the_directory_is_refused(
    run_training: RunTraining, happening: Happening, digits: Digits, tmp_path: Path
) -> None:
    def train_there_too() -> None:
        for resume in (True, False):
            with pytest.raises(InputError) as caught:
                run_training(digits(), tmp_path / "run", resume=resume)
            messages.append(str(caught.value))

    messages: list[str] = []
    with happening(in_step=2, what=train_there_too):
        run_training(digits("training.max_steps=3"), tmp_path / "run")
    for message in messages:  # without --resume too: to be told of the run alone would be to be told to use it
        assert f"process {os.getpid()}" in message and "is training in this run directory" in message
    run_training(digits("training.max_steps=4"), tmp_path / "run", resume=True)  # the lock is free again


def test_a_run_directory_that_vanishes(
    run_training: RunTraining, happening: Happening, digits: Digits, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    with happening(in_step=2, what=lambda: shutil.rmtree(run)), pytest.raises(RunError) as caught:
        run_training(digits(), run)
    message = str(caught.value)
    assert str(RunDirectory(run).checkpoint("last")) in message and "its directory is gone" in message
    assert not run.exists()
