"""Console output in addition to a command's result: messages, progress bars, and the error that ends it."""

import contextlib
import logging
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TextIO

import typer

from translate.messages import MessageFormatter, escaped

_MAX_LINES = 10  # per error


class ConsoleHandler(logging.Handler):
    """Prints bare messages on standard error, above the progress bar if there is one.

    The stream is looked up for each message, so that redirection works. A record's `bold` and `dim` are the start and
    the end of its message, which a terminal shows in that style.
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


@contextlib.contextmanager
def line_bar(total: int | None, *, is_hidden: bool = False) -> Iterator[Callable[[int], object]]:
    """A context with a progress bar on standard error, if that is a terminal; yields the function that advances it."""
    speed = "{rate_noinv_fmt}, {remaining} left" if total else "{rate_noinv_fmt}"
    counts = "{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} lines" if total else "{n_fmt} lines"
    # Smoothed over several seconds: sentences of similar length finish together.
    with _bar(f"{counts} [{speed}]", is_hidden=is_hidden, total=total, unit=" lines", smoothing=0.03) as bar:
        yield bar.update


def without_bar() -> contextlib.AbstractContextManager[None]:
    """A context for printing on a terminal, in which the progress bar is cleared."""
    tqdm = sys.modules.get("tqdm")  # without it there is no bar
    return tqdm.tqdm.external_write_mode(file=sys.stderr) if tqdm else contextlib.nullcontext()


@contextlib.contextmanager
def showing_activity() -> Iterator[Callable[[str], None]]:
    """A context whose function shows the current activity on a terminal, in one line that is cleared at the end."""
    with _bar("{desc}") as line:
        yield lambda text: line.set_description_str(escaped(f"{text} …"))


def _bar(form: str, *, is_hidden: bool = False, **settings: Any) -> Any:
    from tqdm import tqdm

    is_hidden = is_hidden or not is_terminal(sys.stderr)
    return tqdm(file=sys.stderr, dynamic_ncols=True, leave=False, bar_format=form, disable=is_hidden, **settings)


def has_colour(stream: TextIO | None) -> bool:
    """Whether to colour text on a stream: on terminals, unless the variables NO_COLOR or FORCE_COLOR decide."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (is_terminal(stream) and os.environ.get("TERM") != "dumb")


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal; None is a closed stream."""
    return stream is not None and stream.isatty()
