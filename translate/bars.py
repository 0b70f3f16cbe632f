"""How far long work is: a bar on a terminal, and elsewhere a line in the log every minute."""

import contextlib
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from translate.messages import escaped

logger = logging.getLogger(__name__)

Advance = Callable[[int], object]
"""Adds a number to what is done."""


def show_progress(
    work: str, total: int | None = None, *, unit: str = "", is_hidden: bool = False
) -> contextlib.AbstractContextManager[Advance]:
    """A context that shows how far some work is, wherever messages are shown; it yields what counts the work.

    A separate thread writes the log lines. On a terminal only the main thread has bars.

    Args:
        total: How much there is to do; None: not known.
        unit: What is counted, such as "lines"; empty: nothing is.
    """
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    is_background = threading.current_thread() is not threading.main_thread()
    if is_hidden or not logger.isEnabledFor(logging.INFO) or (is_terminal and is_background):
        return contextlib.nullcontext(lambda number: None)
    return (_bar if is_terminal else _lines)(work, total, unit)


@contextlib.contextmanager
def _bar(work: str, total: int | None, unit: str) -> Iterator[Advance]:
    from tqdm import tqdm  # only here, because importing it takes time

    counts, left = ("{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}", ", {remaining} left") if total else ("{n_fmt}", "")
    form = f"{{desc}}: {counts} {unit} [{{rate_noinv_fmt}}{left}]" if unit else "{desc} …"
    # Smoothed over several seconds: sentences of similar length finish together.
    settings: dict[str, Any] = {"file": sys.stderr, "dynamic_ncols": True, "leave": False, "smoothing": 0.03}
    with tqdm(desc=escaped(work), total=total, unit=f" {unit}", bar_format=form, **settings) as bar:
        yield bar.update


@contextlib.contextmanager
def _lines(work: str, total: int | None, unit: str) -> Iterator[Advance]:
    num_done = 0

    def advance(number: int) -> None:
        nonlocal num_done
        num_done += number

    def log() -> None:
        for minutes in count(1):
            if wait_a_minute(is_over):
                return
            done = f": {num_done:,}{f' of {total:,}' if total else ''} {unit}" if unit else ""
            logger.info(f"{work}, {minutes} minute{'s' * (minutes > 1)} so far{done}")

    is_over, thread = threading.Event(), threading.Thread(target=log, daemon=True)
    thread.start()
    try:
        yield advance
    finally:
        is_over.set()
        thread.join()


def wait_a_minute(is_over: threading.Event) -> bool:
    """Wait for the end of some work, for a minute at most; returns whether it has ended."""
    return is_over.wait(60.0)
