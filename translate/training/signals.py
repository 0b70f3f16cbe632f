"""SIGINT and SIGTERM end a training after its step, and save it; a second Ctrl-C ends the process at once."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from torch import nn


class StoppedBySignal(KeyboardInterrupt):
    """Raised when a training ends early because of a signal; it is saved and can be continued."""

    def __init__(self, number: signal.Signals, *, step: int) -> None:
        super().__init__(f"stopped by {number.name} after step {step}")
        self.number = number
        self.step = step

    @property
    def exit_code(self) -> int:
        """128 plus the signal's number, as in shells: 130 or 143."""
        return 128 + self.number


class Abandoned(BaseException):
    """Raised in work that is left undone because the training stops."""


class StopRequests:
    """Receives the signals that ask a training to stop.

    The first signal is only noted, so that a step or a file is never left half done. From then on SIGINT has the
    operating system's own meaning: the process ends at once, whatever it is computing or writing.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """A context in which signals are noted; outside of the main thread Python cannot, and it does nothing."""
        before = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                handler = signal.getsignal(number)
                # A signal that is ignored, as by `nohup`, or that has a handler outside of Python, stays as it is.
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
        """A context in which a noted signal ends all work that calls the module, in each thread that does so.

        The work ends between two computations. An exception raised by a signal's handler itself could strike where a
        thread pool or a lock is half changed.

        Raises:
            Abandoned: A signal was noted.
        """

        def check(module: nn.Module, inputs: object) -> None:
            if self.received is not None:
                raise Abandoned

        handle = module.register_forward_pre_hook(check)
        try:
            yield
        finally:
            handle.remove()

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if signal.getsignal(signal.SIGINT) == self._receive:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        if self.received is None:
            self.received = signal.Signals(number)
