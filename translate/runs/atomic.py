"""Files that are written whole or not at all: under a temporary name, waited for until they are on the disk, renamed.

A process that is killed meanwhile leaves its temporary file behind; who writes that file next takes it away.
"""

import contextlib
import errno
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from translate.errors import RunError

_NOT_THROUGH_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_LEFTOVER = re.compile(r"(?P<name>.+?)(?:\.(?P<process>[0-9]{1,9}))?\.tmp")
_MENDS = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "free some space on that disk"),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), "make that directory writable, or work on a copy of it"),
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR), "its directory is gone"),
}


@contextlib.contextmanager
def replacing(path: Path, *, before_rename: Callable[[], None] | None = None) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` when the block has ended well; else the old one stays as it was.

    Args:
        before_rename: Called when the new file is on the disk and has not got its name yet.

    Raises:
        RunError: The disk is full, the directory gone or read-only.
    """
    temporary = temporary_name(path)
    try:
        remove_leftovers(path)
        # Made here and now: nothing that lies at this name already, such as a link out of the run, is written through.
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | _NOT_THROUGH_LINKS, 0o666)
        with open(descriptor, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if before_rename is not None:
            before_rename()
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()  # it is there only if something failed


def temporary_name(path: Path) -> Path:
    """What this process calls a file until it is whole."""
    return path.with_name(f"{path.name}.{os.getpid()}.tmp")


def write_text(path: Path, text: str) -> None:
    """Write a text file whole, or leave the old one as it was.

    Raises:
        RunError: It cannot be written.
    """
    with replacing(path) as file:
        file.write(text.encode())


def cannot_write(path: Path, error: OSError) -> RunError:
    """The error that says why a file could not be written, and the mend if one is known."""
    mend = _MENDS.get(error.errno or 0)
    return RunError(f"{path}: cannot be written: {error.strerror or error}{f'; {mend}' if mend else ''}")


def is_leftover(path: Path) -> bool:
    """Whether a name is that of a temporary file."""
    return _LEFTOVER.fullmatch(path.name) is not None


def remove_leftovers(path: Path) -> None:
    """Take away the temporary files of `path` that killed processes left behind.

    Raises:
        OSError: The directory cannot be read.
    """
    for leftover in list(path.parent.iterdir()):
        match = _LEFTOVER.fullmatch(leftover.name)
        if match is None or match["name"] != path.name:
            continue
        process = match["process"]
        if process is None or int(process) == os.getpid() or not _is_alive(int(process)):
            with contextlib.suppress(OSError):
                leftover.unlink()


def _is_alive(process: int) -> bool:
    if os.name != "posix":
        return True  # not to be asked without harm
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        return True
    return True


def sync(path: Path) -> None:
    """Wait until a file's bytes, or a folder's entries, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Wait until a folder's entries are on the disk, where a folder can be waited for."""
    if os.name == "posix":
        sync(folder)
