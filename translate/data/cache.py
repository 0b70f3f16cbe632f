"""Files in the user's cache folder: token ids and tokenizers kept for the next training, and temporary files.

They lie where `datasets` keeps its own files (`HF_DATASETS_CACHE`) and not in `/tmp`, which is memory on many machines.
The user may delete the folder at any time: whatever is missing is computed again.
"""

import contextlib
import hashlib
import logging
import os
import shutil
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import sentencepiece

from translate import __version__
from translate.atomic import atomic_write, is_temporary
from translate.errors import RunError
from translate.fingerprint import fingerprint

logger = logging.getLogger(__name__)

MAX_BYTES = 10 * 2**30
"""Of all entries together; they also never take more than half of the room that the disk has for them."""
_FORMAT = "1"  # to be raised when the layout of any entry changes
_SEAL = b"translate"  # stands after the content and before the SHA-256 of the content
_SEAL_BYTES = len(_SEAL) + 32
_BLOCK_BYTES = 2**20
_CHUNK_LINES = 10_000
_ABANDONED_SECONDS = 24 * 3600.0  # an unfinished entry this old belongs to a process that has ended
_OTHER_FOLDER = "set the environment variable HF_DATASETS_CACHE to a folder on a disk with room"


def cache_folder() -> Path:
    """The folder where `datasets` keeps its files, found without importing `datasets`, which takes most of a second."""
    if (datasets := sys.modules.get("datasets")) is not None:
        return Path(datasets.config.HF_DATASETS_CACHE)
    user = os.getenv("XDG_CACHE_HOME", "~/.cache")
    home = os.path.expanduser(os.getenv("HF_HOME", os.path.join(user, "huggingface")))
    return Path(os.getenv("HF_DATASETS_CACHE", os.path.join(home, "datasets")))


class TemporaryFile:
    """A growing file for this process alone. It is gone when the process ends, however it ends.

    The file has no name on Linux and macOS, and on Windows the system deletes it when it is closed. It is mapped by its
    open handle, never by a path.
    """

    def __init__(self, content: str) -> None:
        """
        Args:
            content: What the file holds, for error messages.

        Raises:
            RunError: The file cannot be created; the message names the folder.
        """
        self._folder = cache_folder()
        self._content = content
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self.file: Any = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115
        except OSError as error:
            raise RunError(
                f"{self._folder}: no temporary file for {content} can be created there ({error.strerror});"
                f" {_OTHER_FOLDER}"
            ) from error
        weakref.finalize(self, self.file.close)
        self.num_bytes = 0

    def write(self, data: Any) -> None:
        """Append all bytes of a buffer.

        Raises:
            RunError: The disk is full or fails; the message names the folder.
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
        encoded = [line.encode("utf-8", "surrogatepass") for line in lines[first : first + _CHUNK_LINES]]
        digest.update(",".join(str(len(line)) for line in encoded).encode() + b"\n")
        digest.update(b"".join(encoded))
    return digest.digest()


def entry_name(kind: str, *parts: str | bytes) -> str:
    """The name of an entry: a checksum of all that decides its content, including the versions of the libraries.

    Args:
        kind: What the entry holds, such as `ids`; it becomes the end of the name.
    """
    return f"{fingerprint(kind, _FORMAT, __version__, sentencepiece.__version__, *parts)[:40]}.{kind}"


@dataclass(eq=False)
class CachedFile:
    """The content of an entry, open for reading; it stays readable when the entry is deleted."""

    file: BinaryIO
    num_bytes: int  # of the content, which stands at the beginning of the file

    def __post_init__(self) -> None:
        weakref.finalize(self, self.file.close)

    def content(self) -> bytes:
        """All of the content."""
        self.file.seek(0)
        return self.file.read(self.num_bytes)


class DataCache:
    """Entries of all trainings of this user; several processes may use them at once.

    The cache never fails: without a folder that can be written, nothing is kept, and a warning says so.

    Args:
        folder: Where the entries are; None: in `translate-nmt` where `datasets` has its files.
    """

    def __init__(self, *, folder: Path | None = None) -> None:
        self.folder = folder or cache_folder() / "translate-nmt"
        self.num_made = 0
        """Entries that were missing and had to be computed, whether they could be kept or not."""

    def find(self, name: str) -> CachedFile | None:
        """An entry that exists and is intact; a damaged one is deleted."""
        path = self.folder / name
        try:
            entry = CachedFile(open(path, "rb"), path.stat().st_size - _SEAL_BYTES)  # noqa: SIM115
            checksum = _checksum(entry.file, entry.num_bytes)
            if entry.num_bytes >= 0 and entry.file.read() == _SEAL + checksum:
                os.utime(path)  # the time of its last use
                return entry
        except OSError:  # it does not exist, or belongs to another user
            return None
        logger.warning(f"{path} is damaged; it is deleted and computed again")
        path.unlink(missing_ok=True)
        return None

    def make(self, name: str, write: Callable[[BinaryIO], None]) -> CachedFile | None:
        """Add an entry, which other processes see once it is complete.

        Args:
            write: Writes the content.

        Returns:
            The entry; None if it cannot be written, or another process has deleted it at once.
        """
        self.num_made += 1
        path = self.folder / name
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with atomic_write(path, fsync=False) as file:
                write(file)
                num_bytes = file.tell()
                file.write(_SEAL + _checksum(file, num_bytes))
            entry = CachedFile(open(path, "rb"), num_bytes)  # noqa: SIM115
            self._delete_unused()
            return entry
        except FileNotFoundError:  # deleted to make room for another entry
            return None
        except (OSError, RunError) as error:
            logger.warning(
                f"Nothing can be kept for the next start, which will take as long as this one: {error}."
                f" To keep token ids, {_OTHER_FOLDER}"
            )
            return None

    def _delete_unused(self) -> None:
        """Delete what was unused for longest until the rest fits; a process that has an entry open keeps it."""
        entries, num_bytes = [], 0
        for path in self.folder.iterdir():
            with contextlib.suppress(OSError):  # another process may have deleted it
                status = path.stat()
                if not is_temporary(path):
                    entries.append((status.st_mtime, status.st_size, path))
                    num_bytes += status.st_size
                elif time.time() - status.st_mtime > _ABANDONED_SECONDS:
                    path.unlink()
        most = min(MAX_BYTES, (shutil.disk_usage(self.folder).free + num_bytes) // 2)
        for _, size, path in sorted(entries):
            if num_bytes <= most:
                return
            with contextlib.suppress(OSError):
                path.unlink()
            num_bytes -= size


def _checksum(file: BinaryIO, num_bytes: int) -> bytes:
    """The SHA-256 of the first bytes of a file, which is then positioned behind them."""
    digest = hashlib.sha256()
    file.seek(0)
    while num_bytes > 0 and (block := file.read(min(num_bytes, _BLOCK_BYTES))):
        digest.update(block)
        num_bytes -= len(block)
    return digest.digest()
