"""Files appear whole or not at all, whatever happens to the disk or the process meanwhile."""

import os
import re
from pathlib import Path
from uuid import UUID

import pytest
from harness import files_up_to, renaming_as_windows_does

from translate import atomic
from translate.atomic import (
    atomic_folder,
    atomic_write,
    check_new_folder,
    open_append,
    open_output,
    remove_leftovers,
    remove_own_temporaries,
    temporary_beside,
    write_text,
)
from translate.errors import InputError, RunError
from translate.files import protect_inputs, remember_folder
from translate.model.device import OutOfMemory
from translate.runs.lock import hold_lock


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def test_a_file_is_closed_before_it_is_renamed(tmp_path: Path) -> None:
    with renaming_as_windows_does():
        for text in ("old", "new"):
            write_text(tmp_path / "file", text)
        with atomic_folder(tmp_path / "folder") as folder, open_output(folder / "file") as file:
            file.write(b"text")
        with pytest.raises(PermissionError), (tmp_path / "file").open() as opened:
            os.replace(opened.name, tmp_path / "renamed")
    assert (tmp_path / "file").read_text() == "new" and names(tmp_path) == {"file", "folder"}


def test_an_error_in_the_block_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_text(path, "old")
    with pytest.raises(KeyError), atomic_write(path) as file:
        file.write(b"new")
        raise KeyError
    assert path.read_text() == "old" and names(tmp_path) == {"file"}
    with atomic_write(path) as file:
        file.write(b"n\xc3\xa4u")
    assert path.read_text(encoding="utf-8") == "näu" and names(tmp_path) == {"file"}


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    write_text(path, "old\n")
    with files_up_to(2000), pytest.raises(RunError, match=f"^{path}: .*File too large"):
        write_text(path, "new\n" * 5000)
    assert path.read_text() == "old\n" and names(tmp_path) == {"report.json"}


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
    temporary = calls[0][1]
    assert calls == [("fsync", temporary), ("rename", f"{temporary} a"), ("fsync", tmp_path.name)]


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    left, users = f".translate-{'0' * 32}.tmp", {"run.json.tmp", "tmp"}
    (tmp_path / "checkpoints").mkdir()
    for name in (left, f"checkpoints/{left}", "checkpoints/.tmpAb12Cd", *users):
        (tmp_path / name).write_text("")
    remove_leftovers(tmp_path)
    assert names(tmp_path) == {"checkpoints", *users} and names(tmp_path / "checkpoints") == set()


def test_a_process_that_ends_removes_its_temporary_files(tmp_path: Path) -> None:
    with temporary_beside(tmp_path / "a") as file, temporary_beside(tmp_path / "b") as folder:
        file.touch()
        folder.mkdir()
        remove_own_temporaries()
        assert names(tmp_path) == set()


def test_nothing_is_written_through_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim, path = tmp_path / "victim", tmp_path / "run.json"
    victim.write_text("precious")
    path.symlink_to(victim)
    write_text(path, "text")
    assert victim.read_text() == "precious" and path.read_text() == "text" and not path.is_symlink()
    # Also if the temporary name is taken at the last moment.
    monkeypatch.setattr(atomic.uuid, "uuid4", lambda: UUID(int=0))
    (tmp_path / f".translate-{'0' * 32}.tmp").symlink_to(victim)
    with pytest.raises(RunError, match=f"^{path}: .*File exists"):
        write_text(path, "new")
    assert victim.read_text() == "precious" and path.read_text() == "text"


def test_a_replaced_file_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_text(path, "old")
    path.chmod(0o640)
    before = path.stat()
    write_text(path, "new")
    after = path.stat()
    assert after.st_mode == before.st_mode and before.st_ino != after.st_ino and path.read_text() == "new"


def test_an_output_follows_a_link(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder/real")
    for text in (b"new", b"replaced"):
        with open_output(tmp_path / "link") as file:
            file.write(text)
    assert (tmp_path / "link").is_symlink() and (tmp_path / "folder" / "real").read_bytes() == b"replaced"
    assert names(tmp_path / "folder") == {"real"}


def test_an_output_is_written_to_a_pipe_as_it_is(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with open_output(tmp_path / "pipe") as file:
        file.write(b"text")
    assert os.read(reader, 10) == b"text" and (tmp_path / "pipe").is_fifo() and names(tmp_path) == {"pipe"}
    os.close(reader)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs Linux's /proc")
def test_an_output_by_a_descriptor_is_appended_to_and_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("before\n")
    with path.open("ab") as log:
        (tmp_path / "link").symlink_to(f"/dev/fd/{log.fileno()}")
        for name in (Path(f"/dev/fd/{log.fileno()}"), Path(f"/proc/self/fd/{log.fileno()}"), tmp_path / "link"):
            with open_output(name) as file:
                file.write(b"after\n")
    assert path.read_text() == "before\n" + "after\n" * 3


@pytest.mark.parametrize("name", ["file", "link"])
def test_a_new_file_replaces_nothing_that_comes_meanwhile(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with pytest.raises(RunError, match=f"{path}: .*File exists"), atomic_write(path, is_new=True) as file:
        file.write(b"new")
        (tmp_path / "file").write_text("other")
        (tmp_path / "link").symlink_to("nowhere")
    assert (tmp_path / "file").read_text() == "other" and names(tmp_path) == {"file", "link"}
    write_text(tmp_path / "free", "new", is_new=True)
    assert (tmp_path / "free").read_text() == "new"


# --- folders


def test_nothing_is_written_into_a_folder_that_has_replaced_the_one_that_was_read(tmp_path: Path) -> None:
    run, moved = tmp_path / "run", tmp_path / "moved"
    run.mkdir()
    with protect_inputs():
        remember_folder(run)
        write_text(run / "a", "same")
        run.rename(moved)
        for _ in range(2):  # first there is none of that name
            with pytest.raises(RunError, match=f"^{run}: .*moved"):
                write_text(run / "a", "other")
            with pytest.raises(RunError, match=f"^{run}: .*moved"), atomic_folder(run / "export" / "a"):
                pass
            assert not run.exists() or names(run) == set()
            run.mkdir(exist_ok=True)
        remember_folder(run)  # it is read in its turn
        write_text(run / "a", "new")
        run.rename(tmp_path / "other")
    run.mkdir()
    write_text(run / "a", "of a later command")
    assert (moved / "a").read_text() == "same"


def test_a_program_that_runs_on_may_make_a_run_again(tmp_path: Path) -> None:
    for number, name in enumerate(("run", "run/within")):  # the second takes the place of the first
        with hold_lock(tmp_path / name / "train.lock", busy="is training"):
            write_text(tmp_path / name / "a", "text")
        (tmp_path / "run").rename(tmp_path / f"moved-{number}")  # a removed one might leave its inode to the next
    with hold_lock(tmp_path / "run" / "within" / "train.lock", busy="is training"):
        write_text(tmp_path / "run" / "within" / "a", "text")


def test_folders_are_remembered_by_their_full_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with protect_inputs():
        for place in ("first", "second"):
            folder = tmp_path / place / "run"
            folder.mkdir(parents=True)
            monkeypatch.chdir(folder.parent)
            write_text(Path("run/a"), place)
            remember_folder(Path("run"))
            assert (folder / "a").read_text() == place


@pytest.mark.parametrize("name", ["file/run", "file/new/run"])
def test_a_folder_that_cannot_be_made_is_refused_at_once(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=f"{name} .*file is not a folder"):
        check_new_folder(tmp_path / name, purpose="run")


@pytest.mark.parametrize("name", ["out", "link", "dangling"])
def test_an_empty_folder_is_replaced(tmp_path: Path, name: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "link").symlink_to("out")
    (tmp_path / "dangling").symlink_to("new/out")
    check_new_folder(tmp_path / name, purpose="run")
    with atomic_folder(tmp_path / name) as temporary:
        (temporary / "onnx").mkdir()
        for file in (temporary / "model.bin", temporary / "onnx" / "model.bin"):
            file.write_bytes(b"weights")
            file.chmod(0o600)  # as some libraries make theirs
    assert (tmp_path / name).is_symlink() == (name != "out")
    files = tmp_path / name / "model.bin", tmp_path / name / "onnx" / "model.bin"
    (tmp_path / "usual").touch()
    usual = (tmp_path / "usual").stat().st_mode
    assert [(file.read_bytes(), file.stat().st_mode) for file in files] == [(b"weights", usual)] * 2


def test_the_second_of_two_writers_leaves_the_first_ones_folder(tmp_path: Path) -> None:
    with pytest.raises(FileExistsError), atomic_folder(tmp_path / "out") as slow:
        (slow / "other").touch()
        with atomic_folder(tmp_path / "out") as quick:
            (quick / "model.bin").touch()
    assert sorted(file.name for file in tmp_path.rglob("*")) == ["model.bin", "out"]


def test_a_folder_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    with pytest.raises(RunError, match="new/out: .*No space left"), atomic_folder(out) as temporary:
        (temporary / "model.bin").touch()
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []
    with atomic_folder(out):
        pass
    assert names(out.parent) == {"out"}


def test_an_error_about_a_temporary_folder_keeps_its_class_and_names_the_folder(tmp_path: Path) -> None:
    message = f"^{re.escape(str(tmp_path / 'new'))}/x is too large$"
    with pytest.raises(OutOfMemory, match=message), atomic_folder(tmp_path / "new") as folder:
        raise OutOfMemory(f"{folder}/x is too large")


def test_a_copy_by_hard_links_does_not_grow(tmp_path: Path) -> None:
    log, copy = tmp_path / "log.txt", tmp_path / "copy.txt"
    log.write_text("old\n")
    copy.hardlink_to(log)
    with open_append(log) as file:
        file.write(b"new\n")
    assert (log.read_text(), copy.read_text()) == ("old\nnew\n", "old\n")


def test_a_write_protected_output_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusal is simulated, because root is refused nothing."""
    output = tmp_path / "out"
    output.write_text("old")
    monkeypatch.setattr(os, "access", lambda path, mode: (path, mode) != (output, os.W_OK))
    with pytest.raises(RunError, match=f"{output}: .*write-protected"), open_output(output) as file:
        file.write(b"new")
    assert output.read_text() == "old"
