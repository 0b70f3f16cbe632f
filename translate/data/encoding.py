"""Text becomes token ids: by several threads, from the cache, or by all processes of a training together."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeVar, runtime_checkable

from translate.data.cache import DataCache, entry_name, text_digest
from translate.data.token_store import (
    TokenChunk,
    TokenStore,
    TokenWriter,
    chunked,
    flatten,
    read_tokens,
    store_tokens,
    write_tokens,
)
from translate.data.tokenizer import Tokenizer

T = TypeVar("T")

# Lines that a thread encodes at once: while the lists of Python integers are made of them, no other thread of Python
# runs.
_THREAD_LINES = 1_000
_EXCHANGED_LINES = 10_000  # that each process encodes before all exchange their ids


class Cancelled(Exception):
    """Nobody waits any more for what is being prepared."""


@runtime_checkable
class ProcessGroup(Protocol):
    """The processes that encode together: `distributed.process_group.World`, which is in a higher layer."""

    rank: int
    size: int

    def run_on_all_ranks(self, work: Callable[[], T], /) -> T:
        """The result of work that every process does for itself; if one process fails, all end."""

    def all_gather(self, value: T, /) -> list[T]:
        """The values of all processes, by rank."""


def run_together(processes: ProcessGroup, work: Callable[[], T]) -> T:
    """Like `run_on_all_ranks`, and if the work is cancelled in one process, it is cancelled in all.

    Raises:
        Cancelled: The work raised it in some process.
    """

    def attempt() -> list[T]:
        try:
            return [work()]
        except Cancelled:
            return []

    result = processes.run_on_all_ranks(attempt)
    if any(processes.all_gather(not result)):
        raise Cancelled
    return result[0]


def encode_texts(
    texts: Sequence[str], tokenizer: Tokenizer, *, num_threads: int, cache: DataCache | None
) -> TokenStore:
    """The ids of each line of the training corpora.

    Args:
        num_threads: Threads that encode; the result does not depend on them.
        cache: Where the ids are read, or kept for the next time; None: they are not.

    Raises:
        RunError: There are many ids, and the file for them cannot be written.
    """
    size = tokenizer.vocab_size
    if cache is not None:
        name = entry_name("ids", tokenizer.model_bytes, text_digest(texts))
        file = cache.find(name) or cache.make(
            name,
            lambda file: write_tokens(
                chunked(encode_lines(texts, tokenizer, num_threads=num_threads), vocab_size=size), file
            ),
        )
        if file is not None:
            return read_tokens(file, num_lines=len(texts), vocab_size=size)
    lines = encode_lines(texts, tokenizer, num_threads=num_threads)
    return store_tokens(
        chunked(lines, vocab_size=size), vocab_size=size, content="the token ids of the training corpora"
    )


def encode_lines(
    texts: Sequence[str], tokenizer: Tokenizer, *, num_threads: int, check: Callable[[], None] = lambda: None
) -> Iterator[list[int]]:
    """The ids of each line.

    Args:
        num_threads: Threads that encode; the result does not depend on them.
        check: Called now and then; an exception that it raises ends the encoding.
    """
    # Threads of Python rather than of SentencePiece: while one makes lists of its ids, the others encode.
    with ThreadPoolExecutor(num_threads) as pool:
        waiting: deque[Future[list[list[int]]]] = deque()
        for first in range(0, len(texts), _THREAD_LINES):
            check()
            waiting.append(pool.submit(tokenizer.encode_lines, texts[first : first + _THREAD_LINES], num_threads=1))
            if len(waiting) > num_threads:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()


def encode_together(
    texts: Sequence[str],
    tokenizer: Tokenizer,
    *,
    processes: ProcessGroup,
    num_threads: int,
    content: str,
    check: Callable[[], None] = lambda: None,
) -> TokenStore:
    """The ids of each line: each process encodes a part, and all processes get all ids.

    All processes must encode the same texts at the same time.

    Args:
        num_threads: Threads of this process; the result does not depend on them.
        content: What the ids are, for the error about a full disk.
        check: Called now and then; an exception that it raises ends the encoding.

    Raises:
        RunError: There are many ids, and the file for them cannot be written in some process.
        Cancelled: `check` raised it in some process.
    """
    writer = TokenWriter(vocab_size=tokenizer.vocab_size, content=content)
    parts: list[TokenChunk] = []

    def store_parts() -> None:
        """Store what was exchanged: as part of the work, so that a full disk of one process ends all."""
        for part in parts:
            writer.add(part)

    for first in range(0, len(texts), _EXCHANGED_LINES * processes.size):
        start = first + processes.rank * _EXCHANGED_LINES

        def encode_part(start: int = start) -> TokenChunk:
            store_parts()
            lines = list(
                encode_lines(texts[start : start + _EXCHANGED_LINES], tokenizer, num_threads=num_threads, check=check)
            )
            return flatten(lines, vocab_size=tokenizer.vocab_size)

        parts = processes.all_gather(run_together(processes, encode_part))
    run_together(processes, store_parts)
    return writer.finish()
