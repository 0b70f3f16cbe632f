"""A folder that is written whole or not at all, also when two processes want the same one."""

import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

from translate.atomic import fsync_file, fsync_folder, write_error
from translate.errors import InputError


def refuse_occupied(folder: Path) -> None:
    """Raise the InputError that says there is something where a new folder should be, if there is."""
    if folder.is_dir():
        if any(folder.iterdir()):
            raise InputError(f"{folder} is not empty: choose another folder, or empty it")
    elif folder.exists():
        raise InputError(f"{folder} is a file, not a folder to export to")


def write_folder(folder: Path, write: Callable[[Path], None]) -> bool:
    """Has a folder written beside its place and then renamed; an empty folder there is replaced.

    Args:
        write: Fills the folder that it is given with files.

    Returns:
        Whether this was the folder's first writer; if not, another's stands there and this one's is gone.

    Raises:
        RunError: It cannot be written.
    """
    temporary = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}.tmp")
    try:
        temporary.mkdir(parents=True)
        write(temporary)
        mode = temporary.stat().st_mode & 0o666  # as any new file's; some libraries let the owner alone read theirs
        for file in temporary.iterdir():
            file.chmod(mode)
            fsync_file(file)
        return _put_in_place(temporary, folder)
    except OSError as error:
        raise write_error(folder, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _put_in_place(temporary: Path, folder: Path) -> bool:
    try:
        if folder.is_dir():
            folder.rmdir()  # not if there is something in it
        temporary.rename(folder)
    except OSError:
        if folder.is_dir() and any(folder.iterdir()):
            return False
        raise
    fsync_folder(folder.parent)
    return True
