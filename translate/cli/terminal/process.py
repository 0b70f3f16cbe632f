"""The command line as a process: messages, standard streams, signals and exit codes."""

import atexit
import contextlib
import errno
import faulthandler
import gc
import io
import logging
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

import typer

from translate.cli.terminal.console import ConsoleHandler, fail, fail_interrupted
from translate.cli.terminal.help import CommandGroup, UsageError, explain_usage
from translate.cli.terminal.options import is_alone
from translate.errors import InputError, RunError
from translate.files import protect_inputs
from translate.memory import is_out_of_memory
from translate.messages import escaped

_HOME = re.compile(r"^(-[\w-]*=?|)~(?=/)")  # shells do not expand it after --output= or -o


class ReportingGroup(CommandGroup):
    """The whole command line: it prints log messages, and reports any error in one paragraph."""

    def make_context(self, info_name: str | None, args: list[str], *others: Any, **settings: Any) -> Any:
        """Parse the options before the command; with none, avoid typer's completion options, which load pydantic."""
        self.arguments = args = [_HOME.sub(lambda found: found[1] + os.path.expanduser("~"), word) for word in args]
        if args and not args[0].startswith("-"):
            self.add_help_option = False
            self.params = [option for option in self.params if not str(option.name).endswith("_completion")]
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
            with protect_inputs():
                return super().invoke(ctx)
        except UsageError as error:
            fail(explain_usage(error), 2)
        except (InputError, RunError) as error:
            fail(str(error), 2 if isinstance(error, InputError) else 1)
        except KeyboardInterrupt as error:
            fail_interrupted(error)
        except (OSError, RuntimeError, MemoryError, ImportError) as error:
            if is_out_of_memory(error):
                reason = str(error).split("\n")[0][:200] or "an allocation failed"
                fail(f"out of memory ({reason}): lower settings, give less text, or use a larger machine", 1)
            if isinstance(error, OSError):
                fail(f"{error.filename or 'a file or a stream'}: cannot be used ({error.strerror or error})", 1)
            if "shared object" in str(error):
                fail(f"a library cannot be loaded: {error}", 1)
            raise
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)


class _StandardStream(io.FileIO):
    """Standard output, whose failure ends a command, or standard error, whose failure does not."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if self.fileno() == 2:
                return len(data)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for Python's own output at exit
            if isinstance(error, BrokenPipeError):  # the reader, such as `head`, has finished
                raise SystemExit(141) from None
            fail(f"standard output: {'it is closed' if error.errno == errno.EBADF else error.strerror}", 1)


def run_command_line(app: Callable[..., object]) -> None:
    """Run a command as a process, and ask for a report of an unexpected exception; tests that call `app` see it."""
    atexit.register(gc.freeze)  # else Python searches torch's objects for garbage before it exits, for 0.15 s
    if os.name == "posix":
        _open_standard_streams()
        faulthandler.enable(2)  # a crash in native code then shows what Python was doing
        _end_by_signals()
    try:
        os.getcwd()  # without it, imports fail, and Intel's library of torch ends the process
    except OSError as error:
        fail(f"the working directory cannot be used ({error.strerror}): change to another one", 1)
    try:
        app(prog_name="translate")
    except KeyboardInterrupt as error:  # before the command has started
        fail_interrupted(error)
    except Exception as error:
        typer.echo(escaped("".join(traceback.format_exception(error))), err=True)
        bug = f"{type(error).__name__}: {error}".split("\n")[0]
        fail(f"this is a bug: {bug:.300}. Please report it with the lines above and `translate --version`", 70)


def _open_standard_streams() -> None:
    """Make standard output and error UTF-8 in any locale, and keep the numbers of closed streams occupied."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # takes the lowest free number
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = io.BufferedWriter(_StandardStream(number, "w", closefd=False))
        setattr(sys, name, io.TextIOWrapper(stream, "utf-8", "backslashreplace", line_buffering=True))


def _end_by_signals() -> None:
    """End the programs that a command runs, and remove temporary files, before SIGTERM or SIGHUP ends the process.

    The handler raises no exception, because a library could catch it. A signal that is ignored, as under `nohup`, stays
    ignored. Processes that work together keep the default: one that waits for another would never run its handler.
    """
    from translate.atomic import remove_own_temporaries
    from translate.children import end_programs

    def end(number: int, frame: FrameType | None) -> NoReturn:
        end_programs()
        remove_own_temporaries()
        with contextlib.suppress(OSError):
            os.write(2, f"translate: stopped by {signal.Signals(number).name}\n".encode())
        os._exit(128 + number)  # as in shells

    for number in (signal.SIGTERM, signal.SIGHUP) if is_alone() else ():
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, end)
