"""Admits one process at a time to a directory, by an operating-system lock that is released when the process ends."""

import contextlib
import os
import platform
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from translate.atomic import remove_leftovers, text_bytes, write_error
from translate.errors import InputError, RunError
from translate.files import FileError, read_input, remember_folder
from translate.runs.directory import LOCK_MARK, RunDirectory, is_lock_file


@contextlib.contextmanager
def hold_lock(file: Path, *, busy: str) -> Iterator[None]:
    """Hold a lock file, which names this process; it and its folder are created if necessary.

    Temporary files that a killed process has left in the folder are removed.

    Args:
        busy: Completes the error "DIRECTORY: process N on MACHINE …" if another process holds the lock.

    Raises:
        InputError: Another process holds the lock.
        RunError: The file cannot be created or written, is a link, or belongs to another program.
    """
    if file.is_symlink() or not is_lock_file(file):
        raise RunError(f"{file}: is a link or another program's file, which would be overwritten; remove it")
    lock = FileLock(file)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(blocking=False)
        remember_folder(file.parent)
        holder = f"process {os.getpid()} on {platform.node() or 'this machine'}"
        with contextlib.suppress(PermissionError):  # Windows lets no second handle write to a locked file
            # In place, because the lock is on this very file.
            file.write_bytes(text_bytes(f"{LOCK_MARK}{holder}\n"))
        remove_leftovers(file.parent)
    except Timeout:
        holder = ""
        with contextlib.suppress(FileError):  # Windows refuses to read a locked file
            holder = read_input(file).decode(errors="replace").removeprefix(LOCK_MARK).strip()
        raise InputError(f"{file.parent}: {holder or 'another process'} {busy}") from None
    except OSError as error:
        lock.release()
        raise write_error(file, error) from error
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def lock_run(path: Path) -> Iterator[None]:
    """Keep other training runs out of a run directory. If it was created for the lock and stays empty, it is removed.

    Raises:
        InputError: Another process trains there; the message names it.
        RunError: The directory or its lock file cannot be written.
    """
    file = RunDirectory(path).lock
    is_new = not path.exists()
    busy = "is training in this run directory: wait for it, stop it, or choose another directory with --run"
    with hold_lock(file, busy=busy):
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                if is_new and list(path.iterdir()) == [file]:
                    file.unlink()
                    path.rmdir()


def is_locked(file: Path) -> bool:
    """Whether another process holds a lock file; if that cannot be found out, no."""
    try:
        if file.is_file() and is_lock_file(file):
            with FileLock(file).acquire(blocking=False):
                return False
    except OSError as error:
        return isinstance(error, Timeout)
    return False
