"""Without a terminal, the log says every minute how far long work is, counted or not."""

import logging
import queue
import threading

import pytest

from translate import bars
from translate.bars import show_progress


class Clock:
    """Minutes pass when the test says so, and `pass_a_minute` returns when all that is due is logged."""

    def __init__(self) -> None:
        self.minutes, self.waiting = queue.Queue[None](), queue.Queue[None]()

    def wait_a_minute(self, is_over: threading.Event) -> bool:
        self.waiting.put(None)
        while not is_over.is_set():
            try:
                self.minutes.get(timeout=0.01)
            except queue.Empty:
                continue
            return False
        return True

    def pass_a_minute(self) -> None:
        self.waiting.get()
        self.minutes.put(None)
        self.waiting.get()
        self.waiting.put(None)  # for the next call


@pytest.mark.parametrize(
    ("total", "unit", "expected"),
    [
        (
            9000,
            "lines",
            ["Encoding, 1 minute so far: 1,200 of 9,000 lines", "Encoding, 2 minutes so far: 3,000 of 9,000 lines"],
        ),
        (None, "", ["Encoding, 1 minute so far", "Encoding, 2 minutes so far"]),
    ],
)
def test_one_line_per_minute(
    total: int | None, unit: str, expected: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    monkeypatch.setattr(bars, "wait_a_minute", clock.wait_a_minute)
    caplog.set_level(logging.INFO, "translate")
    with show_progress("Encoding", total, unit=unit) as advance:
        advance(1200)
        assert caplog.messages == []
        clock.pass_a_minute()
        advance(1800)
        clock.pass_a_minute()
        assert caplog.messages == expected
    assert caplog.messages == expected, "and nothing at the end"


def test_nothing_where_no_messages_are_shown() -> None:
    num_threads = threading.active_count()
    with show_progress("Encoding", 10, unit="lines") as advance:
        advance(10)
        assert threading.active_count() == num_threads
