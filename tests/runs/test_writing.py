"""Files are written whole or not at all, whatever happens to the disk or the process meanwhile."""

import contextlib
import errno
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch
from safetensors.torch import load_file

from translate import atomic
from translate.atomic import atomic_folder, write_text
from translate.errors import RunError
from translate.runs import (
    RunDirectory,
    read_newest_sound,
    read_tensors,
    write_checkpoint,
    write_tensors,
)
from translate.runs import tensors as tensors_module
from translate.runs.seal import check_seal


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


def test_whoever_may_read_the_config_may_read_the_weights(run: RunDirectory) -> None:
    """safetensors makes files that their owner alone can read; a run is also for colleagues and servers."""
    assert run.checkpoint("best").stat().st_mode == run.config.stat().st_mode == run.description.stat().st_mode


# A full disk


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    """No file may grow beyond 2000 bytes: a real failure of `write`, for root too.

    Only around the write itself: what else the process writes, such as pytest's own files, must not fail too.
    """
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_full_disk_leaves_the_old_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "last.safetensors"
    write_tensors(path, {"a": torch.arange(3)}, {"step": "1"})
    before = path.read_bytes()
    with full_disk(), pytest.raises(RunError) as caught:
        write_tensors(path, {"a": torch.zeros(5000)}, {"step": "2"})
    assert str(caught.value) == (
        f"{path}: cannot be written: File too large; free some space on that disk; earlier checkpoints are intact"
    )
    assert path.read_bytes() == before
    assert read_tensors(path).metadata == {"step": "1"}
    assert names(tmp_path) == {"last.safetensors"}


def test_a_full_disk_leaves_the_old_text(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    write_text(path, "old\n")
    with full_disk(), pytest.raises(RunError, match=rf"^{path}: cannot be written: File too large; free some space"):
        write_text(path, "new\n" * 5000)
    assert path.read_text() == "old\n"
    assert names(tmp_path) == {"report.json"}


@contextlib.contextmanager
def mounted(place: Path, *, num_kib: int) -> Iterator[Path]:
    """A file system of its own, if this process may mount one."""
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={num_kib}k", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("cannot mount a file system here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)  # a checkpoint that was read is still mapped


def fill(run: RunDirectory) -> None:
    """A last and a previous checkpoint, of 8 KiB each."""
    for step in (1, 2):
        write_checkpoint(run, "last", {"a": torch.full((2000,), float(step))}, {"step": str(step)})


def test_a_small_disk_keeps_both_checkpoints(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", num_kib=40) as disk:
        run = RunDirectory(disk)
        run.checkpoints.mkdir()
        fill(run)
        with pytest.raises(RunError, match=r"last.safetensors: cannot be written: No space left on device; free some"):
            write_checkpoint(run, "last", {"a": torch.zeros(20_000)}, {"step": "3"})
        assert names(run.checkpoints) == {"last.safetensors", "previous.safetensors"}
        assert read_tensors(run.checkpoint("last")).metadata == {"step": "2"}
        assert read_tensors(run.previous).metadata == {"step": "1"}
        write_checkpoint(run, "last", {"a": torch.zeros(2000)}, {"step": "3"})  # and there is room for what fits


# A directory that cannot be written to


def test_a_read_only_disk(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", num_kib=64) as disk:
        run = RunDirectory(disk)
        run.checkpoints.mkdir()
        fill(run)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with pytest.raises(RunError) as caught:
            write_checkpoint(run, "last", {"a": torch.zeros(1)}, {"step": "3"})
        assert str(caught.value) == (
            f"{run.checkpoint('last')}: cannot be written: Read-only file system; make that directory writable, or work"
            " on a copy of it; earlier checkpoints are intact"
        )
        newest = read_newest_sound(run)
        assert newest is not None and newest.metadata == {"step": "2"}
        assert names(run.checkpoints) == {"last.safetensors", "previous.safetensors"}


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_a_directory_that_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """As it is for who is not root; the refusal is simulated, for root is refused nothing."""
    run = RunDirectory(tmp_path)
    run.checkpoints.mkdir()
    fill(run)

    def refuse(path: Path, *rest: object) -> NoReturn:
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(RunError) as caught:
        write_checkpoint(run, "last", {"a": torch.zeros(1)}, {"step": "3"})
    monkeypatch.undo()
    assert str(caught.value) == (
        f"{run.checkpoint('last')}: cannot be written: {os.strerror(number)}; make that directory writable, or work on"
        " a copy of it; earlier checkpoints are intact"
    )
    assert read_tensors(run.checkpoint("last")).metadata == {"step": "2"}
    assert read_tensors(run.previous).metadata == {"step": "1"}


def test_a_directory_that_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "gone" / "last.safetensors"
    with pytest.raises(RunError) as caught:
        write_tensors(path, {"a": torch.zeros(3)}, {})
    assert str(caught.value) == (
        f"{path}: cannot be written: No such file or directory; its directory is gone; earlier checkpoints are intact"
    )
    with pytest.raises(RunError, match=rf"^{path}: cannot be written: No such file or directory"):
        write_text(path, "text")
    (tmp_path / "gone").write_text("a file where the directory was")
    with pytest.raises(RunError, match=rf"^{path}: cannot be written: Not a directory; its directory is gone"):
        write_tensors(path, {"a": torch.zeros(3)}, {})


# A process that ends


class Killed(BaseException):
    """As a signal would: no `except Exception` sees it."""


def test_the_name_appears_only_when_the_bytes_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "best.safetensors"
    write_tensors(path, {"a": torch.arange(3)}, {"step": "1"})
    before = path.read_bytes()
    seen: list[bytes] = []

    def replace(temporary: Path, target: Path) -> NoReturn:
        assert target == path
        seen.append(temporary.read_bytes())
        raise Killed

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(Killed):
        write_tensors(path, {"a": torch.zeros(3)}, {"step": "2"})
    monkeypatch.undo()
    assert path.read_bytes() == before
    whole = tmp_path / "whole.safetensors"
    whole.write_bytes(seen[0])
    assert read_tensors(whole).metadata == {"step": "2"}  # sealed already
    assert names(tmp_path) == {"best.safetensors", "whole.safetensors"}


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs Linux's /proc")
def test_bytes_then_name_then_folder_are_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut between any two of these calls leaves the old file or the new one."""
    calls: list[tuple[str, str]] = []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        calls.append(("fsync", path.name))
        if path.is_file():
            assert read_tensors(path).metadata == {"step": "1"}  # all bytes have left the process
        fsync(descriptor)

    def noted_replace(temporary: Path, path: Path) -> None:
        calls.append(("rename", f"{temporary.name} {path.name}"))
        replace(temporary, path)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    write_tensors(tmp_path / "a", {"a": torch.arange(3)}, {"step": "1"})
    temporary = f"a.{os.getpid()}.tmp"
    assert calls == [("fsync", temporary), ("rename", f"{temporary} a"), ("fsync", tmp_path.name)]


KILLED_WHILE_WRITING = """
import os, signal, sys
from pathlib import Path
import torch
from translate.runs import write_tensors

def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)

os.replace = kill
write_tensors(Path(sys.argv[1]), {"a": torch.zeros(3)}, {"step": "2"})
"""


def test_what_a_killed_process_leaves_is_taken_away_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "best.safetensors"
    write_tensors(path, {"a": torch.arange(3)}, {"step": "1"})
    process = subprocess.Popen([sys.executable, "-c", KILLED_WHILE_WRITING, str(path)])
    assert process.wait() == -9
    assert names(tmp_path) == {"best.safetensors", f"best.safetensors.{process.pid}.tmp"}
    (tmp_path / "best.safetensors.tmp").write_text("of version 0.1.0")
    strange = {f"best.safetensors.{os.getppid()}.tmp", "last.safetensors.tmp", "best.safetensors.copy.tmp", "tmp"}
    for name in strange:  # of a process that lives, or of other files
        (tmp_path / name).write_text("")
    assert read_tensors(path).metadata == {"step": "1"}
    write_tensors(path, {"a": torch.zeros(3)}, {"step": "3"})
    assert read_tensors(path).metadata == {"step": "3"}
    assert names(tmp_path) == {"best.safetensors", *strange}


def test_a_temporary_name_that_is_a_link_is_not_written_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim, path = tmp_path / "victim", tmp_path / "run.json"
    victim.write_text("precious")
    (tmp_path / f"run.json.{os.getpid()}.tmp").symlink_to(victim)
    write_text(path, "text")
    assert victim.read_text() == "precious" and path.read_text() == "text" and not path.is_symlink()
    # Also if it appears there at the last moment.
    monkeypatch.setattr(atomic, "remove_leftovers", lambda path: None)
    (tmp_path / f"run.json.{os.getpid()}.tmp").symlink_to(victim)
    with pytest.raises(RunError, match=rf"^{path}: cannot be written: File exists"):
        write_text(path, "new")
    assert victim.read_text() == "precious" and path.read_text() == "text"


def test_a_link_at_the_place_of_a_file_is_replaced_and_not_followed(tmp_path: Path) -> None:
    victim, path = tmp_path / "victim", tmp_path / "run.json"
    victim.write_text("precious")
    path.symlink_to(victim)
    write_text(path, "text")
    assert victim.read_text() == "precious" and path.read_text() == "text" and not path.is_symlink()


def test_a_file_that_is_replaced_while_it_is_read_is_read_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A training replaces its checkpoint under the eyes of who decodes with it."""
    path = tmp_path / "last.safetensors"
    write_tensors(path, {"weight": torch.full((11,), 1.0), "steps": torch.arange(3)}, {"step": "1"})

    def check_and_replace(*arguments: Any) -> bool:
        is_sealed = check_seal(*arguments)
        write_tensors(path, {"weight": torch.full((13,), 2.0)}, {"step": "2"})
        return is_sealed

    monkeypatch.setattr(tensors_module, "check_seal", check_and_replace)
    found, metadata = read_tensors(path)
    assert metadata == {"step": "1"}
    assert torch.equal(found["weight"], torch.full((11,), 1.0)) and torch.equal(found["steps"], torch.arange(3))


# --- folders


def write_one(folder: Path) -> None:
    (folder / "model.bin").write_bytes(b"weights")


def test_an_empty_folder_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with atomic_folder(tmp_path / "out") as temporary:
        write_one(temporary)
    assert (tmp_path / "out" / "model.bin").read_bytes() == b"weights"


def test_the_second_of_two_writers_leaves_the_first_ones_folder(tmp_path: Path) -> None:
    with pytest.raises(FileExistsError), atomic_folder(tmp_path / "out") as slow:
        (slow / "other").touch()
        with atomic_folder(tmp_path / "out") as quick:
            write_one(quick)
    assert sorted(file.name for file in tmp_path.rglob("*")) == ["model.bin", "out"]


def test_a_folder_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    with (
        pytest.raises(RunError, match="out: cannot be written: No space left on device"),
        atomic_folder(tmp_path / "out") as temporary,
    ):
        write_one(temporary)
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []
