"""How a command fails: a paragraph on standard error and an exit code, never a traceback."""

import functools
import os
import sys
from collections.abc import Callable
from typing import NoReturn, ParamSpec

import typer

from translate.errors import InputError, RunError

Parameters = ParamSpec("Parameters")


def tells_errors(command: Callable[Parameters, None]) -> Callable[Parameters, None]:
    """A command whose failures are a paragraph and an exit code: 2 for wrong input, 1 for what failed while running."""

    @functools.wraps(command)
    def told(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except InputError as error:
            fail(str(error), 2)
        except RunError as error:
            fail(str(error), 1)
        except KeyboardInterrupt:
            fail("interrupted", 130)
        except BrokenPipeError:  # the reader, such as `head`, has what it wanted
            _abandon_output()
            raise typer.Exit(141) from None
        except OSError as error:
            if error.filename is None:  # such as a full disk behind standard output
                _abandon_output()
            fail(str(error), 1)

    return told


def _abandon_output() -> None:
    """Lead standard output nowhere, else Python fails once more when it closes it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def fail(message: str, code: int) -> NoReturn:
    """Say what went wrong and end the command."""
    typer.echo(f"translate: {message}", err=True)
    raise typer.Exit(code)
