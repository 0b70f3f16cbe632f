"""Files appear whole or not at all, whatever happens to the disk or the process meanwhile."""

import errno
import os
import resource
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest

from translate import atomic
from translate.atomic import atomic_folder, atomic_write, is_temporary, write_text
from translate.errors import RunError


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def test_an_error_in_the_block_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_text(path, "old")
    with pytest.raises(KeyError), atomic_write(path) as file:
        file.write(b"new")
        raise KeyError
    assert path.read_text() == "old" and names(tmp_path) == {"file"}
    with atomic_write(path, fsync=False) as file:
        file.write(b"n\xc3\xa4u")
    assert path.read_text(encoding="utf-8") == "näu" and names(tmp_path) == {"file"}


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    write_text(path, "old\n")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))  # a real failure of `write`, for root too
    try:
        with pytest.raises(RunError, match=rf"^{path}: cannot be written: File too large; free some space"):
            write_text(path, "new\n" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_text() == "old\n" and names(tmp_path) == {"report.json"}


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_a_directory_that_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """The refusal is simulated, because root is refused nothing."""

    def refuse(path: Path, *rest: object) -> NoReturn:
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(RunError, match=f"cannot be written: {os.strerror(number)}; make that directory writable"):
        write_text(tmp_path / "file", "text")


def test_a_directory_that_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "gone" / "file"
    with pytest.raises(RunError, match=rf"^{path}: cannot be written: No such file.*; its directory is gone"):
        write_text(path, "text")
    (tmp_path / "gone").write_text("a file where the directory was")
    with pytest.raises(RunError, match=rf"^{path}: cannot be written: Not a directory; its directory is gone"):
        write_text(path, "text")


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs Linux's /proc")
def test_bytes_then_name_then_folder_are_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut between any two of these calls leaves the old file or the new one."""
    calls: list[tuple[str, str]] = []
    fsync, replace = os.fsync, os.replace

    def note_fsync(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        calls.append(("fsync", path.name))
        assert not path.is_file() or path.read_text() == "text", "not all bytes have left the process"
        fsync(descriptor)

    def note_replace(temporary: Path, path: Path) -> None:
        calls.append(("rename", f"{temporary.name} {path.name}"))
        replace(temporary, path)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "replace", note_replace)
    write_text(tmp_path / "a", "text")
    temporary = f"a.{os.getpid()}.tmp"
    assert calls == [("fsync", temporary), ("rename", f"{temporary} a"), ("fsync", tmp_path.name)]


def test_the_next_writer_removes_what_a_killed_process_left(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    ended = subprocess.Popen(["true"])
    ended.wait()
    (tmp_path / f"run.json.{ended.pid}.tmp").write_text("half a file")
    (tmp_path / f"run.json.{os.getpid()}.tmp").write_text("of a process that had this one's number")
    others = {f"run.json.{os.getppid()}.tmp", f"config.yaml.{ended.pid}.tmp", "run.json.copy.tmp", "tmp"}
    for name in others:  # of a process that lives, or of other files
        (tmp_path / name).write_text("")
    write_text(path, "new")
    assert path.read_text() == "new" and names(tmp_path) == {"run.json", *others}


def test_nothing_is_written_through_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim, path = tmp_path / "victim", tmp_path / "run.json"
    victim.write_text("precious")
    path.symlink_to(victim)
    (tmp_path / f"run.json.{os.getpid()}.tmp").symlink_to(victim)
    write_text(path, "text")
    assert victim.read_text() == "precious" and path.read_text() == "text" and not path.is_symlink()
    # Also if the temporary name is taken at the last moment.
    monkeypatch.setattr(atomic, "remove_leftovers", lambda path: None)
    (tmp_path / f"run.json.{os.getpid()}.tmp").symlink_to(victim)
    with pytest.raises(RunError, match=rf"^{path}: cannot be written: File exists"):
        write_text(path, "new")
    assert victim.read_text() == "precious" and path.read_text() == "text"


def test_temporary_names() -> None:
    assert is_temporary(Path("x/run.json.5.tmp")) and is_temporary(Path(".tmpAb12Cd"))
    assert not is_temporary(Path("x.tmp/run.json")) and not is_temporary(Path("tmp"))


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
