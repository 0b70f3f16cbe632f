"""Files that appear whole or not at all: written under a temporary name, flushed to the disk, then renamed.

A process that is killed while it writes leaves its temporary file behind; the next writer of that file removes it.
"""

import contextlib
import errno
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from translate.errors import RunError

_HINTS = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "free some space on that disk"),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), "make that directory writable, or work on a copy of it"),
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR), "its directory is gone"),
}


@contextlib.contextmanager
def atomic_write(path: Path, *, fsync: bool = True) -> Iterator[BinaryIO]:
    """Open a new file that replaces `path` when the block ends without an error; otherwise the old file stays.

    The open file's `name` is its temporary path, for libraries that write to a path themselves.

    Args:
        path: The file to write. Its directory must exist.
        fsync: Wait until the bytes are on the disk before the file gets its name, so that a power cut cannot leave a
            file that is named and empty. False suits a cache that checks what it reads.

    Raises:
        RunError: The disk is full, the directory is missing, or it is read-only.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        remove_leftovers(path)
        # Mode x creates the file and fails if the name is taken, so nothing is ever written through a link.
        with temporary.open("x+b") as file:
            yield file
        if fsync:
            sync(temporary)
        os.replace(temporary, path)
        if fsync:
            sync(path.parent)
    except OSError as error:
        raise write_error(path, error) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()  # It exists only if something failed.


@contextlib.contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Give the block a temporary folder, which becomes `folder` when the block ends without an error.

    Of several processes that write the same folder, the first one's stays.

    Args:
        folder: A folder that does not exist, or an empty one.

    Raises:
        FileExistsError: Something was put into `folder` meanwhile.
        RunError: The folder cannot be written.
    """
    temporary = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}.tmp")
    try:
        temporary.mkdir(parents=True)
        yield temporary
        mode = temporary.stat().st_mode & 0o666  # as that of any new file; some libraries make theirs private
        for file in temporary.iterdir():
            file.chmod(mode)
            sync(file)
        if folder.is_dir():
            folder.rmdir()  # fails if it is not empty
        temporary.rename(folder)
        sync(folder.parent)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise FileExistsError(error.errno, "another program has written this folder", str(folder)) from error
        raise write_error(folder, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file as UTF-8, atomically.

    Raises:
        RunError: The file cannot be written.
    """
    with atomic_write(path) as file:
        file.write(text.encode())


def write_error(path: Path, error: OSError) -> RunError:
    """The error that says why a file could not be written, with a hint where the cause is known."""
    hint = _HINTS.get(error.errno or 0)
    return RunError(f"{path}: cannot be written: {error.strerror or error}{f'; {hint}' if hint else ''}")


def is_temporary(path: Path) -> bool:
    """Whether a name is that of a temporary file, in use or left behind; `.tmp…` are those of safetensors."""
    return path.suffix == ".tmp" or path.name.startswith(".tmp")


def remove_leftovers(path: Path) -> None:
    """Remove temporary files of `path` whose processes have ended."""
    for leftover in list(path.parent.iterdir()):
        process = leftover.name.removeprefix(f"{path.name}.").removesuffix(".tmp")
        if leftover.name == f"{path.name}.{process}.tmp" and process.isdecimal() and not _is_alive(int(process)):
            with contextlib.suppress(OSError):
                leftover.unlink()


def sync(path: Path) -> None:
    """Wait until a file's bytes or a folder's entries are on the disk; Windows does not flush folders."""
    if os.name != "posix" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_alive(process: int) -> bool:
    """Whether another process has this number; on Windows, where asking would disturb it, yes."""
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)  # Otherwise the process belongs to another user.
    return process != os.getpid()
