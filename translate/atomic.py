"""Files that appear whole or not at all: written under a temporary name, flushed to the disk, then renamed.

A process that is killed while writing leaves its temporary file. In the folder of a run or of finished parts, the next
process that holds the folder's lock removes it; elsewhere it stays.
"""

import contextlib
import errno
import os
import shutil
import stat
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from translate.errors import InputError, RunError
from translate.files import check_output, check_same_folders

_temporary_paths: set[Path] = set()  # of this process


@contextlib.contextmanager
def atomic_path(path: Path, *, is_new: bool = False) -> Iterator[Path]:
    """Give the block an unused path for a file, which replaces `path` when the block ends without an error.

    The block must have closed the file: Windows does not rename an open one. For libraries that write to a path by
    name; see `atomic_write`.

    Args:
        is_new: Never replace anything, even what appears while the block runs.

    Raises:
        RunError: The disk is full, the directory is missing or read-only, or the path of a new file is taken.
    """
    with explain_write_errors(path), temporary_beside(path) as temporary:
        yield temporary
        if path.is_file() and not path.is_symlink():
            temporary.chmod(stat.S_IMODE(path.stat().st_mode))
        sync(temporary)  # otherwise a power cut could leave an empty file of that name
        if is_new:
            path.touch(exist_ok=False)
        os.replace(temporary, path)
        sync(path.parent)


@contextlib.contextmanager
def atomic_write(path: Path, *, is_new: bool = False) -> Iterator[BinaryIO]:
    """Open a new file that replaces `path` when the block ends without an error; otherwise the old file stays.

    The new file has the mode of the old one. A link is replaced, and its target stays as it is. See `atomic_path`.
    """
    # Mode x creates the file and fails if the name is taken, so nothing is ever written through a link.
    with atomic_path(path, is_new=is_new) as temporary, temporary.open("x+b") as file:
        yield file


@contextlib.contextmanager
def open_output(path: Path, *, is_new: bool = False) -> Iterator[BinaryIO]:
    """Open a file that a user has named. It appears, or replaces an older file, when the block ends without an error.

    A link stays, and its target is replaced. A device, a pipe, or an open file such as /dev/stdout is written to
    directly.

    Args:
        is_new: As for `atomic_path`.

    Raises:
        InputError: The file is an input of this command.
        RunError: The file cannot be written.
    """
    check_output(path)
    if not _is_written_in_place(path):
        if path.exists() and not os.access(path, os.W_OK):  # renaming would still replace it
            raise write_error(path, PermissionError(errno.EACCES, "it is write-protected"))
        with atomic_write(Path(os.path.realpath(path)) if path.is_symlink() else path, is_new=is_new) as file:
            yield file
        return
    with explain_write_errors(path), path.open("ab") as file:
        yield file


def check_new_folder(path: Path, *, purpose: str) -> None:
    """Raise an InputError if anything but an empty folder is there, or if `atomic_folder` could not write there."""
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise InputError(f"{path} is not an empty folder: choose another one for the {purpose}")
    place = _existing_parent(path)
    if not (place.is_dir() and os.access(place, os.W_OK)):
        raise InputError(f"{path} cannot be made: {place} is not a folder that you may write to")


def _existing_parent(path: Path) -> Path:
    """The nearest folder above a path that exists. `atomic_folder` makes the others at the end."""
    real = Path(os.path.realpath(path))
    return next(filter(os.path.exists, real.parents), Path(real.anchor))  # there may be no such drive


@contextlib.contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Give the block a temporary folder, which becomes the new or empty `folder` when the block ends without an error.

    If several processes write the same folder, the first one wins. A link stays, and its target is replaced.

    Raises:
        FileExistsError: Something was put into `folder` in the meantime.
        RunError: The folder cannot be written.
    """
    path = Path(os.path.realpath(folder))
    with temporary_beside(_existing_parent(path) / (path.name or "root")) as temporary:
        try:
            temporary.mkdir()
            yield temporary
            mode = temporary.stat().st_mode & 0o666  # the usual mode of a new file; some libraries make theirs private
            for each in temporary.rglob("*"):
                if each.is_file():
                    each.chmod(mode)
                sync(each)
            check_same_folders(folder)
            if path.is_dir():
                path.rmdir()  # fails if it is not empty
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.rename(path)
            sync(path.parent)
        except RunError as error:  # of a file in the temporary folder
            error.args = (str(error).replace(str(temporary), str(folder)),)
            raise
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                raise FileExistsError(error.errno, "another program has written this folder", str(folder)) from error
            raise write_error(folder, error) from error


def write_text(path: Path, text: str, *, is_new: bool = False) -> None:
    """Write a text file atomically; see `text_bytes` and `atomic_write`."""
    with atomic_write(path, is_new=is_new) as file:
        file.write(text_bytes(text))


def text_bytes(text: str) -> bytes:
    """The bytes that `write_text` writes: UTF-8, with JSON escapes for bytes of file names that are not UTF-8."""
    return text.encode(errors="backslashreplace")


def write_error(path: Path, error: OSError) -> RunError:
    """The error that says why a file could not be written."""
    return RunError(f"{path}: cannot be written: {error.strerror or error}")


@contextlib.contextmanager
def explain_write_errors(path: Path) -> Iterator[None]:
    """Turn a system error in the block into the error that says why a file or a folder could not be written."""
    check_same_folders(path)
    try:
        yield
    except OSError as error:
        raise write_error(path, error) from error


def is_temporary(path: Path) -> bool:
    """Whether a file is temporary, in use or left over; safetensors names its own `.tmp…`."""
    return path.suffix == ".tmp" or path.name.startswith(".tmp")


@contextlib.contextmanager
def temporary_beside(path: Path) -> Iterator[Path]:
    """Give the block an unused name in the same folder; a file or folder of that name is removed at the end."""
    check_same_folders(path)
    temporary = path.with_name(f".translate-{uuid.uuid4().hex}.tmp")
    _temporary_paths.add(temporary)
    try:
        yield temporary
    finally:
        _remove(temporary)  # it exists only if something failed
        _temporary_paths.discard(temporary)


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Give the block a folder that only this user can read, where the system keeps temporary files."""
    with temporary_beside(Path(tempfile.gettempdir()) / "folder") as folder:
        with explain_write_errors(folder):
            folder.mkdir(0o700)
        yield folder


def remove_own_temporaries() -> None:
    """Remove the temporary files and folders of this process, which is about to end."""
    for temporary in list(_temporary_paths):
        _remove(temporary)


def _remove(temporary: Path) -> None:
    with contextlib.suppress(OSError):
        temporary.unlink()
    shutil.rmtree(temporary, ignore_errors=True)


def open_append(path: Path) -> BinaryIO:
    """Open a file without a buffer, to read it and append to it; a copy that shares it by a hard link stays as it is.

    Raises:
        OSError: The file cannot be written.
    """
    if path.exists() and path.stat().st_nlink > 1:
        with temporary_beside(path) as temporary:
            shutil.copy2(path, temporary)
            os.replace(temporary, path)
    return path.open("a+b", buffering=0)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files in a folder and the folders in it; only for a process that holds the folder's lock."""
    for pattern in (".translate-*.tmp", "*/.translate-*.tmp", "checkpoints/.tmp??????"):  # of safetensors
        for leftover in filter(Path.is_file, list(folder.glob(pattern))):
            leftover.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until a file's bytes or a folder's entries are on the disk; Windows does not flush folders."""
    if os.name != "posix" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_written_in_place(path: Path) -> bool:
    """Whether a path is a device, a pipe, a folder, or a name of an open file, such as /dev/stdout."""
    if path.exists() and not path.is_file():
        return True
    while not os.path.realpath(path.parent).startswith(("/proc/", "/dev/fd")):
        if not path.is_symlink():
            return False
        path = path.parent / os.readlink(path)
    return path.exists()
