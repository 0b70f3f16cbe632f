"""Signals that stop a training run: recorded when they arrive, and handled between two steps."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from torch import nn

from translate.distributed.process_group import Cancelled, SilentExit, World

_STOPPING_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")  # SIGHUP: the terminal is closed; Windows does not have it


class StoppedBySignal(KeyboardInterrupt):
    """Raised when a training run ends early because of a signal; it is saved and can be resumed."""

    def __init__(self, number: signal.Signals, *, step: int) -> None:
        super().__init__(f"stopped by {number.name} after step {step}")
        self.step = step
        self.exit_code = 128 + number  # as in shells: 130, 143 or 129


class StopRequests:
    """Records the first signal that asks a training run to stop, so no step or file is left half done.

    From then on SIGINT has its default effect: the process ends at once.
    """

    received: signal.Signals | None = None

    @contextlib.contextmanager
    def listening(self) -> Iterator["StopRequests"]:
        """A context in which signals are recorded; outside the main thread, where Python cannot, it does nothing."""
        before = {}
        for name in _STOPPING_SIGNALS if threading.current_thread() is threading.main_thread() else ():
            number = getattr(signal, name, None)
            # A signal that is ignored, as under `nohup`, or that has a handler outside Python, stays as it is.
            if number is not None and signal.getsignal(number) not in (None, signal.SIG_IGN):
                before[number] = signal.signal(number, self._receive)
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def cancelling(self, module: nn.Module) -> Iterator[None]:
        """A context where a recorded signal ends all work that calls the module, in every thread that calls it.

        It raises `Cancelled`. The signal handler cannot, because a thread pool or a lock may be half changed then.
        """

        def check(module: nn.Module, inputs: object) -> None:
            if self.received is not None:
                raise Cancelled

        with module.register_forward_pre_hook(check):
            yield

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if signal.getsignal(signal.SIGINT) == self._receive:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        if self.received is None:
            self.received = signal.Signals(number)


@contextlib.contextmanager
def interrupted_together(world: World) -> Iterator[None]:
    """A context whose interruption only rank 0 reports; the other ranks exit silently after it."""
    try:
        yield
    except KeyboardInterrupt as stop:
        if world.is_main_process:
            raise
        raise SilentExit(stop.exit_code if isinstance(stop, StoppedBySignal) else 130) from stop
