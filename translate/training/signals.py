"""SIGINT and SIGTERM as a training takes them: it finishes its step and saves; a second Ctrl-C leaves at once."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from torch import nn


class StoppedBySignal(KeyboardInterrupt):
    """A training ended early because a signal asked for it; all of it that can be continued is saved."""

    def __init__(self, number: signal.Signals, *, step: int) -> None:
        super().__init__(f"stopped by {number.name} after step {step}")
        self.number = number
        self.step = step

    @property
    def exit_code(self) -> int:
        """130 or 143: 128 and the signal's number, as shells have it."""
        return 128 + self.number


class Abandoned(BaseException):
    """Raised out of work that is left undone because the training is to stop."""


class StopRequests:
    """Whether somebody has asked a training to stop.

    The first request only takes note, so that a step or a file is never left half done. From then on SIGINT has the
    operating system's own meaning: the process ends at once, whatever it is computing or writing.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None

    @contextlib.contextmanager
    def heard(self) -> Iterator[None]:
        """Within the context, signals are requests; not in another thread than the main one, where Python has none."""
        before = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                handler = signal.getsignal(number)
                # Ignored, as `nohup` or a shell's `&` may do, or a handler that is not Python's: left as it is.
                if handler is not None and handler is not signal.SIG_IGN:
                    before[number] = handler
        try:
            for number in before:
                signal.signal(number, self._receive)
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def abandoning(self, module: nn.Module) -> Iterator[None]:
        """Within the context, a request ends whatever calls the module, in each thread that does.

        So all that runs ends by itself, between two computations: an exception out of a signal's handler could strike
        where a thread pool or a lock is half changed.

        Raises:
            Abandoned: There is a request.
        """

        def look(module: nn.Module, inputs: object) -> None:
            if self.received is not None:
                raise Abandoned

        handle = module.register_forward_pre_hook(look)
        try:
            yield
        finally:
            handle.remove()

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if signal.getsignal(signal.SIGINT) == self._receive:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        if self.received is None:
            self.received = signal.Signals(number)
