"""What a command prints beside its result: messages, progress bars, and failures that end in an exit code."""

import contextlib
import logging
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn, TextIO, TypeVar

import typer
from typer.core import TyperGroup

from translate.errors import InputError, RunError

Item = TypeVar("Item")


class ConsoleHandler(logging.Handler):
    """Prints bare messages on standard error, above a progress bar if there is one.

    The stream is looked up for each message, so that redirected output is respected.
    """

    def emit(self, record: logging.LogRecord) -> None:
        tqdm = sys.modules.get("tqdm")  # whoever has not imported it has no bar
        with tqdm.tqdm.external_write_mode(file=sys.stderr) if tqdm else contextlib.nullcontext():
            typer.echo(self.format(record), err=True)


class ReportingGroup(TyperGroup):
    """The whole command line: it prints what the package logs, and ends errors of any command in one paragraph."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; the exit code is 2 for wrong input, and 1 for what failed later."""
        logger, handler = logging.getLogger("translate"), ConsoleHandler()
        level = logger.level
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        try:
            return super().invoke(ctx)
        except (InputError, RunError) as error:
            fail(str(error), 2 if isinstance(error, InputError) else 1)
        except KeyboardInterrupt:
            fail("interrupted", 130)
        except OSError as error:
            if error.filename is None:  # standard output has failed, and would again when Python closes it
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if isinstance(error, BrokenPipeError):  # the reader, such as `head`, has all that it wanted
                raise typer.Exit(141) from None
            fail(str(error), 1)
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)


def fail(message: str, code: int) -> NoReturn:
    """Print what went wrong and end the command."""
    typer.echo(f"translate: {message}", err=True)
    raise typer.Exit(code)


def with_bar(items: Iterable[Item], *, total: int | None) -> Iterable[Item]:
    """Show a progress bar on a terminal's standard error, unless the result itself is printed on the terminal."""
    if not is_terminal(sys.stderr) or is_terminal(sys.stdout):
        return items
    from tqdm import tqdm

    return tqdm(items, total=total, unit="line", file=sys.stderr, dynamic_ncols=True)


def prompted(lines: Iterable[Item]) -> Iterator[Item]:
    """Yield the same lines, and print a prompt for each if a person is typing."""
    prompt = "> " if is_terminal(sys.stdin) and is_terminal(sys.stderr) else ""
    typer.echo(prompt, err=True, nl=False)
    for line in lines:
        yield line
        typer.echo(prompt, err=True, nl=False)
    if prompt:
        typer.echo(err=True)  # the next message does not follow the prompt


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal; a closed stream is None, and is not."""
    return stream is not None and stream.isatty()
