"""Temporary files for what is too much for memory: without a name, so that nothing is left over or read by mistake.

They lie where `datasets` keeps its Arrow files (`HF_DATASETS_CACHE`) and not in `/tmp`, which on many machines is
memory. Having no name, a file is gone with the process that has it open, however that process ends.
"""

import os
import sys
import tempfile
import weakref
from pathlib import Path
from typing import Any

from translate.errors import RunError

_MEND = "name a folder on a disk with room in the environment variable HF_DATASETS_CACHE"


def cache_folder() -> Path:
    """Where `datasets` keeps its files, found as it finds it: to import it takes most of a second."""
    if (datasets := sys.modules.get("datasets")) is not None:
        return Path(datasets.config.HF_DATASETS_CACHE)
    user = os.getenv("XDG_CACHE_HOME", "~/.cache")
    home = os.path.expanduser(os.getenv("HF_HOME", os.path.join(user, "huggingface")))
    return Path(os.getenv("HF_DATASETS_CACHE", os.path.join(home, "datasets")))


class UnnamedFile:
    """A file that only this process can read: by its path, while the object lives, and by mappings after that."""

    def __init__(self, content: str) -> None:
        """
        Args:
            content: What it is for, in errors.

        Raises:
            RunError: It cannot be made; the message names the folder.
        """
        self._folder = cache_folder()
        self._content = content
        self._num_bytes = 0
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115
        except OSError as error:
            raise RunError(
                f"{self._folder}: no temporary file for {content} can be made there ({error.strerror}); {_MEND}"
            ) from error
        weakref.finalize(self, self._file.close)
        self.closed = False
        """Arrow asks for it."""

    @property
    def path(self) -> str:
        """What it can be opened by, in this process."""
        return f"/dev/fd/{self._file.fileno()}"

    def write(self, data: Any) -> int:
        """Append all of the bytes.

        Args:
            data: Whatever `memoryview` takes.

        Raises:
            RunError: The disk is full, or fails; the message names the folder.
        """
        rest = memoryview(data).cast("B")
        size = len(rest)
        try:
            while rest:
                num_written = os.write(self._file.fileno(), rest)
                self._num_bytes += num_written
                rest = rest[num_written:]
        except OSError as error:
            raise RunError(
                f"{self._folder}: {error.strerror}, when {self._num_bytes / 2**20:.0f} MiB of {self._content} had been"
                f" written to a temporary file there; free some space, or {_MEND}"
            ) from error
        return size

    def flush(self) -> None:
        """Nothing waits to be written; Arrow asks for it."""
