"""One training at a time in a run directory: a lock of the operating system, which dies with its process."""

import contextlib
import os
import platform
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from translate.errors import InputError, RunError
from translate.runs.atomic import cannot_write
from translate.runs.directory import RunDirectory
from translate.runs.safety import require_kind

_MOST_HOLDER_BYTES = 300


@contextlib.contextmanager
def lock_run(path: Path) -> Iterator[None]:
    """Hold a run directory against a second training; it is made if it is not there, and gone again if nothing came.

    Raises:
        InputError: Another process holds it; the message says which.
        RunError: It cannot be made or written to, or is no file of its own.
    """
    file = RunDirectory(path).lock
    if file.is_symlink():
        raise RunError(f"{file}: is a link, and what it leads to would be overwritten; remove it")
    require_kind(file, "file", within=path)
    lock = FileLock(file)
    was_there = path.exists()
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock.acquire(blocking=False)
        file.write_text(f"process {os.getpid()} on {platform.node() or 'this machine'}\n", encoding="utf-8")
    except Timeout:
        raise InputError(
            f"{path}: {holder(file)} is training in this run directory: wait for it, stop it, or choose another"
            " directory with --run"
        ) from None
    except OSError as error:
        lock.release()
        raise cannot_write(file, error) from error
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            file.write_text("", encoding="utf-8")
            if not was_there and list(path.iterdir()) == [file]:
                file.unlink()
                path.rmdir()
        lock.release()


def holder(file: Path) -> str:
    """Who wrote into a lock file that it holds it, as far as can be said."""
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            text = lines.read(_MOST_HOLDER_BYTES).strip()
    except OSError:
        text = ""
    return text if text.startswith("process ") and text.isprintable() else "another process"
