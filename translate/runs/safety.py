"""What a run directory from elsewhere may not do: lead out of itself, block its reader, or fill the memory."""

import itertools
import os
import stat
from pathlib import Path
from typing import Literal

from translate.errors import RunError
from translate.runs.directory import RunDirectory

MOST_TEXT_BYTES = 2**19
"""Of config.yaml and run.json, which have some thousands; parsing YAML of this size takes seconds."""
MOST_MODEL_BYTES = 2**28
"""Of a SentencePiece model, which has some hundred thousands."""
_MOST_ENTRIES = 1000  # of a folder that has a handful


def refuse_hostile_paths(run: RunDirectory) -> None:
    """Raise the RunError that names a path of a run which is a link out of it, of another kind, or absurdly large.

    The directory itself may be reached by a link, and links inside it may point to other places inside it.
    """
    for folder in (run.tokenizer, run.checkpoints, run.evaluation, run.export):
        require_kind(folder, "folder", within=run.path)
    for file in (run.metrics, run.shortlist, run.lock, *entries(run.checkpoints)):
        require_kind(file, "file", within=run.path)
    for file in (run.description, run.config):
        require_kind(file, "file", within=run.path, most_bytes=MOST_TEXT_BYTES)
    for file in entries(run.tokenizer):
        require_kind(file, "file", within=run.path, most_bytes=MOST_MODEL_BYTES)


def require_kind(path: Path, kind: Literal["file", "folder"], *, within: Path, most_bytes: int | None = None) -> None:
    """Raise a RunError if what lies at a path, if anything, is not a file or folder inside another folder."""
    real = os.path.realpath(path)
    if not Path(real).is_relative_to(os.path.realpath(within)):
        raise RunError(f"{path}: is a link out of {within}, to {real}; a run must be whole in itself")
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise RunError(f"{path}: cannot be read: {error.strerror}") from error
    if not (stat.S_ISREG if kind == "file" else stat.S_ISDIR)(status.st_mode):
        raise RunError(f"{path}: should be a {kind}, but is {_kind(status.st_mode)}")
    if most_bytes is not None and status.st_size > most_bytes:
        raise RunError(f"{path}: has {status.st_size} bytes, but such a file has at most {most_bytes}")


def entries(folder: Path) -> list[Path]:
    """What lies in a folder, by name; nothing if there is no such folder.

    Raises:
        RunError: It cannot be read, or there is far more than a run has.
    """
    try:
        found = sorted(itertools.islice(folder.iterdir(), _MOST_ENTRIES + 1))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RunError(f"{folder}: cannot be read: {error.strerror}") from error
    if len(found) > _MOST_ENTRIES:
        raise RunError(f"{folder}: has more than {_MOST_ENTRIES} files; no run has")
    return found


def _kind(mode: int) -> str:
    kinds = {stat.S_ISDIR: "a folder", stat.S_ISREG: "a file", stat.S_ISFIFO: "a pipe", stat.S_ISSOCK: "a socket"}
    return next((name for is_kind, name in kinds.items() if is_kind(mode)), "a device")
