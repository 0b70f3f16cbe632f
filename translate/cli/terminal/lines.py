"""Lines of text in and out, UTF-8 and split at newlines alone whatever the locale; and the constraints beside them."""

import contextlib
import dataclasses
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

from typer import Option

from translate.cli.terminal.console import is_terminal, without_bar
from translate.cli.terminal.options import add_options
from translate.errors import InputError
from translate.messages import escaped

if TYPE_CHECKING:
    from translate.decoding import Request


Line = TypeVar("Line")

STANDARD_OUTPUT = Path("/dev/stdout")


@dataclasses.dataclass(frozen=True)
class TextLines(Generic[Line]):
    """Lines, or rows of several files' lines, that are read as they are asked for, once."""

    lines: Iterator[Line]
    total: int | None  # None: the number is unknown before the end
    name: str

    def __iter__(self) -> Iterator[Line]:
        return self.lines


def open_lines(file: Path | None) -> TextLines[str]:
    """Open the lines of a file or of standard input, and hold no more than one of them.

    A file is read twice, first to check all of it and to count its lines. Standard input and pipes, which can be read
    only once, are checked as they come.

    Raises:
        InputError: The file cannot be used.
    """
    from translate.data.text import stream_lines

    if file is None or str(file) == "-":
        if sys.stdin is None:
            raise InputError("standard input is closed: name a file")
        return TextLines(_standard_input(), None, "standard input")
    total = None if file.is_fifo() else sum(1 for _ in stream_lines(file))
    return TextLines(stream_lines(file, may_be_pipe=True), total, str(file))


def _standard_input() -> Iterator[str]:
    from translate.data.text import iterate_lines

    try:
        yield from iterate_lines(sys.stdin.buffer, "standard input")
    except OSError as error:
        raise InputError(f"standard input: cannot be read: {error.strerror}") from error


def paired_lines(first: Path, second: Path) -> TextLines[tuple[str, str]]:
    """Read line N of both files side by side.

    Raises:
        InputError: One file has more lines than the other; this is reported at once unless one is a pipe.
    """
    from translate.data.corpora import unequal_message

    opened, other = open_lines(first), open_lines(second)
    if len({opened.total, other.total} - {None}) > 1:
        raise InputError(unequal_message(first, second))
    return TextLines(_rows(opened, other), opened.total or other.total, f"{first} and {second}")


def _rows(*files: TextLines[str]) -> Iterator[Any]:
    """Read line N of all files side by side."""
    try:
        yield from zip(*files, strict=True)
    except ValueError:
        names = " and ".join(file.name for file in files)
        raise InputError(f"{names} have different numbers of lines: they must pair line by line") from None


def takes_constraints(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that name constraint files; it receives the given ones as `constraints`."""
    helps = {
        "prefix": "Line N: how translation N begins.",
        "require": "Line N: words and phrases, between tabs, that translation N contains.",
        "terminology": "Lines of source, tab, target: required wherever the source occurs in a line.",
        "forbid": "Words and phrases, one a line, that no translation has, spelt as the tokenizer does.",
    }
    options: dict[str, tuple[Any, Any]] = {
        name: (Annotated[Path | None, Option(metavar="FILE", help=text)], None) for name, text in helps.items()
    }
    return add_options(command, options, name="constraints")


def read_requests(lines: TextLines[str], files: dict[str, Path]) -> Iterator["Request"]:
    """Read the lines and the constraint files, by option, side by side; only the terminology is read at once.

    Raises:
        InputError: A file cannot be used, or its number of lines is wrong: at once where the numbers are known.
    """
    from translate.decoding import Request
    from translate.decoding.constraints.terminology import read_terminology

    opened = {name: open_lines(files[name]) for name in ("prefix", "require") if name in files}
    for each in opened.values():
        if len({lines.total, each.total} - {None}) > 1:
            numbers = f"{each.name} has {each.total} lines, but {lines.total} were to be translated"
            raise InputError(f"{numbers}: they pair by line")
    terminology = read_terminology(files["terminology"]) if "terminology" in files else None

    def requests() -> Iterator[Request]:
        for line, *constraints in _rows(lines, *opened.values()):
            given = dict(zip(opened, constraints, strict=True))
            required = tuple(phrase for phrase in given.get("require", "").split("\t") if phrase.strip())
            yield Request(line, given.get("prefix", ""), required, terminology)

    return requests()


def check_outputs(outputs: dict[str, Path | None], inputs: Iterable[Path | None]) -> None:
    """Check all files that a command writes against all that it reads, by what they are and not by their names.

    Args:
        outputs: Files to write, by the options that name them; None: there is none.
        inputs: Files that the command reads; None or `-`: standard input.

    Raises:
        InputError: An output is an input, another output, or a file of a run.
    """
    from translate.runs.directory import containing_run

    reason = "this command reads that file, and it would be lost"
    taken = {_identity(path): reason for path in inputs}
    for option, output in outputs.items():
        if output is None:
            continue
        option = option if output != STANDARD_OUTPUT else "standard output,"
        if run := containing_run(output):
            raise InputError(f"{option} {output}: that is a file of the run {run}; name another")
        identity = _identity(output)
        if identity is not None and identity in taken:
            raise InputError(f"{option} {output}: {taken[identity]}; name another")
        taken[identity] = f"{option} is that file too"


def _identity(path: Path | None) -> object:
    """What tells a file apart from others, whatever its name; None for a device, a pipe or a terminal."""
    try:
        is_input = path is None or str(path) == "-"
        state = os.fstat(sys.stdin.fileno()) if is_input else os.stat(path)  # type: ignore[arg-type]
    except (OSError, ValueError, AttributeError):  # there is none yet, or standard input is closed
        return None if path is None else os.path.realpath(path)
    return (state.st_dev, state.st_ino) if stat.S_ISREG(state.st_mode) else None


def write_lines(lines: Iterable[str], output: Path | None) -> None:
    """Write lines to a file, which appears only when it is whole, or to standard output, each at once."""
    if output is not None:
        with open_line_output(output) as write:
            for line in lines:
                write(line)
        return
    sys.stdout.flush()
    is_shown = is_terminal(sys.stdout)
    for line in map(escaped, lines) if is_shown else lines:
        with without_bar() if is_shown else contextlib.nullcontext():
            sys.stdout.buffer.write(line.encode("utf-8") + b"\n")
            sys.stdout.buffer.flush()


@contextlib.contextmanager
def open_line_output(path: Path) -> Iterator[Callable[[str], object]]:
    """Open a file for lines, in the manner of `open_output`."""
    from translate.atomic import open_output

    with open_output(path) as file:
        yield lambda line: file.write(f"{line}\n".encode())
