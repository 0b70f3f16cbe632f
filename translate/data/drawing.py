"""Segmentations drawn for an epoch: of many lines by processes of their own, beside the training.

Drawing is work of Python's. In a thread it would hold Python's lock, for which each operation of a training step would
wait. Who draws changes nothing: each part of the lines has its own seed.
"""

import contextlib
import json
import os
import subprocess
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

import numpy as np

from translate.data.drawing_worker import pack_lines, receive_parts, send_parts
from translate.data.token_store import IdChunk, flatten, id_type
from translate.data.tokenizer import Tokenizer

_LEAST_LINES = 20_000  # for fewer, starting processes takes as long as drawing
_MOST_PROCESSES = 8  # each remembers up to 150 MB of words


class Part(NamedTuple):
    """Lines for which one generator draws."""

    tokenizer: Tokenizer
    lines: list[str]
    seed: int


class Drawer:
    """Draws segmentations, again and again; its processes are kept for the next time and end with it.

    Args:
        amount: See `Tokenizer.sample_lines`.
        num_processes: Not more than these are started, and none if it is 1.
    """

    def __init__(self, *, amount: float, num_processes: int) -> None:
        self._amount = amount
        self._num_processes = min(num_processes, _MOST_PROCESSES)
        self._idle: SimpleQueue[_Process] = SimpleQueue()
        self._has_begun = False

    def draw(self, parts: Iterable[Part], *, num_lines: int, check: Callable[[], None]) -> Iterator[IdChunk]:
        """The segmentations of each part, in their order.

        Args:
            num_lines: Of all parts.
            check: Called before each part; what it raises ends the drawing.
        """
        if num_lines < _LEAST_LINES or self._num_processes < 2:
            for part in parts:
                check()
                yield self._draw_here(part)
            return
        if not self._has_begun:
            self._has_begun = True
            for _ in range(self._num_processes):
                self._idle.put(_Process())
        pool = ThreadPoolExecutor(self._num_processes, "drawing")
        try:
            waiting: deque[Future[IdChunk]] = deque()
            for part in parts:
                check()
                waiting.append(pool.submit(self._draw, part))
                if len(waiting) > self._num_processes:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)

    def _draw(self, part: Part) -> IdChunk:
        process = self._idle.get()  # there are as many as threads
        try:
            return process.draw(part, amount=self._amount) or self._draw_here(part)
        finally:
            self._idle.put(process)

    def _draw_here(self, part: Part) -> IdChunk:
        lines = part.tokenizer.sample_lines(part.lines, amount=self._amount, seed=part.seed)
        return flatten(lines, vocab_size=part.tokenizer.vocab_size)


class _Process:
    """One process, from the first part that it draws on."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._is_gone = False

    def draw(self, part: Part, *, amount: float) -> IdChunk | None:
        """None: the process could not be started, or has ended; it does not matter why."""
        if self._is_gone:
            return None
        try:
            if self._process is None:
                self._process = _start()
                weakref.finalize(self, _end, self._process)
            request, answer = self._process.stdin, self._process.stdout
            assert request is not None and answer is not None
            arguments = json.dumps({"amount": amount, "seed": part.seed}).encode()
            send_parts(request, part.tokenizer.model_bytes, arguments, *pack_lines(part.lines))
            lengths, ids = receive_parts(answer, 2)
        except (OSError, EOFError):
            self._is_gone = True
            return None
        dtype = id_type(part.tokenizer.vocab_size)
        return IdChunk(np.frombuffer(lengths, dtype="<i4"), np.frombuffer(ids, dtype="<i4").astype(dtype))


def _start() -> "subprocess.Popen[bytes]":
    package = str(Path(__file__).parents[2])
    path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, "-m", "translate.data.drawing_worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,  # Ctrl-C is for the training, which ends it
    )


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    with contextlib.suppress(OSError):  # of what was not sent
        process.communicate()
