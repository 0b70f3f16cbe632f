"""Checkpoints: every change in a file is seen, and there is always an intact one, whatever is damaged or killed."""

import itertools
import os
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest
import torch
from harness import files_up_to, flip_a_bit
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from translate.errors import RunError
from translate.files import FileError
from translate.runs import checkpoint as checkpoint_module
from translate.runs.checkpoint import read_newest_intact, read_tensors, write_checkpoint, write_tensors
from translate.runs.checksums import DamageError
from translate.runs.directory import RunDirectory
from translate.runs.progress import Progress


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    """safetensors shuffles the metadata; two runs of one training could not be compared by their files."""
    tensors = {
        "weight": torch.randn(3, 5).t(),  # not contiguous
        "half": torch.randn(7).bfloat16(),
        "is": torch.tensor([True, False, True]),
        "none": torch.zeros(0, 2),
        "one": torch.tensor(5, dtype=torch.int64),
    }
    metadata = {"step": "1", "größe": 'a "quoted"\n text', "a": "b"}
    write_tensors(tmp_path / "a", tensors, metadata)
    write_tensors(tmp_path / "b", dict(reversed(tensors.items())), dict(reversed(metadata.items())))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    loaded = read_tensors(tmp_path / "a")
    assert loaded.metadata == metadata
    others = load_file(tmp_path / "a")  # the library's own reader agrees
    assert loaded.tensors.keys() == others.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert torch.equal(loaded.tensors[name], tensor) and torch.equal(others[name], tensor)
        assert loaded.tensors[name].dtype == tensor.dtype


def test_every_flipped_bit_and_every_cut_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "last.safetensors"
    tensors = {"b": torch.arange(3.0), "a": torch.arange(3.0) + 5, "c": torch.tensor([True]), "d": torch.zeros(0, 2)}
    write_tensors(path, tensors, {"step": "10", "progress": '{"a": "\\u00e4", "b": 1e-05}'})
    content = path.read_bytes()
    for place in range(len(content)):
        for bit in (place % 8, 5):  # bit 5 makes `f` an `F` and `0` a space
            path.write_bytes(content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :])
            with pytest.raises(RunError, match=r"^\S+last.safetensors: damaged: "):
                read_tensors(path)
    for changed in (*(content[:length] for length in range(0, len(content), 7)), content[:-1], content + b"\0"):
        path.write_bytes(changed)
        with pytest.raises(RunError, match=r"^\S+last.safetensors: damaged: "):
            read_tensors(path)


def test_tensors_under_each_others_names_are_seen(tmp_path: Path) -> None:
    path = tmp_path / "last.safetensors"
    tensors = {"a": torch.arange(3.0), "b": torch.arange(3.0) + 5}
    write_tensors(path, tensors, {"step": "1"})
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    save_file({"a": tensors["b"], "b": tensors["a"]}, path, metadata)
    with pytest.raises(RunError, match="damaged: its checksum"):
        read_tensors(path)


def test_only_the_tensors_that_are_asked_for_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "best.safetensors"
    write_tensors(path, {"model.a": torch.zeros(2), "average.a": torch.ones(2), "optimizer.a": torch.ones(1)}, {})
    assert read_tensors(path, prefixes=("average.", "model.")).tensors.keys() == {"a"}
    assert torch.equal(read_tensors(path, prefixes=("average.", "model.")).tensors["a"], torch.ones(2))
    assert torch.equal(read_tensors(path, prefixes=("mean.", "model.")).tensors["a"], torch.zeros(2))
    assert read_tensors(path, prefixes=()).tensors == {}
    path.write_bytes(path.read_bytes()[:-1] + b"\1")
    with pytest.raises(RunError, match="damaged"):
        read_tensors(path, prefixes=())


def test_whoever_may_read_the_config_may_read_the_weights(run: RunDirectory) -> None:
    """safetensors makes files that their owner alone can read; a run is also for colleagues and servers."""
    assert run.checkpoint("best").stat().st_mode == run.config.stat().st_mode == run.description.stat().st_mode


@pytest.mark.parametrize(
    "metadata", [{}, {"step": "7"}, *({"translate": text} for text in ("{", "[]", "{}", '{"sha256": "", "step": 7}'))]
)
def test_what_is_not_a_checkpoint(tmp_path: Path, metadata: dict[str, str]) -> None:
    path = tmp_path / "best.safetensors"
    with pytest.raises(RunError, match="damaged: no such file"):
        read_tensors(path)
    torch.save({"a": torch.zeros(1)}, path)  # a pickle is not loaded
    with pytest.raises(RunError, match="damaged"):
        read_tensors(path)
    save_file({"a": torch.zeros(1)}, path, metadata)
    with pytest.raises(RunError, match="damaged: its metadata"):
        read_tensors(path)


def test_a_full_disk_leaves_the_old_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "last.safetensors"
    write_tensors(path, {"a": torch.arange(3)}, {"step": "1"})
    before = path.read_bytes()
    with (
        files_up_to(2000),
        pytest.raises(RunError, match=rf"^{path}: .*File too large.*earlier checkpoints are intact"),
    ):
        write_tensors(path, {"a": torch.zeros(5000)}, {"step": "2"})
    assert path.read_bytes() == before and names(tmp_path) == {"last.safetensors"}


def test_a_reader_beside_a_training_never_meets_a_torn_file(tmp_path: Path) -> None:
    path, last, has_read = tmp_path / "last.safetensors", 120, threading.Event()

    def read() -> None:
        step = 0
        while step < last:
            tensors, metadata, _ = read_tensors(path)
            step = int(metadata["step"])
            assert torch.equal(tensors["a"], torch.full((1000 + step % 7,), float(step)))
            has_read.set()

    with ThreadPoolExecutor() as pool:
        write_tensors(path, {"a": torch.zeros(1000)}, {"step": "0"})
        reading = pool.submit(read)
        assert has_read.wait(100)
        for step in range(1, last + 1):
            write_tensors(path, {"a": torch.full((1000 + step % 7,), float(step))}, {"step": str(step)})
        reading.result()


@pytest.fixture
def checkpoints(tmp_path: Path) -> RunDirectory:
    run = RunDirectory(tmp_path)
    run.checkpoints.mkdir()
    return run


def write(run: RunDirectory, *steps: int) -> None:
    for step in steps:
        metadata = {"step": str(step), "progress": Progress("data", step=step).to_json()}
        write_checkpoint(run, "last", {"a": torch.full((50,), float(step))}, metadata)


def steps(run: RunDirectory) -> dict[str, str]:
    return {path.stem: read_tensors(path).metadata["step"] for path in run.checkpoints.glob("*.safetensors")}


def newest(run: RunDirectory) -> tuple[Path, str, list[str]]:
    found = read_newest_intact(run)
    assert found is not None
    return found.path, str(found.progress.step), found.damaged


def test_the_one_before_is_kept(checkpoints: RunDirectory) -> None:
    run = checkpoints
    assert read_newest_intact(run) is None
    write(run, 1)
    assert steps(run) == {"last": "1"}
    write(run, 2, 3)
    assert steps(run) == {"last": "3", "previous": "2"}
    write(run, 3)  # a validation that was stopped is saved with the same step when it is made up for
    assert steps(run) == {"last": "3", "previous": "2"}
    for step in ("2", "3"):
        write_checkpoint(run, "best", {}, {"step": step})
    assert steps(run) == {"best": "3", "last": "3", "previous": "2"}
    assert newest(run) == (run.checkpoint("last"), "3", [])
    run.checkpoint("last").unlink()
    assert newest(run) == (run.previous, "2", [])


def test_a_damaged_one_is_named_and_never_takes_the_place_of_an_intact_one(checkpoints: RunDirectory) -> None:
    """It gets another name, so that the next save neither loses it nor makes it the previous one."""
    run = checkpoints
    write(run, 1, 2)
    flip_a_bit(run.checkpoint("last"))
    path, step, (fact,) = newest(run)
    assert (path, step) == (run.previous, "1") and fact.startswith(f"{run.checkpoint('last')}: damaged: ")
    kept = run.checkpoints / "last.safetensors.damaged"
    assert kept.name in fact and steps(run) == {"previous": "1"}
    assert newest(run) == (run.previous, "1", []), "as of a process that dies before the next save"
    write(run, 3)
    assert steps(run) == {"last": "3", "previous": "1"}
    with pytest.raises(RunError, match="damaged: "):
        read_tensors(kept)
    flip_a_bit(run.checkpoint("last"))
    run.previous.write_bytes(b"")
    with pytest.raises(RunError) as caught:
        read_newest_intact(run)
    assert all(f"{path}: damaged: " in str(caught.value) for path in (run.checkpoint("last"), run.previous))


OF_A_NEWER_VERSION = Progress("data", step=2).to_json().replace("{", '{"pairs_seen": 7, ', 1)
MISTYPED = Progress("data", step=2).to_json().replace('"best_step": null', '"best_step": "two"')


@pytest.mark.parametrize(
    ("metadata", "fact"),
    [
        *(({"step": step}, "its step") for step in ("", "one", "٧", "-1", "9" * 5000)),
        ({}, "its step"),
        ({"step": "2", "progress": MISTYPED}, "best_step = 'two'"),
        ({"step": "3", "progress": Progress("data", step=2).to_json()}, "step = 2, but the checkpoint is of step 3"),
        ({"step": "2", "progress": OF_A_NEWER_VERSION}, "pairs_seen = 7"),
    ],
)
def test_an_intact_one_that_cannot_be_resumed_from_stays_the_newest(
    checkpoints: RunDirectory, metadata: dict[str, str], fact: str
) -> None:
    write(checkpoints, 1, 2)
    last = checkpoints.checkpoint("last")
    write_tensors(last, {}, metadata)
    before = last.read_bytes()
    with pytest.raises(RunError, match=rf"^{last}: .*{re.escape(fact)}"):
        read_newest_intact(checkpoints)
    assert last.read_bytes() == before


@pytest.mark.parametrize(
    "error",
    [
        OSError("Stale file handle (os error 116)"),
        SafetensorError("Could not read tensor a from file: Input/output error (os error 5)"),
        FileError(Path("last"), "cannot be read (Permission denied)"),
    ],
)
def test_one_that_cannot_be_read_at_the_moment_is_not_damaged(
    checkpoints: RunDirectory, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(*arguments: object, **options: object) -> NoReturn:
        raise error

    write(checkpoints, 1, 2)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_module, "safe_open", refuse)
        with pytest.raises(RunError, match=rf"^{checkpoints.checkpoint('last')}: cannot be read") as caught:
            read_newest_intact(checkpoints)
    assert not isinstance(caught.value, DamageError)
    assert newest(checkpoints) == (checkpoints.checkpoint("last"), "2", [])


def refuse_links(source: Path, target: Path) -> NoReturn:
    raise PermissionError(1, "Operation not permitted")  # as FAT and some network file systems do


@pytest.mark.parametrize("can_link", [True, False])
def test_at_every_moment_there_is_an_intact_one(
    checkpoints: RunDirectory, monkeypatch: pytest.MonkeyPatch, can_link: bool
) -> None:
    """Killed before or after any call that changes the directory, a run has the newest checkpoint or the one before."""

    class Killed(BaseException):
        pass

    run = checkpoints
    if not can_link:
        monkeypatch.setattr(checkpoint_module.os, "link", refuse_links)
    originals = {"link": os.link, "replace": os.replace}
    write(run, 1, 2)
    for step in itertools.count(3):
        moments = iter(range(step - 3))  # each call has one before it, and one after it

        def killed_in_time(name: str, *arguments: Path, moments: Iterator[int] = moments) -> None:
            if next(moments, None) is None:
                raise Killed
            originals[name](*arguments)
            if next(moments, None) is None:
                raise Killed

        before, is_over = newest(run), True
        with monkeypatch.context() as patch:
            for name in originals:
                patch.setattr(os, name, partial(killed_in_time, name))
            try:
                write(run, step)
            except Killed:
                is_over = False
        after = newest(run)
        assert after[2] == []
        assert after[1] in ({str(step)} if is_over else {before[1], str(step)})
        if is_over:
            break
    assert step >= 5  # it was killed at two moments at least
    assert steps(run).keys() == {"last", "previous"}
