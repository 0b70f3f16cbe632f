"""Checkpoints of a training: always a sound one, whatever is damaged or killed."""

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest
import torch

from translate.errors import RunError
from translate.runs import RunDirectory, read_newest_sound, read_tensors, write_checkpoint
from translate.runs import checkpoints as checkpoints_module


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    run = RunDirectory(tmp_path)
    run.checkpoints.mkdir()
    return run


def write(run: RunDirectory, step: int) -> None:
    write_checkpoint(run, "last", {"a": torch.full((50,), float(step))}, {"step": str(step)})


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def steps(run: RunDirectory) -> dict[str, str]:
    return {path.stem: read_tensors(path).metadata["step"] for path in run.checkpoints.iterdir()}


def test_the_one_before_is_kept(run: RunDirectory) -> None:
    assert read_newest_sound(run) is None
    write(run, 1)
    assert steps(run) == {"last": "1"}
    write(run, 2)
    assert steps(run) == {"last": "2", "previous": "1"}
    write(run, 3)
    assert steps(run) == {"last": "3", "previous": "2"}
    write_checkpoint(run, "best", {}, {"step": "2"})
    write_checkpoint(run, "best", {}, {"step": "3"})
    assert steps(run) == {"best": "3", "last": "3", "previous": "2"}
    newest = read_newest_sound(run)
    assert newest is not None
    assert (newest.path, newest.metadata, newest.damaged) == (run.checkpoint("last"), {"step": "3"}, ())
    assert torch.equal(newest.tensors["a"], torch.full((50,), 3.0))


def test_a_damaged_one_is_passed_over_and_said(run: RunDirectory) -> None:
    write(run, 1)
    write(run, 2)
    damage(run.checkpoint("last"))
    newest = read_newest_sound(run)
    assert newest is not None
    assert (newest.path, newest.metadata) == (run.previous, {"step": "1"})
    (sentence,) = newest.damaged
    assert re.fullmatch(
        rf"{run.checkpoint('last')}: damaged: its checksum should be \w{{12}}…, but is \w{{12}}…", sentence
    )


@pytest.mark.parametrize("metadata", [{}, {"step": "one"}])
def test_one_that_says_no_step_is_passed_over(run: RunDirectory, metadata: dict[str, str]) -> None:
    write(run, 1)
    write_checkpoint(run, "last", {}, metadata)
    newest = read_newest_sound(run)
    assert newest is not None and newest.path == run.previous
    assert newest.damaged == (f"{run.checkpoint('last')}: does not say its step; it is no checkpoint of this toolkit",)


def test_only_the_previous_one_is_left(run: RunDirectory) -> None:
    write(run, 1)
    write(run, 2)
    run.checkpoint("last").unlink()
    newest = read_newest_sound(run)
    assert newest is not None and (newest.metadata, newest.damaged) == ({"step": "1"}, ())


def test_all_are_damaged(run: RunDirectory) -> None:
    write(run, 1)
    write(run, 2)
    damage(run.checkpoint("last"))
    run.previous.write_bytes(b"")
    with pytest.raises(RunError) as caught:
        read_newest_sound(run)
    assert re.fullmatch(
        rf"{run.path} has no sound checkpoint to go on from: {run.checkpoint('last')}: damaged: its checksum should be"
        rf" \w{{12}}…, but is \w{{12}}…; {run.previous}: damaged: its header should have 0 bytes, but the file has 0."
        " Copy the run anew from where it came, or train it again",
        str(caught.value),
    )


def test_a_damaged_one_never_takes_the_place_of_a_sound_one(run: RunDirectory) -> None:
    """Killed between the two renames, nothing sound would be left."""
    write(run, 1)
    write(run, 2)
    damage(run.checkpoint("last"))
    write(run, 3)
    assert steps(run) == {"last": "3", "previous": "1"}


def refuse_links(source: Path, target: Path) -> NoReturn:
    raise PermissionError(1, "Operation not permitted")  # as FAT and some network file systems do


@pytest.mark.parametrize("can_link", [True, False])
def test_at_every_moment_there_is_a_sound_one(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, can_link: bool
) -> None:
    """Killed before or after each call that changes the directory, the run goes on from the newest or that before."""

    class Killed(BaseException):
        pass

    if not can_link:
        monkeypatch.setattr(checkpoints_module.os, "link", refuse_links)
    originals = {"link": os.link, "replace": os.replace}
    write(run, 1)
    write(run, 2)
    for step in itertools.count(3):
        calls = 0

        def counted(name: str, *arguments: Path, deadly: int = step - 3) -> None:
            nonlocal calls
            calls += 1
            if calls > deadly // 2:
                if deadly % 2:
                    originals[name](*arguments)
                raise Killed
            originals[name](*arguments)

        with monkeypatch.context() as patch:
            for name in originals:
                patch.setattr(os, name, lambda *arguments, name=name: counted(name, *arguments))
            before = read_newest_sound(run)
            assert before is not None
            try:
                write(run, step)
            except Killed:
                is_over = False
            else:
                is_over = True
        after = read_newest_sound(run)
        assert after is not None and after.damaged == ()
        assert after.metadata["step"] in ({str(step)} if is_over else {before.metadata["step"], str(step)})
        if is_over:
            break
    assert step >= 5  # it was killed at two moments at least
    assert steps(run).keys() == {"last", "previous"}


def test_without_links_the_last_one_is_renamed(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints_module.os, "link", refuse_links)
    write(run, 1)
    write(run, 2)
    write(run, 3)
    assert steps(run) == {"last": "3", "previous": "2"}


KILLED_WHILE_LINKING = """
import os, signal, sys
from pathlib import Path
import torch
from translate.runs import RunDirectory, write_checkpoint

link = os.link

def link_and_die(source, target):
    link(source, target)
    os.kill(os.getpid(), signal.SIGKILL)

os.link = link_and_die
write_checkpoint(RunDirectory(Path(sys.argv[1])), "last", {"a": torch.zeros(3)}, {"step": "2"})
"""


def test_what_a_killed_process_leaves_is_taken_away_by_the_next(run: RunDirectory) -> None:
    write(run, 1)
    process = subprocess.Popen([sys.executable, "-c", KILLED_WHILE_LINKING, str(run.path)])
    assert process.wait() == -9
    leftovers = {f"{name}.safetensors.{process.pid}.tmp" for name in ("last", "previous")}
    assert {path.name for path in run.checkpoints.iterdir()} == {"last.safetensors", *leftovers}
    write(run, 3)
    assert steps(run) == {"last": "3", "previous": "1"}
