"""Console output in addition to a command's result: messages, and the error that ends it."""

import contextlib
import logging
import os
import sys
from typing import NoReturn, TextIO

import typer

from translate.messages import MessageFormatter, escaped

_MAX_LINES = 10  # per error


class ConsoleHandler(logging.Handler):
    """Prints bare messages on standard error, above the progress bar if there is one.

    The stream is looked up for each message, so redirection works. A record's `bold` and `dim` are the start and the
    end of its message, which a terminal shows in that style.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(MessageFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        text, bold, dim = self.format(record), getattr(record, "bold", ""), getattr(record, "dim", "")
        colour = {logging.WARNING: "yellow", logging.ERROR: "red"}.get(record.levelno)
        label = bold or (text.partition(" ")[0] if colour else "")
        middle = text.removeprefix(label).removesuffix(dim)
        label = label and typer.style(label, fg=colour, bold=bool(bold) or None)
        text = f"{label}{middle}{dim and typer.style(dim, dim=True)}"
        with without_bar():
            typer.echo(text, err=True, color=has_colour(sys.stderr))


def show_only(*modules: str) -> None:
    """Print messages of these modules, progress, warnings and errors for the rest of the command, and nothing else."""
    shown = {*modules, "translate.bars"}
    for handler in logging.getLogger("translate").handlers:
        if isinstance(handler, ConsoleHandler):
            handler.addFilter(lambda each: each.name in shown or each.levelno >= logging.WARNING)


def fail(message: str, code: int) -> NoReturn:
    """Print the first lines of an error message, and exit."""
    lines = escaped(message).split("\n")
    if len(lines) > _MAX_LINES:
        lines[_MAX_LINES:] = [f"… and {len(lines) - _MAX_LINES:,} more lines"]
    name = typer.style("translate:", fg="red" if code < 128 else "yellow")
    typer.echo(" ".join((name, "\n".join(lines))), err=True, color=has_colour(sys.stderr))
    raise SystemExit(code)


def fail_interrupted(error: KeyboardInterrupt, hint: str = "") -> NoReturn:
    """Exit after Ctrl-C or a signal."""
    fail(f"{str(error) or 'interrupted'}{hint}", getattr(error, "exit_code", 130))


def without_bar() -> contextlib.AbstractContextManager[None]:
    """A context for printing on a terminal, in which the progress bar is cleared."""
    tqdm = sys.modules.get("tqdm")  # without it there is no bar
    return tqdm.tqdm.external_write_mode(file=sys.stderr) if tqdm else contextlib.nullcontext()


def has_colour(stream: TextIO | None) -> bool:
    """Whether to colour text on a stream: on terminals, unless the variables NO_COLOR or FORCE_COLOR decide."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (is_terminal(stream) and os.environ.get("TERM") != "dumb")


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal; None is a closed stream."""
    return stream is not None and stream.isatty()
