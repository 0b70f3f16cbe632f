"""Lines of text from files and pipes, split where `wc -l` splits; anything but UTF-8 is an error with its location.

Nothing is silently changed or dropped here.
"""

import gzip
import io
import re
import stat
import zlib
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, overload

from translate.errors import InputError
from translate.files import describe_binary, open_input, open_standard_input, read_input

_CHUNK_LINES = 1000
_LINE_BREAKS = re.compile("[\\0\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


def iterate_lines(stream: io.BufferedIOBase | BinaryIO, name: str) -> Iterator[str]:
    r"""The lines of a UTF-8 stream, split on `\n` alone, as `wc -l` and every other MT tool counts them.

    Python's text mode and `str.splitlines` also split on `\r`, U+2028 and others, which would shift the pairing of
    two files. The newline, one `\r` before it (Windows files), and a byte order mark at the beginning are removed.

    Args:
        stream: A file opened in binary mode, or `sys.stdin.buffer`: its lines are split on `\n` alone.
        name: The name of the stream in errors: a path, or `standard input`.

    Returns:
        An iterator that reads no further than necessary, so a pipe can be translated while it is written.

    Raises:
        InputError: A line is not UTF-8 or has a NUL, or the stream begins like a binary or compressed file or UTF-16.
    """
    for number, line in enumerate(stream, start=1):
        if number == 1 and (binary := describe_binary(line)):
            raise InputError(f"{name}: {binary}")
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        if b"\0" in line:
            raise InputError(
                f"{name}, line {number}: byte {line.index(0) + 1} of the line is NUL (0x00): the file looks like UTF-16"
                " or a binary file, and UTF-8 text is needed; if it is UTF-16, convert it with iconv -f utf-16 -t utf-8"
            )
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            command = "msgconv --to-code=UTF-8" if name.endswith((".po", ".pot")) else "iconv -f latin1 -t utf-8"
            raise InputError(
                f"{name}, line {number}: byte {error.start + 1} of the line (0x{line[error.start]:02x}) is not UTF-8;"
                f" convert the file, for example with {command}"
            ) from error
        yield text.removeprefix("\ufeff") if number == 1 else text


def in_one_line(text: str) -> str:
    """A text with spaces for NUL and for every character at which a program may end a line."""
    return _LINE_BREAKS.sub(" ", text)


def read_lines(path: Path) -> list[str]:
    """All lines of a file, which may be a pipe; see `stream_lines`."""
    return list(stream_lines(path, may_be_pipe=True))


def read_document(file: Path | None) -> str:
    """Read a whole file or standard input, with all of its characters.

    Raises:
        InputError: The file cannot be used.
    """
    if file is None or str(file) == "-":
        content, name = open_standard_input().read(), "standard input"
    else:
        content, name = read_input(file, at_most=2**31, may_be_pipe=True), str(file)
    return decode_document(content, name)


def decode_document(content: bytes, name: str) -> str:
    """The text of a document.

    Raises:
        InputError: It is not UTF-8; the message gives the line.
    """
    for _ in iterate_lines(io.BytesIO(content), name):  # reports bytes that are not UTF-8
        pass
    return content.decode("utf-8")


def stream_lines(path: Path, *, may_be_pipe: bool = False) -> Iterator[str]:
    """The lines of a UTF-8 file, read as they are needed, and unzipped if its name ends in `.gz`; see `iterate_lines`.

    Raises:
        InputError: A line is not UTF-8, or the file cannot be read; see `open_bytes`.
    """
    with open_bytes(path, may_be_pipe=may_be_pipe) as stream:
        yield from iterate_lines(stream, str(path))


@contextmanager
def open_bytes(path: Path, *, may_be_pipe: bool = False) -> Iterator[io.BufferedIOBase]:
    """The bytes of a file, unzipped if its name ends in `.gz`.

    Raises:
        InputError: The file is missing, a folder or device, unreadable, named `.gz` but not gzip, or truncated; or it
            changed while it was read.
    """
    try:
        with open_input(path, may_be_pipe=may_be_pipe) as stream, require_unchanged(path):
            if path.suffix != ".gz":
                yield stream
            else:
                with gzip.open(stream) as unzipped:
                    yield unzipped
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(
            f"{path}: is named .gz, but its gzip data are damaged ({error}); copy or download the file again"
        ) from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error


@contextmanager
def require_unchanged(path: Path) -> Iterator[None]:
    """Raise an InputError if a file is written to or replaced within the context."""
    before = _state(path)
    yield
    if _state(path) != before:
        raise InputError(f"{path}: changed while it was read; start again when no program is writing to it")


def _state(path: Path) -> tuple[int, ...] | None:
    """Values that change when a file is written to or replaced; None for a pipe."""
    state = path.stat()
    return (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns) if stat.S_ISREG(state.st_mode) else None


class Lines(Sequence[str]):
    """A sequence of lines, read in runs."""

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        numbers = range(len(self))[place]
        if isinstance(numbers, int):
            return self._read(numbers, numbers + 1)[0]
        if numbers.step != 1:
            return [self[number] for number in numbers]
        return self._read(numbers.start, max(numbers.start, numbers.stop))

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), _CHUNK_LINES):
            yield from self._read(first, min(first + _CHUNK_LINES, len(self)))

    @abstractmethod
    def _read(self, start: int, stop: int) -> list[str]:
        """The lines from `start` up to, not including, `stop`."""


class SpacedText(Lines):
    """As many lines as wanted, evenly spaced over a text, in order; with more lines than it has, some are repeated."""

    def __init__(self, text: Sequence[str], size: int) -> None:
        self._text, self._size = text, size

    def __len__(self) -> int:
        return self._size

    def _read(self, start: int, stop: int) -> list[str]:
        places = [place * len(self._text) // self._size for place in range(start, stop)]
        part = self._text[places[0] : places[-1] + 1] if places else []
        return [part[place - places[0]] for place in places]
