"""What a command prints beside its result: help in panels, messages, progress bars, and failures with exit codes."""

import contextlib
import errno
import gc
import io
import logging
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NoReturn, TextIO, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from translate.errors import InputError, RunError
from translate.messages import MessageFormatter, escaped
from translate.nearest import did_you_mean, nearest

Function = TypeVar("Function", bound=Callable[..., Any])
UsageError: type[Exception] = typer.BadParameter.__mro__[1]  # of typer, or of click below an older typer

_MAX_LINES = 10  # of an error


class _ReadableHelp:
    """Help that ends with its examples, one command a line, and that shows no type beside a flag."""

    help: str | None

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help in panels as wide as the terminal, and then the examples, whose lines are never broken."""
        for parameter in self.get_params(ctx):  # type: ignore[attr-defined]
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
                parameter.opts += [f"\n{name}" for name in parameter.secondary_opts]  # below, not in its own column
                parameter.secondary_opts = []
        whole = self.help or ""
        text, example, lines = whole.replace("\b\n", "").partition("\n\nExample")
        self.help = re.sub(r"(?<!\n)\n(?!\n)", " ", text)
        super().format_help(ctx, formatter)  # type: ignore[misc]
        self.help = whole
        if example:
            typer.echo(f" {example.strip()}{lines}".replace("\n", "\n "))


class Command(_ReadableHelp, TyperCommand):
    """A command."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command, with the garbage collector that its help did without."""
        gc.enable()
        return super().invoke(ctx)


class CommandGroup(_ReadableHelp, TyperGroup):
    """A group of commands."""


class Commands(typer.Typer):
    """A group to which commands are added: each explains itself with -h and in panels."""

    def __init__(self, *, cls: type[CommandGroup] = CommandGroup, **settings: Any) -> None:
        names = {"help_option_names": ["--help", "-h"]}
        super().__init__(
            cls=cls, no_args_is_help=True, context_settings=names, pretty_exceptions_enable=False, **settings
        )

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Function], Function]:
        """Make a function a command."""
        return super().command(name, cls=Command, **settings)


def explain_usage(error: Any) -> str:
    """Print how a command is used; return what is wrong, with the options or keys that were probably meant."""
    if type(error).__name__ == "NoArgsIsHelpError":  # the help is printed
        raise error
    wrong = getattr(error, "option_name", None)
    message = error.message if wrong else error.format_message().replace("Value error, ", "")
    message = message[0].lower() + message[1:].rstrip(".").replace(". Did", "; did")
    if choice := re.search(r"'([^']*)' is not one of (.*)", message):
        from translate.config.errors import suggested_choice

        message += suggested_choice(*choice.groups())
    if error.ctx is None:
        return message
    if wrong:
        parameters = error.ctx.command.get_params(error.ctx)
        meant = nearest(wrong, [name for parameter in parameters for name in parameter.opts if name[:2] == "--"])
        if not meant and any(parameter.name == "overrides" for parameter in parameters):
            from translate.config.errors import nearest_keys

            meant = [f"{key}=…" for key in nearest_keys(wrong.lstrip("-").replace("-", "_"))]
        message += did_you_mean(meant)
    typer.echo(f"{error.ctx.get_usage()}\nTry '{error.ctx.command_path} --help' for help.", err=True)
    return message


class ConsoleHandler(logging.Handler):
    """Prints bare messages on standard error, above a progress bar if there is one.

    The stream is looked up for each message, so that redirected output is respected. A record's `bold` and `dim` are
    the beginning and the end of its message that a terminal shows so.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(MessageFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        text, bold, dim = self.format(record), getattr(record, "bold", ""), getattr(record, "dim", "")
        if record.levelno >= logging.WARNING:
            label, _, message = text.partition(" ")
            text = f"{typer.style(label, fg='yellow' if record.levelno == logging.WARNING else 'red')} {message}"
        elif bold or dim:
            middle = text.removeprefix(bold).removesuffix(dim)
            text = f"{bold and typer.style(bold, bold=True)}{middle}{dim and typer.style(dim, dim=True)}"
        with without_bar():
            typer.echo(text, err=True, color=has_colour(sys.stderr))


class ReportingGroup(CommandGroup):
    """The whole command line: it prints what the package logs, and ends errors of any command in one paragraph."""

    def make_context(self, info_name: str | None, args: list[str], *others: Any, **settings: Any) -> Any:
        """Read the options before the command; where there is none, typer would load pydantic to find that out."""
        if args and not args[0].startswith("-"):
            self.add_help_option = False
            self.params = [each for each in self.params if not str(each.name).endswith("_completion")]
        try:
            return super().make_context(info_name, args, *others, **settings)
        except UsageError as error:
            fail(explain_usage(error), 2)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; the exit code is 2 for wrong input, and 1 for what failed later."""
        logger, handler = logging.getLogger("translate"), ConsoleHandler()
        level = logger.level
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        try:
            os.getcwd()  # Without a working directory some libraries end the process.
            return super().invoke(ctx)
        except UsageError as error:
            fail(explain_usage(error), 2)
        except (InputError, RunError) as error:
            fail(str(error), 2 if isinstance(error, InputError) else 1)
        except KeyboardInterrupt as error:
            fail_interrupted(error)
        except (OSError, EOFError) as error:
            if getattr(error, "filename", None) is not None:
                fail(str(error), 1)
            if isinstance(error, FileNotFoundError):
                fail("the working directory has been deleted: change to another one", 1)
            raise RuntimeError(repr(error)) from error  # which typer does not take for a closed terminal or pipe
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)


class Interrupted(KeyboardInterrupt):
    """SIGTERM or SIGHUP has come."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.exit_code = 128 + number  # as in shells


class _StandardStream(io.FileIO):
    """Standard output, without which a command ends, or standard error, without which it goes on."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if self.fileno() == 2:
                return len(data)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what Python writes when it ends
            if isinstance(error, BrokenPipeError):  # the reader, such as `head`, has all that it wanted
                raise SystemExit(141) from None
            fail(f"standard output: {'it is closed' if error.errno == errno.EBADF else error.strerror}", 1)


def run_command_line(app: Callable[..., object]) -> None:
    """Run a command in a process of its own, and end whatever no command has foreseen in one paragraph too.

    Tests that call `app` itself see an unforeseen exception as it is.
    """
    gc.disable()  # until a command runs: it takes a tenth of the time of --help, and finds nothing
    if os.name == "posix":
        _open_standard_streams()
        _end_by_signals()
    try:
        app(prog_name="translate")
    except KeyboardInterrupt as error:  # before the command has begun
        fail_interrupted(error)
    except Exception as error:
        _fail_unforeseen(error)


def _open_standard_streams() -> None:
    """Make standard output and error UTF-8 whatever the locale, and let no file have the number of a closed one."""
    nowhere = "/dev/full" if os.path.exists("/dev/full") else os.devnull  # full also under the name of /dev/stdout
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(nowhere, os.O_RDONLY)  # gets the lowest free number
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = io.BufferedWriter(_StandardStream(number, "w", closefd=False))
        setattr(sys, name, io.TextIOWrapper(stream, "utf-8", "backslashreplace", line_buffering=True))


def _end_by_signals() -> None:
    """Let a command remove its temporary files before SIGTERM or SIGHUP ends it.

    Without any it ends at once, since an exception in the middle of an import would be lost or become another one.
    A signal that is ignored, as under `nohup`, stays so. Processes that work together end at once: one that waits for
    another would not come to its handler.
    """
    from translate.atomic import TEMPORARY_NAMES

    numbers = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) == signal.SIG_DFL]

    def interrupt(number: int, frame: FrameType | None) -> None:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)  # `timeout` sends two: the second must not interrupt the removal
        stopped = Interrupted(number)
        if TEMPORARY_NAMES:
            raise stopped
        with contextlib.suppress(OSError):
            os.write(2, f"translate: {stopped}\n".encode())
        os._exit(stopped.exit_code)

    def end_at_once(ignored: Any) -> None:
        """End the command where Python would only print the exception, as in a callback of an import."""
        if isinstance(ignored.exc_value, KeyboardInterrupt):
            os._exit(getattr(ignored.exc_value, "exit_code", 130))
        sys.__unraisablehook__(ignored)

    sys.unraisablehook = end_at_once
    for number in numbers if os.environ.get("WORLD_SIZE", "1") == "1" else []:
        signal.signal(number, interrupt)


def _fail_unforeseen(error: Exception) -> NoReturn:
    """Save the traceback, and print what a report of the bug needs."""
    import tempfile
    import traceback

    from translate.versions import package_versions

    name, command = f"{type(error).__name__}: {error}".split("\n")[0], shlex.join(["translate", *sys.argv[1:]])
    versions, where = "unknown", "could not be saved"
    with contextlib.suppress(ImportError, OSError):  # a package is missing; the disk is full
        versions = ", ".join(map(" ".join, package_versions().items()))
        descriptor, path = tempfile.mkstemp(prefix="translate-bug-", suffix=".txt")
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write("\n".join((command, versions, "", *traceback.format_exception(error))))
        where = f"is in {path}"
    bug = f"this is a bug: {name:.300}. Please report it; its traceback {where}"
    fail(f"{bug}. Command: {command:.300}. Versions: {versions}", 70)


def fail(message: str, code: int) -> NoReturn:
    """Print the first lines of what went wrong, and end the command."""
    lines = escaped(message).split("\n")
    if len(lines) > _MAX_LINES:
        lines[_MAX_LINES:] = [f"… and {len(lines) - _MAX_LINES:,} more lines"]
    name = typer.style("translate:", fg="red" if code < 128 else "yellow")
    typer.echo(" ".join((name, "\n".join(lines))), err=True, color=has_colour(sys.stderr))
    raise SystemExit(code)


def fail_interrupted(error: KeyboardInterrupt, hint: str = "") -> NoReturn:
    """End a command that Ctrl-C or a signal has interrupted."""
    fail(f"{str(error) or 'interrupted'}{hint}", getattr(error, "exit_code", 130))


@contextlib.contextmanager
def line_bar(total: int | None, *, is_hidden: bool = False) -> Iterator[Callable[[int], object]]:
    """A context with a bar on a terminal's standard error, which is cleared in the end; yields what advances it.

    Args:
        total: The number of lines; None: it is not known.
    """
    from tqdm import tqdm

    speed = "{rate_noinv_fmt}, {remaining} left" if total else "{rate_noinv_fmt}"
    counts = "{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} lines" if total else "{n_fmt} lines"
    with tqdm(
        total=total,
        unit=" lines",
        file=sys.stderr,
        dynamic_ncols=True,
        leave=False,
        smoothing=0.03,  # over some seconds: sentences of similar length finish together
        bar_format=f"{counts} [{speed}]",
        disable=is_hidden or not is_terminal(sys.stderr),
    ) as bar:
        yield bar.update


def without_bar() -> contextlib.AbstractContextManager[None]:
    """A context without the bar, if there is one, in which to print on a terminal."""
    tqdm = sys.modules.get("tqdm")  # whoever has not imported it has no bar
    return tqdm.tqdm.external_write_mode(file=sys.stderr) if tqdm else contextlib.nullcontext()


@contextlib.contextmanager
def showing_activity() -> Iterator[Callable[[str], None]]:
    """A context whose function shows on a terminal what is being done, in one line that is cleared in the end."""

    def show(text: str) -> None:
        if is_terminal(sys.stderr):
            typer.echo(f"\r\x1b[K{escaped(text)}{' …' if text else ''}", err=True, nl=False)

    try:
        yield show
    finally:
        show("")


def has_colour(stream: TextIO | None) -> bool:
    """Whether text on a stream is coloured: on terminals, unless NO_COLOR or FORCE_COLOR of the environment decides."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (is_terminal(stream) and os.environ.get("TERM") != "dumb")


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal; a closed stream is None, and is not."""
    return stream is not None and stream.isatty()
