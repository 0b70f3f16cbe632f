"""Files in the user's cache folder: token ids and tokenizers for the next training, and temporary files.

The folder is where `datasets` keeps its own files (`HF_DATASETS_CACHE`), not `/tmp`, which many machines keep in
memory. Nothing is deleted automatically. The user may delete it at any time: missing entries are computed again.
"""

import hashlib
import json
import logging
import os
import sys
import tempfile
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import sentencepiece

from translate._version import __version__
from translate.atomic import atomic_write
from translate.errors import RunError
from translate.files import FileError, MissingFileError, open_input
from translate.fingerprint import fingerprint

logger = logging.getLogger(__name__)

_FORMAT = "3"  # raise it when the layout of any entry changes
_CHECKSUM_BYTES = 32  # of the content's SHA-256, which follows the content
_CHUNK_LINES = 10_000
_CHUNK_BYTES = 2**20
_OTHER_FOLDER = "set the environment variable HF_DATASETS_CACHE to a folder on a disk with free space"


def cache_folder() -> Path:
    """The folder where `datasets` keeps its files, found without importing `datasets`, which takes most of a second."""
    if (datasets := sys.modules.get("datasets")) is not None:
        return Path(datasets.config.HF_DATASETS_CACHE)
    user = os.getenv("XDG_CACHE_HOME", "~/.cache")
    home = os.path.expanduser(os.getenv("HF_HOME", os.path.join(user, "huggingface")))
    return Path(os.getenv("HF_DATASETS_CACHE", os.path.join(home, "datasets")))


class TemporaryFile:
    """A growing file for this process alone, which disappears when the process ends for any reason.

    The file has no name on Linux and macOS, and Windows deletes it when it is closed. It is read by its open handle.

    Raises:
        RunError: The file cannot be created; the message names its content.
    """

    def __init__(self, content: str) -> None:
        self._folder = cache_folder()
        self._content = content
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self.file: Any = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115
        except OSError as error:
            raise RunError(
                f"{self._folder}: cannot create a temporary file for {content} there ({error.strerror});"
                f" {_OTHER_FOLDER}"
            ) from error
        weakref.finalize(self, self.file.close)
        self.num_bytes = 0

    def write(self, data: Any) -> None:
        """Append all bytes of a buffer.

        Raises:
            RunError: The disk is full or fails.
        """
        remaining = memoryview(data).cast("B")
        try:
            while remaining:
                num_written = self.file.write(remaining)
                self.num_bytes += num_written
                remaining = remaining[num_written:]
        except OSError as error:
            raise RunError(
                f"{self._folder}: {error.strerror}, after {self.num_bytes / 2**20:.0f} MiB of {self._content} were"
                f" written to a temporary file there; free some space, or {_OTHER_FOLDER}"
            ) from error


def text_digest(lines: Sequence[str]) -> bytes:
    """A checksum of lines, each of which may contain any character."""
    digest = hashlib.sha256()
    for first in range(0, len(lines), _CHUNK_LINES):
        digest.update(json.dumps(lines[first : first + _CHUNK_LINES]).encode())
    return digest.digest()


def entry_name(kind: str, *parts: str | bytes) -> str:
    """The name of an entry of a kind, such as `ids`: a checksum of everything that its content depends on."""
    return f"{fingerprint(kind, _FORMAT, __version__, sentencepiece.__version__, *parts)[:40]}.{kind}"


@dataclass(eq=False)
class CachedFile:
    """The content of an entry: the first bytes of an open file, which stays readable when the entry is deleted."""

    file: BinaryIO
    num_bytes: int

    def __post_init__(self) -> None:
        weakref.finalize(self, self.file.close)


class DataCache:
    """The entries of all of this user's training runs; several processes may use them at once.

    The cache never fails: if its folder cannot be written, nothing is kept, and a warning says so.
    """

    def __init__(self, *, folder: Path | None = None) -> None:
        self.folder = folder or cache_folder() / "translate-nmt"
        self.num_made = 0
        """Entries that were missing and had to be computed, whether they could be kept or not."""

    def find(self, name: str) -> CachedFile | None:
        """An existing entry, whose checksum is verified; reading it takes a second or two per GB."""
        path = self.folder / name
        try:
            file = open_input(path)
            entry = CachedFile(file, max(0, os.fstat(file.fileno()).st_size - _CHECKSUM_BYTES))
            checksum = _checksum(file, entry.num_bytes)
            if file.read() == checksum:
                file.seek(0)
                return entry
            problem = f"{path} is damaged"
        except MissingFileError:
            return None
        except (FileError, OSError) as error:
            problem = str(error)
        logger.warning(f"{problem}; it will be computed again")
        return None

    def make(self, name: str, write: Callable[[BinaryIO], object]) -> CachedFile | None:
        """Add an entry, which other processes see once it is complete; None if it cannot be written."""
        self.num_made += 1
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with atomic_write(self.folder / name) as file:
                write(file)
                file.write(_checksum(file, file.tell()))
        except (OSError, RunError) as error:
            logger.warning(
                f"The cache cannot be written, so the next start will take as long as this one: {error}."
                f" To cache token ids, {_OTHER_FOLDER}"
            )
        return self.find(name)


def _checksum(file: BinaryIO, num_bytes: int) -> bytes:
    """The SHA-256 of the first bytes of a file; afterwards its position is after them."""
    digest = hashlib.sha256()
    file.seek(0)
    while num_bytes > 0 and (part := file.read(min(num_bytes, _CHUNK_BYTES))):
        digest.update(part)
        num_bytes -= len(part)
    return digest.digest()
