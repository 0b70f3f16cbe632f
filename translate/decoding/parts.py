"""The finished parts of a large output, in a folder beside it until all are there and are joined.

A part is written whole or not at all, with its own checksum and a fingerprint of all that its content follows from;
so a later start knows which parts it can use. Who is at work on one holds a lock of the operating system, which dies
with its process.
"""

import contextlib
import dataclasses
import hashlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock, Timeout

from translate.atomic import atomic_write, write_error, write_text
from translate.decoding.request import ConditionCounts
from translate.errors import InputError, RunError
from translate.runs.lock import hold_lock

_PARTS_PER_FOLDER = 1000
_OPEN_SECONDS = 120.0
_POLL_SECONDS = 0.2


class Part(NamedTuple):
    """A finished block."""

    fingerprint: str
    counts: ConditionCounts
    output: list[str]  # lines, without line ends
    alignments: list[str]


class Ticket(NamedTuple):
    """A part that is to be."""

    number: int
    fingerprint: str


class PartsFolder:
    """The parts of one output, and who is at work on them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = path / "lock"
        self._open = path / "open"

    @contextlib.contextmanager
    def hold(self, name: str) -> Iterator[None]:
        """Make the folder, keep others' commands away from it, and let processes of this name in.

        Raises:
            InputError: Another command holds it.
            RunError: It cannot be made.
        """
        try:
            self.path.mkdir(exist_ok=True)
        except FileExistsError:
            raise InputError(f"{self.path}: finished parts go into a folder of this name, and it is a file") from None
        except OSError as error:
            raise write_error(self.path, error) from error
        with hold_lock(self._lock, busy="is at work there: wait for it, stop it, or choose another --output"):
            try:
                write_text(self._open, f"{name}\n")
                yield
            finally:
                if not any(self.path.glob("[0-9]*/*")):  # joined, or failed before the first was finished
                    self.remove()

    def wait_until_open(self, name: str, *, is_joined: Callable[[], bool], seconds: float = _OPEN_SECONDS) -> bool:
        """Wait for the first process to hold the folder; False: it has already joined all parts.

        Raises:
            RunError: It is not seen to.
        """
        deadline = time.monotonic() + seconds
        while self._opened_by() != name:
            if is_joined():
                return False
            if time.monotonic() > deadline:
                raise RunError(
                    f"{self.path}: the first process has not opened it, or not where this process sees it; all"
                    " processes must see the same --output, on a disk that their machines share"
                )
            time.sleep(_POLL_SECONDS)
        return True

    def is_open(self) -> bool:
        """Whether the parts are not joined yet."""
        return self._open.exists()

    @contextlib.contextmanager
    def claim(self, number: int) -> Iterator[bool]:
        """Within the context nobody else works on a part; gives False if somebody does already.

        Raises:
            RunError: The folder cannot be written to.
        """
        path = self.part(number).with_suffix(".lock")
        lock = FileLock(path)
        try:
            path.parent.mkdir(exist_ok=True)
            lock.acquire(blocking=False)
        except Timeout:
            yield False
            return
        except OSError as error:
            if not self.is_open():  # it was joined and taken away meanwhile
                yield False
                return
            raise write_error(path, error) from error
        try:
            yield True
        finally:
            with contextlib.suppress(OSError):
                path.unlink()  # who has opened it already finds the part finished
            lock.release()

    def find(self, ticket: Ticket) -> Part | None:
        """The part, if it is there, whole, and of this fingerprint."""
        part = _read(self.part(ticket.number))
        return part if part is not None and part.fingerprint == ticket.fingerprint else None

    def write(self, number: int, part: Part) -> None:
        """Write a finished part.

        Raises:
            RunError: It cannot be written.
        """
        header = {
            "fingerprint": part.fingerprint,
            "conditions": dataclasses.asdict(part.counts),
            "output_lines": len(part.output),
        }
        lines = [json.dumps(header), *part.output, *part.alignments]
        content = "".join(f"{line}\n" for line in lines).encode()
        with atomic_write(self.part(number)) as file:
            file.write(f"{hashlib.sha256(content).hexdigest()}\n".encode())
            file.write(content)

    def wait_for(self, tickets: list[Ticket]) -> bool:
        """Wait until parts that others work on are finished; False: somebody has left one unfinished.

        Nothing is waited for when the folder is gone.
        """
        while self.is_open() and (tickets := [ticket for ticket in tickets if self.find(ticket) is None]):
            for ticket in tickets:
                with self.claim(ticket.number) as is_free:
                    if is_free and self.find(ticket) is None:
                        return False
            time.sleep(_POLL_SECONDS)
        return True

    def states(self) -> dict[Path, tuple[int, int]]:
        """Of each part file, what changes when it is written anew."""
        return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in self.path.glob("[0-9]*/*.part")}

    def read(self, number: int) -> Part:
        """A part that is known to be finished.

        Raises:
            RunError: It is damaged.
        """
        path = self.part(number)
        part = _read(path)
        if part is None:
            raise RunError(f"{path}: damaged since it was written; the same command makes it anew")
        return part

    def remove(self) -> None:
        """Take the parts away, now that they are joined; files that are none of them stay."""
        with contextlib.suppress(OSError):
            self._open.unlink()  # first: nobody is to make a part anew because it is gone
        for path in list(self.path.glob("[0-9]*/*")):
            if path.suffix in (".part", ".lock", ".tmp"):
                with contextlib.suppress(OSError):
                    path.unlink()
        self._remove_empty()

    def _remove_empty(self) -> None:
        with contextlib.suppress(OSError):
            for folder in list(self.path.glob("[0-9]*")):
                folder.rmdir()
            self._lock.unlink(missing_ok=True)
            self.path.rmdir()

    def part(self, number: int) -> Path:
        """Where a part lies."""
        folder, place = divmod(number, _PARTS_PER_FOLDER)
        return self.path / f"{folder:04}" / f"{place:03}.part"

    def _opened_by(self) -> str:
        try:
            return self._open.read_text(encoding="utf-8").strip()
        except OSError:
            return ""


def _read(path: Path) -> Part | None:
    """The part in a file; None if there is none, or none of this version, or it is damaged."""
    try:
        digest, _, content = path.read_bytes().partition(b"\n")
    except OSError:
        return None
    if hashlib.sha256(content).hexdigest().encode() != digest:
        return None
    head, *lines = content.decode().removesuffix("\n").split("\n")
    try:
        header = json.loads(head)
        counts, num_output = ConditionCounts(**header["conditions"]), header["output_lines"]
        return Part(header["fingerprint"], counts, lines[:num_output], lines[num_output:])
    except (ValueError, KeyError, TypeError):
        return None
