"""The command line as a process: messages, standard streams, signals and exit codes."""

import atexit
import contextlib
import errno
import faulthandler
import gc
import io
import itertools
import logging
import os
import re
import select
import shlex
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

from translate.cli.terminal.console import ConsoleHandler, fail, fail_interrupted
from translate.cli.terminal.help import CommandGroup, UsageError, explain_usage
from translate.cli.terminal.options import is_alone
from translate.errors import InputError, RunError
from translate.files import protect_inputs
from translate.memory import is_out_of_memory

_HOME = re.compile(r"^(-[\w-]*=?|)~(?=/)")  # shells do not expand it after --output= or -o


class ReportingGroup(CommandGroup):
    """The whole command line: it prints log messages, and reports any error in one paragraph."""

    def make_context(self, info_name: str | None, args: list[str], *others: Any, **settings: Any) -> Any:
        """Parse the options before the command; with none, avoid typer's completion options, which load pydantic."""
        self.arguments = args = [_HOME.sub(lambda found: found[1] + os.path.expanduser("~"), each) for each in args]
        if args and not args[0].startswith("-"):
            self.add_help_option = False
            self.params = [each for each in self.params if not str(each.name).endswith("_completion")]
        try:
            return super().make_context(info_name, args, *others, **settings)
        except UsageError as error:
            fail(explain_usage(error), 2)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; the exit code is 2 for wrong input, and 1 for a failure while running."""
        logger, handler = logging.getLogger("translate"), ConsoleHandler()
        level = logger.level
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        try:
            os.getcwd()  # Some libraries abort without a working directory.
            with protect_inputs():
                return super().invoke(ctx)
        except UsageError as error:
            fail(explain_usage(error), 2)
        except (InputError, RunError) as error:
            fail(str(error), 2 if isinstance(error, InputError) else 1)
        except KeyboardInterrupt as error:
            fail_interrupted(error)
        except (OSError, EOFError, RuntimeError, MemoryError) as error:
            if is_out_of_memory(error):
                reason = str(error).split("\n")[0][:200] or "an allocation failed"
                fail(f"out of memory ({reason}): lower settings, give less text, or use a larger machine", 1)
            if isinstance(error, RuntimeError | MemoryError):
                raise
            if isinstance(error, OSError) and error.filename is not None:
                fail(f"{error.filename}: cannot be used ({error.strerror})", 1)
            if isinstance(error, FileNotFoundError):
                fail("the working directory has been deleted: change to another one", 1)
            raise RuntimeError(repr(error)) from error  # typer would treat it as a closed terminal or pipe
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)


class Interrupted(KeyboardInterrupt):
    """SIGTERM or SIGHUP was received."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.exit_code = 128 + number  # as in shells


class _StandardStream(io.FileIO):
    """Standard output, whose failure ends a command, or standard error, whose failure does not."""

    def write(self, data: Any) -> int:
        write: Callable[[Any], int | None] = super().write
        try:
            while (written := write(data)) is None:  # a pipe that does not block is full
                select.select([], [self], [])
            return written
        except OSError as error:
            if self.fileno() == 2:
                return len(data)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for Python's own output at exit
            if isinstance(error, BrokenPipeError):  # the reader, such as `head`, has finished
                raise SystemExit(141) from None
            fail(f"standard output: {'it is closed' if error.errno == errno.EBADF else error.strerror}", 1)


def run_command_line(app: Callable[..., object]) -> None:
    """Run a command as a process, and report unexpected exceptions in one paragraph too.

    Tests that call `app` itself see the exception.
    """
    atexit.register(gc.freeze)  # else Python searches torch's objects for garbage before it exits, for 0.15 s
    if os.name == "posix":
        _open_standard_streams()
        faulthandler.enable(2)  # a crash in native code then shows what Python was doing
        _end_by_signals()
    try:
        app(prog_name="translate")
    except KeyboardInterrupt as error:  # before the command has started
        fail_interrupted(error)
    except Exception as error:
        _fail_unforeseen(error)


def _open_standard_streams() -> None:
    """Make standard output and error UTF-8 in any locale, and keep the numbers of closed streams occupied."""
    nowhere = "/dev/full" if os.path.exists("/dev/full") else os.devnull  # so that /dev/stdout is full too
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(nowhere, os.O_RDONLY)  # takes the lowest free number
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = io.BufferedWriter(_StandardStream(number, "w", closefd=False))
        setattr(sys, name, io.TextIOWrapper(stream, "utf-8", "backslashreplace", line_buffering=True))


def _end_by_signals() -> None:
    """Let a command remove its temporary files before SIGTERM or SIGHUP ends it.

    Without such files it exits immediately, because an exception raised during an import could get lost. A signal that
    is ignored, as under `nohup`, stays ignored. Processes that work together exit immediately: one that waits for
    another would never run its handler.
    """
    from translate.atomic import TEMPORARY_NAMES

    numbers = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) == signal.SIG_DFL]

    def interrupt(number: int, frame: FrameType | None) -> None:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)  # `timeout` sends two; the second must not interrupt the removal
        stopped = Interrupted(number)
        if TEMPORARY_NAMES:
            raise stopped
        with contextlib.suppress(OSError):
            os.write(2, f"translate: {stopped}\n".encode())
        os._exit(stopped.exit_code)

    def end_at_once(ignored: Any) -> None:
        """Exit where Python would only print the exception, as in a callback of an import."""
        if isinstance(ignored.exc_value, KeyboardInterrupt):
            os._exit(getattr(ignored.exc_value, "exit_code", 130))
        sys.__unraisablehook__(ignored)

    sys.unraisablehook = end_at_once
    for number in numbers if is_alone() else []:
        signal.signal(number, interrupt)


def _fail_unforeseen(error: Exception) -> NoReturn:
    """Save the traceback, and print what a bug report needs."""
    import tempfile
    import traceback

    from translate._version import package_versions

    name, words = f"{type(error).__name__}: {error}".split("\n")[0], ["translate", *sys.argv[1:]]
    shown = (
        "…" if last == "--token" else re.sub("(?<=^--token=).*", "…", each) for last, each in itertools.pairwise(words)
    )
    command = shlex.join(["translate", *shown])
    versions, where = "unknown", "could not be saved"
    with contextlib.suppress(ImportError, OSError):  # a package is missing, or the disk is full
        versions = ", ".join(map(" ".join, package_versions().items()))
        descriptor, path = tempfile.mkstemp(prefix="translate-bug-", suffix=".txt")
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write("\n".join((command, versions, "", *traceback.format_exception(error))))
        where = f"is in {path}"
    bug = f"this is a bug: {name:.300}. Please report it; the traceback {where}"
    fail(f"{bug}. Command: {command:.300}. Versions: {versions}", 70)
