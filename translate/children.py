"""Programs that a command runs: they end when the command does, and the death of one is an error with a reason."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence

from translate.errors import RunError

_running: list[subprocess.Popen[bytes]] = []


def run_program(command: Sequence[str]) -> bytes:
    """Run a program with an empty standard input, and return what it prints.

    The program leads a session of its own, whose other processes are ended after it.

    Raises:
        RunError: It cannot be started, a signal ends it, or it fails; the message has the last line that it printed.
    """
    pipe = subprocess.PIPE
    try:
        child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)
    except OSError as error:  # such as a file that is not a program
        raise RunError(f"{command[0]} cannot be run: {error.strerror or error}") from error
    with child:
        _running.append(child)
        try:
            output, errors = child.communicate()
        finally:
            _end(child)
            _running.remove(child)
    if (code := child.returncode) < 0:
        raise RunError(f"{command[0]} was ended by a signal ({signal.strsignal(-code)})")
    if code:
        printed = (errors.strip() or output.strip() or b"it printed nothing").decode(errors="replace")
        raise RunError(f"{command[0]} failed with exit code {code}: {printed.splitlines()[-1]}")
    return output


def end_programs() -> None:
    """End the programs that this process is running."""
    for child in _running:
        _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill a program and the processes that it has started."""
    with contextlib.suppress(OSError, AttributeError):  # all have ended; or this is Windows, which has no sessions
        os.killpg(child.pid, signal.SIGKILL)
    child.kill()
