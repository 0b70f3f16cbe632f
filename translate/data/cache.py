"""What was made of the same text before: token ids and trained tokenizers, in files named by what they were made from.

They lie in a folder among those of `datasets`, which may be deleted at any time: what is needed is made anew. Together
they take at most 10 GiB, and half of the room there is; what has not been used for longest goes first.
"""

import contextlib
import hashlib
import os
import secrets
import shutil
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

import sentencepiece

from translate import __version__
from translate.data.spill import cache_folder

MAX_BYTES = 10 * 2**30
_FORMAT = "1"  # another number for another layout of any entry
_SEAL = b"translate"  # behind the content, and behind it the SHA-256 of all before
_SEAL_BYTES = len(_SEAL) + 32
_BLOCK_BYTES = 2**20
_CHUNK_LINES = 10_000
_ABANDONED_SECONDS = 24 * 3600.0  # since the last write to a temporary file: its process is gone
_MEND = "the environment variable HF_DATASETS_CACHE names another place"


def text_digest(lines: Sequence[str]) -> bytes:
    """A checksum of some lines, each of which may hold any character."""
    digest = hashlib.sha256()
    for first in range(0, len(lines), _CHUNK_LINES):
        encoded = [line.encode("utf-8", "surrogatepass") for line in lines[first : first + _CHUNK_LINES]]
        digest.update(",".join(str(len(line)) for line in encoded).encode() + b"\n")
        digest.update(b"".join(encoded))
    return digest.digest()


def entry_name(kind: str, *parts: str | bytes) -> str:
    """What an entry is called: a checksum of all that decides its content, the libraries' versions too.

    Args:
        kind: What it is, such as `ids`; the end of the name.
    """
    digest = hashlib.sha256()
    for part in (kind, _FORMAT, __version__, sentencepiece.__version__, *parts):
        data = part.encode() if isinstance(part, str) else part
        digest.update(b"%d\n" % len(data) + data)
    return f"{digest.hexdigest()[:40]}.{kind}"


class CachedFile:
    """The content of an entry, open: it can be read even when the entry has been deleted."""

    def __init__(self, file: BinaryIO, num_bytes: int) -> None:
        self._file = file
        weakref.finalize(self, file.close)
        self.num_bytes = num_bytes
        """Of the content, with which the file begins."""

    @property
    def path(self) -> str:
        """What it can be opened by, in this process."""
        return f"/dev/fd/{self._file.fileno()}"

    def content(self) -> bytes:
        """All of it."""
        self._file.seek(0)
        return self._file.read(self.num_bytes)


class DataCache:
    """Entries of this user, of all trainings; several processes may use them at once.

    It never fails: without a folder that can be written there are no entries, and that is said.

    Args:
        say: Receives what the user should know.
        folder: Where they are; None: in `translate-nmt` where `datasets` has its files.
    """

    def __init__(self, say: Callable[[str], None], *, folder: Path | None = None) -> None:
        self.folder = folder or cache_folder() / "translate-nmt"
        self._say = say
        self.num_made = 0
        """Entries that were not there and had to be made, whether they could be kept or not."""

    def find(self, name: str) -> CachedFile | None:
        """An entry that is there and sound. A damaged one is deleted."""
        path = self.folder / name
        with contextlib.ExitStack() as stack:
            try:
                file = stack.enter_context(open(path, "rb"))
            except OSError:  # there is none, or it is another user's
                return None
            num_bytes = _sound_bytes(file)
            if num_bytes is not None:
                stack.pop_all()  # it stays open
                with contextlib.suppress(OSError):
                    os.utime(path)  # when it was last used
                return CachedFile(file, num_bytes)
        self._say(f"{path}: is damaged; it is deleted and made anew")
        with contextlib.suppress(OSError):
            path.unlink()
        return None

    def make(self, name: str, write: Callable[[BinaryIO], None]) -> CachedFile | None:
        """A new entry, there for others once it is whole.

        Args:
            write: Writes the content; what it raises passes, but for `OSError`.

        Returns:
            The entry; None if it cannot be written.
        """
        self.num_made += 1
        temporary = self.folder / f"{name}.{secrets.token_hex(8)}.tmp"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with contextlib.ExitStack() as stack:
                file = stack.enter_context(open(temporary, "x+b"))
                write(file)
                num_bytes = file.tell()
                file.write(_SEAL + _checksum(file, num_bytes))
                file.flush()
                os.replace(temporary, self.folder / name)
                self._delete_unused()
                stack.pop_all()  # it stays open
                return CachedFile(file, num_bytes)
        except OSError as error:
            self._say(
                f"{self.folder}: nothing can be kept there ({error.strerror or error}), so the next start will take as"
                f" long as this one; {_MEND}"
            )
            return None
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink()  # it is there only if something failed

    def _delete_unused(self) -> None:
        """Down to what may be there. What is deleted while a process has it open is there for that process."""
        entries, num_bytes = [], 0
        for path in self.folder.iterdir():
            with contextlib.suppress(OSError):  # another process may have deleted it
                status = path.stat()
                if path.suffix == ".tmp":
                    if time.time() - status.st_mtime > _ABANDONED_SECONDS:
                        path.unlink()
                else:
                    entries.append((status.st_mtime, status.st_size, path))
                    num_bytes += status.st_size
        most = min(MAX_BYTES, (shutil.disk_usage(self.folder).free + num_bytes) // 2)
        for _, size, path in sorted(entries):
            if num_bytes <= most:
                return
            with contextlib.suppress(OSError):
                path.unlink()
            num_bytes -= size


def _sound_bytes(file: BinaryIO) -> int | None:
    """How many bytes of content a file has; None if it is not what was written."""
    try:
        num_bytes = file.seek(0, os.SEEK_END) - _SEAL_BYTES
        if num_bytes < 0:
            return None
        checksum = _checksum(file, num_bytes)
        return num_bytes if file.read() == _SEAL + checksum else None
    except OSError:
        return None


def _checksum(file: BinaryIO, num_bytes: int) -> bytes:
    """Of so many bytes from the beginning; the file stands behind them."""
    digest = hashlib.sha256()
    file.seek(0)
    while num_bytes and (block := file.read(min(num_bytes, _BLOCK_BYTES))):
        digest.update(block)
        num_bytes -= len(block)
    return digest.digest()
