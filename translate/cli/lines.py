"""Lines in, lines out: UTF-8 split on newlines alone, whatever the locale."""

import contextlib
import dataclasses
import errno
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from translate.errors import InputError, RunError

_MUST_PAIR = "they must pair line by line"


@dataclasses.dataclass(frozen=True)
class TextLines:
    """Lines that are read as they are asked for, once."""

    lines: Iterator[str]
    total: int | None  # None: it is not known before the end
    name: str

    def __iter__(self) -> Iterator[str]:
        return self.lines


def open_lines(file: Path | None) -> TextLines:
    """The lines of a file, or of standard input; never more than a line is held.

    A file is read twice, first to know that all of it is good, and how many lines it has; what can be read only once,
    standard input or a pipe, as it comes.

    Raises:
        InputError: A file that cannot be used.
    """
    from translate.data.text import iterate_lines, stream_lines

    if file is None or str(file) == "-":
        if sys.stdin is None:
            raise InputError("standard input is closed: name a file")
        return TextLines(iterate_lines(sys.stdin.buffer, "standard input"), None, "standard input")
    total = None if file.is_fifo() else sum(1 for _ in stream_lines(file))
    return TextLines(stream_lines(file, may_be_pipe=True), total, str(file))


def paired_lines(first: TextLines, second: TextLines) -> Iterator[tuple[str, str]]:
    """Line N of both, read side by side.

    Raises:
        InputError: One has more lines than the other: at once if both numbers are known.
    """
    from translate.data.corpora import unequal_message

    if first.total is not None and second.total is not None and first.total != second.total:
        raise InputError(unequal_message(Path(first.name), Path(second.name)))
    return _paired(first, second)


def _paired(first: TextLines, second: TextLines) -> Iterator[tuple[str, str]]:
    number = 0
    for number, line in enumerate(first, start=1):
        other = next(second.lines, None)
        if other is None:
            raise InputError(f"{second.name} has only {number - 1} lines, and {first.name} has more: {_MUST_PAIR}")
        yield line, other
    if next(second.lines, None) is not None:
        raise InputError(f"{first.name} has only {number} lines, and {second.name} has more: {_MUST_PAIR}")


def require_pairs(first: Path, first_lines: list[str], second: Path, second_lines: list[str]) -> None:
    """Raise the InputError that says that two files have different numbers of lines, if they have."""
    from translate.data.corpora import unequal_message

    if len(first_lines) != len(second_lines):
        raise InputError(unequal_message(first, second))


def refuse_overwriting(outputs: dict[str, Path | None], inputs: Iterable[Path | None]) -> None:
    """Raise the InputError that says that a file is both read and written, if one is.

    Args:
        outputs: By the option that names them.
    """
    read = [path for path in inputs if path is not None and path.is_file()]
    for option, output in outputs.items():
        if output is not None and output.is_file() and any(output.samefile(path) for path in read):
            raise InputError(f"{option} {output}: is read by this very command, and would be lost; name another file")


def write_lines(lines: Iterable[str], output: Path | None) -> None:
    """Write lines as UTF-8 with `\\n`, whatever the locale; a file appears only when it is whole."""
    if output is None:
        if sys.stdout is None:
            raise RunError("standard output is closed: nowhere to write to")
        sys.stdout.flush()
        for line in lines:
            sys.stdout.buffer.write(line.encode("utf-8") + b"\n")
            sys.stdout.buffer.flush()
        return
    with whole_file(output) as write:
        for line in lines:
            write(line)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Callable[[str], None]]:
    """Within the context, lines are written beside the file's place; it appears when all went well.

    A device or a pipe is written as it is: a file must not take the place of `/dev/null`.

    Raises:
        RunError: It cannot be written; as early as this is known.
    """
    is_special = path.exists() and not path.is_file()
    real = path if is_special else Path(os.path.realpath(path))  # a link stays one
    temporary = real if is_special else real.with_name(real.name + ".part")
    with contextlib.ExitStack() as stack:
        if not is_special:
            stack.callback(_remove, temporary)  # whatever failed, also the reading; after a success there is none
        with _names(path):
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            file = temporary.open("w", encoding="utf-8", newline="\n")

        def write(line: str) -> None:
            with _names(path):
                file.write(f"{line}\n")

        try:
            yield write
        finally:
            with _names(path):
                file.close()
        with _names(path):
            temporary.replace(real)


@contextlib.contextmanager
def _names(path: Path) -> Iterator[None]:
    """Errors of the operating system name the file."""
    try:
        yield
    except OSError as error:
        raise RunError(f"{path}: cannot be written: {error.strerror}") from error


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
