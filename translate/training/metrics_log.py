"""`metrics.jsonl`: a line for each record, and a mark in each checkpoint of how much of it was written by then."""

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from translate.atomic import atomic_write, write_error

Record = dict[str, Any]


class MetricsMark(NamedTuple):
    """The beginning of the file that a checkpoint vouches for."""

    num_bytes: int
    sha256: str


class MetricsLog:
    """Appends to the file, after cutting off what a continued training computes again.

    Args:
        path: Made if it does not exist.
        first_step: Steps already done.
        mark: Where the file stood then; None: unknown, and lines of later steps are dropped.
        say: Receives what is not as the checkpoint says.

    Raises:
        RunError: The file cannot be read or written.
    """

    def __init__(
        self, path: Path, *, first_step: int, mark: MetricsMark | None, say: Callable[[str], None] = print
    ) -> None:
        self.path = path
        with self._telling():
            content = path.read_bytes() if path.exists() else b""
            if mark is None:
                kept = _lines_until(content, step=first_step)
            elif hashlib.sha256(content[: mark.num_bytes]).hexdigest() == mark.sha256:
                kept = content[: mark.num_bytes]
            else:
                say(f"{path} is not as it was when the checkpoint was written: its lines up to step {first_step} stay")
                kept = _lines_until(content, step=first_step)
        if kept != content:
            with atomic_write(path) as file:
                file.write(kept)
        with self._telling():
            # Without a buffer: what cannot be written is known at once, and not again when the file is closed.
            self._file = path.open("ab", buffering=0)
        self._num_bytes = len(kept)
        self._digest = hashlib.sha256(kept)

    def append(self, record: Record) -> None:
        """Write a record as a line of JSON.

        Raises:
            RunError: It cannot be written.
        """
        line = json.dumps(record, ensure_ascii=False).encode() + b"\n"
        with self._telling():
            written = 0
            while written < len(line):
                written += self._file.write(line[written:])
        self._num_bytes += len(line)
        self._digest.update(line)

    def sync(self) -> MetricsMark:
        """Wait until all lines are on the disk, and mark where the file stands.

        Raises:
            RunError: The disk refuses them.
        """
        with self._telling():
            os.fsync(self._file.fileno())
        return MetricsMark(self._num_bytes, self._digest.hexdigest())

    def close(self) -> None:
        """Close the file; all is written already."""
        self._file.close()

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise write_error(self.path, error) from error


def _lines_until(content: bytes, *, step: int) -> bytes:
    kept = []
    for line in content.splitlines(keepends=True):
        try:
            if json.loads(line)["step"] <= step:
                kept.append(line)
        except (ValueError, KeyError, TypeError):
            continue  # the half line of a process that was killed
    return b"".join(kept)
