"""Lines in, lines out: UTF-8 split on newlines alone, whatever the locale; and what is said beside them."""

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import typer

from translate.errors import InputError, RunError

if TYPE_CHECKING:
    from translate.decoding import Translation


def open_lines(file: Path | None) -> Iterable[str]:
    """The lines of a file, read whole so that it is known to be good; or of standard input, as they come."""
    from translate.data.corpora import iterate_lines, read_lines

    if file is None or str(file) == "-":
        if sys.stdin is None:
            raise InputError("standard input is closed: name a file")
        return iterate_lines(sys.stdin.buffer, "standard input")
    return read_lines(file)


def require_pairs(first: Path, first_lines: list[str], second: Path, second_lines: list[str]) -> None:
    """Raise the InputError that says that two files have different numbers of lines, if they have."""
    if len(first_lines) != len(second_lines):
        raise InputError(
            f"{first} has {len(first_lines)} lines and {second} has {len(second_lines)}: they must pair line by line"
        )


def prompted(lines: Iterable[str]) -> Iterator[str]:
    """The same lines, each asked for with a prompt if a person is typing."""
    is_person = _is_terminal(sys.stdin) and _is_terminal(sys.stderr)
    remaining = iter(lines)
    while True:
        if is_person:
            typer.echo("> ", err=True, nl=False)
        try:
            yield next(remaining)
        except StopIteration:
            if is_person:
                typer.echo(err=True)  # what is said next does not follow the prompt
            return


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

    Raises:
        RunError: It cannot be written; as early as this is known.
    """
    temporary = path.with_name(path.name + ".part")
    with contextlib.ExitStack() as stack:
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
            temporary.replace(path)


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


def with_bar(translations: Iterable["Translation"], *, total: int | None) -> Iterable["Translation"]:
    """A progress bar on a terminal's stderr, unless the translations themselves go to the terminal."""
    if not _is_terminal(sys.stderr) or _is_terminal(sys.stdout):
        return translations
    from tqdm import tqdm

    return tqdm(translations, total=total, unit="line", file=sys.stderr, dynamic_ncols=True)


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()  # Python has none for a stream that is closed


def say(text: str) -> None:
    """Print what is not the result: on standard error."""
    typer.echo(text, err=True)
