"""The token ids of many lines: encoded by threads, by all processes of a training run, or read from the cache.

An id takes 2 or 4 bytes. A small number of ids stays in memory; more go to a file.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import BinaryIO, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from translate.bars import Advance, show_progress
from translate.data.cache import CachedFile, DataCache, TemporaryFile, entry_name, text_digest
from translate.data.tokenizer import Tokenizer

MAX_BYTES_IN_MEMORY = 64 * 2**20
_THREAD_LINES = 1_000  # encoded in one task: while Python makes a list of their ids, no other thread runs
_LENGTH_TYPE = np.dtype("<i4")

T = TypeVar("T")


class FileArray:
    """A flat array in a file; only the parts in use take memory."""

    def __init__(self, source: TemporaryFile | CachedFile, *, dtype: np.dtype[np.integer]) -> None:
        self.size = source.num_bytes // dtype.itemsize
        self._source, self._dtype = source, dtype
        self._lock = threading.Lock()  # all threads share the position in the file

    def __getitem__(self, part: slice) -> NDArray[np.integer]:
        start, stop, _ = part.indices(self.size)
        with self._lock:
            self._source.file.seek(start * self._dtype.itemsize)
            data = self._source.file.read((stop - start) * self._dtype.itemsize)
        return np.frombuffer(data, dtype=self._dtype)

    def map(self) -> NDArray[np.integer]:
        """The whole array, mapped into memory: pages that were read stay there until the array is no longer used."""
        if self.size == 0:  # an empty file cannot be mapped
            return np.empty(0, dtype=self._dtype)
        with self._lock:
            return np.asarray(np.memmap(self._source.file, dtype=self._dtype, mode="r", shape=(self.size,)))


class TokenChunk(NamedTuple):
    """The ids of some lines, one line after the other."""

    lengths: NDArray[np.int32]
    ids: NDArray[np.integer]


@dataclass(eq=False)
class TokenStore:
    """The token ids of many lines."""

    lengths: NDArray[np.int32]  # the number of ids of each line
    ids: NDArray[np.integer] | FileArray  # all ids, one line after the other

    def __post_init__(self) -> None:
        self._ends = np.cumsum(self.lengths, dtype=np.int64)

    def chunk(self, lines: NDArray[np.int64]) -> TokenChunk:
        """The ids of some lines, one line after the other."""
        lengths = self.lengths[lines]
        ends = np.cumsum(lengths, dtype=np.int64)
        positions = np.arange(lengths.sum(dtype=np.int64)) + np.repeat(self._ends[lines] - ends, lengths)
        ids = self.ids.map() if isinstance(self.ids, FileArray) else self.ids
        return TokenChunk(lengths, ids[positions])


class TokenWriter:
    """Collects the ids of many lines, in memory while there are few, else in a temporary file; see `TemporaryFile`."""

    def __init__(self, content: str) -> None:
        self._content = content
        self._file: TemporaryFile | None = None
        self._lengths: list[NDArray[np.int32]] = []
        self._ids: list[NDArray[np.integer]] = []
        self._num_bytes = 0

    def add(self, *chunks: TokenChunk) -> None:
        """Append the lines of some chunks."""
        self._lengths += [chunk.lengths for chunk in chunks]
        self._ids += [chunk.ids for chunk in chunks]
        self._num_bytes += sum(chunk.ids.nbytes for chunk in chunks)
        if self._num_bytes > MAX_BYTES_IN_MEMORY:
            self._file = self._file or TemporaryFile(self._content)
            for array in self._ids:
                self._file.write(array)
                self._dtype = array.dtype
            self._ids.clear()

    @property
    def lengths(self) -> NDArray[np.int32]:
        """The number of token ids of each added line."""
        return np.concatenate([np.empty(0, dtype=_LENGTH_TYPE), *self._lengths])

    def finish(self) -> TokenStore:
        """All lines that were added."""
        if self._file is None:
            return TokenStore(self.lengths, np.concatenate([np.empty(0, dtype=np.uint16), *self._ids]))
        return TokenStore(self.lengths, FileArray(self._file, dtype=self._dtype))


def read_tokens(file: CachedFile, *, num_lines: int, vocab_size: int) -> TokenStore:
    """Read the output of `write_tokens`; the ids of a large file remain on disk."""
    file.file.seek(file.num_bytes - num_lines * _LENGTH_TYPE.itemsize)
    lengths = np.fromfile(file.file, dtype=_LENGTH_TYPE, count=num_lines)
    ids = FileArray(file, dtype=id_type(vocab_size))
    return TokenStore(lengths, ids if file.num_bytes > MAX_BYTES_IN_MEMORY else ids[: lengths.sum(dtype=np.int64)])


def write_tokens(chunks: Iterable[TokenChunk], file: BinaryIO) -> None:
    """Write all ids, and then the lengths of all lines, for `read_tokens`."""
    lengths = []
    for chunk in chunks:
        lengths.append(chunk.lengths)
        file.write(chunk.ids.data)
    file.writelines(array.data for array in lengths)


def flatten(lines: Sequence[Sequence[int]], *, vocab_size: int = 2**31) -> TokenChunk:
    """The ids of some lines, less than `vocab_size`, as one chunk."""
    lengths = np.fromiter(map(len, lines), dtype=_LENGTH_TYPE, count=len(lines))
    num_ids = int(lengths.sum(dtype=np.int64))
    return TokenChunk(lengths, np.fromiter(chain.from_iterable(lines), dtype=id_type(vocab_size), count=num_ids))


def id_type(vocab_size: int) -> np.dtype[np.integer]:
    """The smallest type that holds the ids of a vocabulary."""
    return np.dtype("<u2" if vocab_size <= 2**16 else "<i4")


# Encoding


CheckCancelled = Callable[[], None]
"""Called now and then in long work; an exception that it raises, such as `Cancelled`, ends the work."""


def encode_texts(
    texts: Sequence[str], tokenizer: Tokenizer, *, num_threads: int, cache: DataCache | None, work: str = "Encoding"
) -> TokenStore:
    """The ids of each line of the training corpora, through the cache if there is one; see `TokenWriter`."""

    with show_progress(work, len(texts), unit="lines") as advance:
        chunks = partial(encode_chunks, texts, tokenizer, num_threads=num_threads, advance=advance)
        if cache is not None:
            name = entry_name("ids", tokenizer.model_bytes, text_digest(texts))
            file = cache.find(name) or cache.make(name, lambda file: write_tokens(chunks(), file))
            if file is not None:
                return read_tokens(file, num_lines=len(texts), vocab_size=tokenizer.vocab_size)
        writer = TokenWriter("the token ids of the training corpora")
        for chunk in chunks():
            writer.add(chunk)
        return writer.finish()


def encode_chunks(
    texts: Sequence[str],
    tokenizer: Tokenizer,
    *,
    num_threads: int,
    check: CheckCancelled = lambda: None,
    advance: Advance = lambda number: None,
) -> Iterator[TokenChunk]:
    """The ids of all lines, a thousand lines at a time; they do not depend on the number of threads."""

    def encode(first: int) -> TokenChunk:
        check()
        lines = texts[first : first + _THREAD_LINES]
        return flatten(tokenizer.encode_lines(lines, num_threads=1), vocab_size=tokenizer.vocab_size)

    # Threads of Python rather than of SentencePiece: while one makes lists of its ids, the others encode.
    with ThreadPoolExecutor(num_threads) as pool:
        tasks = (pool.submit(encode, first) for first in range(0, len(texts), _THREAD_LINES))
        for chunk in results_in_order(tasks, num_ahead=num_threads):
            advance(len(chunk.lengths))
            yield chunk


def results_in_order(futures: Iterable[Future[T]], *, num_ahead: int) -> Iterator[T]:
    """The results of futures, each submitted by the iteration when it is one of the next `num_ahead`."""
    waiting: deque[Future[T]] = deque()
    try:
        for future in futures:
            waiting.append(future)
            if len(waiting) > num_ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
