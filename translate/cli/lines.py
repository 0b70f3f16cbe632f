"""Lines in, lines out: UTF-8 split on newlines alone, whatever the locale; and what is said beside them."""

import contextlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

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
    temporary = output.with_name(output.name + ".part")
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines)
        temporary.replace(output)
    except OSError as error:
        raise RunError(f"{output}: cannot be written: {error.strerror}") from error
    finally:  # whatever failed, also the reading; after a success there is none
        with contextlib.suppress(OSError):
            temporary.unlink()


def with_bar(translations: Iterable["Translation"], *, total: int | None) -> Iterable["Translation"]:
    """A progress bar on a terminal's stderr, unless the translations themselves go to the terminal."""
    if not sys.stderr.isatty() or sys.stdout.isatty():
        return translations
    from tqdm import tqdm

    return tqdm(translations, total=total, unit="line", file=sys.stderr, dynamic_ncols=True)


def say(text: str) -> None:
    """Print what is not the result: on standard error."""
    typer.echo(text, err=True)
