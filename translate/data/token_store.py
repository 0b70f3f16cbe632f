"""The token ids of many sentences, 2 or 4 bytes each: in memory if they are few, else in a memory-mapped file."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import BinaryIO, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from translate.data.cache import DataCache, entry_name, text_digest
from translate.data.spill import UnnamedFile
from translate.data.tokenizer import PAD_ID, Tokenizer

MAX_BYTES_IN_MEMORY = 64 * 2**20
# Lines taken at once: the lists of Python integers that SentencePiece gives take ten times the room of the arrays.
_CHUNK_LINES = 10_000
# A mapped page counts as resident once it is touched, and a line touches up to 64 KiB; mapping anew lets go of all.
_MAX_LINES_TOUCHED = 2048
_LENGTH_TYPE = np.dtype("<i4")


@runtime_checkable
class OpenFile(Protocol):
    """A file that is there as long as something refers to it."""

    @property
    def path(self) -> str:
        """What it can be opened by, in this process."""


class IdChunk(NamedTuple):
    """The ids of some lines, one line after the other."""

    lengths: NDArray[np.int32]
    ids: NDArray[np.integer]


class EncodedLines:
    """The ids of each line, and their numbers."""

    def __init__(self, lines: Iterator[list[int]], *, vocab_size: int, content: str) -> None:
        """
        Args:
            lines: The ids of each line, less than `vocab_size`; read once, chunk by chunk.
            content: What they are, in the error for a full disk.

        Raises:
            RunError: There are many, and the file for them cannot be written.
        """
        self.vocab_size = vocab_size
        self._content = content
        self._take(_flattened(lines, vocab_size=vocab_size))

    @classmethod
    def of_chunks(cls, chunks: Iterable[IdChunk], *, vocab_size: int, content: str) -> "EncodedLines":
        """The same of lines that come some thousand at a time."""
        encoded = cls(iter(()), vocab_size=vocab_size, content=content)
        encoded._take(chunks)
        return encoded

    @classmethod
    def read(cls, file: OpenFile, *, num_bytes: int, num_lines: int, vocab_size: int, content: str) -> "EncodedLines":
        """What `write_ids` wrote; if it is large, the file remains mapped.

        Args:
            num_bytes: Of what was written, with which the file begins.
        """
        encoded = cls(iter(()), vocab_size=vocab_size, content=content)
        dtype = id_type(vocab_size)
        num_id_bytes = num_bytes - num_lines * _LENGTH_TYPE.itemsize
        lengths = np.fromfile(file.path, dtype=_LENGTH_TYPE, count=num_lines, offset=num_id_bytes)
        if num_id_bytes > MAX_BYTES_IN_MEMORY:
            encoded._hold(lengths, file)
        else:
            encoded._hold(lengths, np.fromfile(file.path, dtype=dtype, count=num_id_bytes // dtype.itemsize))
        return encoded

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, line: int) -> list[int]:
        end = int(self._ends[line])
        ids: list[int] = self._touch(1)[end - int(self.lengths[line]) : end].tolist()
        return ids

    def side_by_side(
        self, lines: NDArray[np.int64], *, before: int | None = None, after: int | None = None
    ) -> Int[Tensor, "batch length"]:
        """The ids of some lines with one special symbol each, padded on the right to the longest.

        Args:
            before: The symbol that begins each row; or else
            after: the one that ends it, before the padding.
        """
        lengths = self.lengths[lines].astype(np.int64)
        columns = np.arange(lengths.max(initial=0))
        real = columns < lengths[:, None]
        rows = np.full((len(lines), len(columns) + 1), PAD_ID, dtype=np.int64)
        places = ((self._ends[lines] - lengths)[:, None] + columns)[real]
        ids = self._touch(len(lines))[places]
        if before is not None:
            rows[:, 1:][real] = ids
            rows[:, 0] = before
        elif after is not None:
            rows[:, :-1][real] = ids
            rows[np.arange(len(lines)), lengths] = after
        return torch.from_numpy(rows)

    def replaced(self, where: NDArray[np.bool_], *, by: "EncodedLines", lines: NDArray[np.int64]) -> "EncodedLines":
        """The same, but for the lines at `where`, in whose place `by[lines[i]]` stands.

        Args:
            by: Of the same vocabulary.
        """

        def chunks() -> Iterator[IdChunk]:
            for first in range(0, len(self), _CHUNK_LINES):
                part = slice(first, first + _CHUNK_LINES)
                others = where[part]
                own = np.arange(first, first + len(others))
                lengths = np.where(others, by.lengths[lines[part]], self.lengths[own]).astype(_LENGTH_TYPE)
                is_other = np.repeat(others, lengths)
                ids = np.empty(len(is_other), dtype=id_type(self.vocab_size))
                ids[is_other] = by._ids_of(lines[part][others])
                ids[~is_other] = self._ids_of(own[~others])
                yield IdChunk(lengths, ids)

        return EncodedLines.of_chunks(chunks(), vocab_size=self.vocab_size, content=self._content)

    def _take(self, chunks: Iterable[IdChunk]) -> None:
        file: UnnamedFile | None = None
        lengths = [np.empty(0, dtype=_LENGTH_TYPE)]
        ids = [np.empty(0, dtype=id_type(self.vocab_size))]
        num_bytes = 0
        for chunk in chunks:
            lengths.append(chunk.lengths)
            ids.append(chunk.ids)
            num_bytes += chunk.ids.nbytes
            if num_bytes > MAX_BYTES_IN_MEMORY:
                file = file or UnnamedFile(self._content)
                for array in ids:
                    file.write(array.data)
                ids.clear()
        self._hold(np.concatenate(lengths), file or np.concatenate(ids))

    def _ids_of(self, lines: NDArray[np.int64]) -> NDArray[np.integer]:
        """The ids of some lines, one line after the other."""
        lengths = self.lengths[lines].astype(np.int64)
        ends = np.cumsum(lengths)
        places = np.arange(lengths.sum()) + np.repeat(self._ends[lines] - ends, lengths)
        return self._touch(len(lines))[places]

    def _hold(self, lengths: NDArray[np.int32], ids: NDArray[np.integer] | OpenFile) -> None:
        self.lengths = lengths
        self._ends = np.cumsum(lengths, dtype=np.int64)
        self._num_touched = 0
        if isinstance(ids, np.ndarray):
            self._file, self._ids = None, ids
        else:
            self._file, self._ids = ids, self._map(ids)

    def _touch(self, num_lines: int) -> NDArray[np.integer]:
        """All ids, of which so many lines will be looked at."""
        if self._file is not None:
            self._num_touched += num_lines
            if self._num_touched > _MAX_LINES_TOUCHED:
                self._ids, self._num_touched = self._map(self._file), num_lines
        return self._ids

    def _map(self, file: OpenFile) -> NDArray[np.integer]:
        num_ids = int(self._ends[-1])
        return np.asarray(np.memmap(file.path, dtype=id_type(self.vocab_size), mode="r", shape=(num_ids,)))


def write_ids(lines: Iterator[list[int]], file: BinaryIO, *, vocab_size: int) -> None:
    """Write what `EncodedLines.read` reads: all ids, and then the lengths of all lines.

    Args:
        lines: See `EncodedLines`.

    Raises:
        OSError: The disk is full, or fails.
    """
    lengths = []
    for chunk in _flattened(lines, vocab_size=vocab_size):
        lengths.append(chunk.lengths)
        file.write(chunk.ids.data)
    for each in lengths:
        file.write(each.data)


def _flattened(lines: Iterator[list[int]], *, vocab_size: int) -> Iterator[IdChunk]:
    while chunk := list(islice(lines, _CHUNK_LINES)):
        yield flatten(chunk, vocab_size=vocab_size)


def flatten(lines: Sequence[Sequence[int]], *, vocab_size: int) -> IdChunk:
    """The ids of some lines, less than `vocab_size`, as one chunk."""
    lengths = np.fromiter(map(len, lines), dtype=_LENGTH_TYPE, count=len(lines))
    num_ids = int(lengths.sum(dtype=np.int64))
    return IdChunk(lengths, np.fromiter(chain.from_iterable(lines), dtype=id_type(vocab_size), count=num_ids))


def id_type(vocab_size: int) -> np.dtype[np.integer]:
    return np.dtype("<u2" if vocab_size <= 2**16 else "<i4")


# Lines that a thread encodes at once: the lists of Python integers that SentencePiece gives take ten times the room of
# the arrays, and while they are made, no other thread of Python does anything.
_THREAD_LINES = 1_000


def encode_texts(
    texts: Sequence[str], tokenizer: Tokenizer, *, num_threads: int, cache: DataCache | None
) -> EncodedLines:
    """The ids of each line.

    Args:
        num_threads: The result does not depend on it.
        cache: Where they are read, or kept for the next time; None: they are not.

    Raises:
        RunError: There are many, and the file for them cannot be written.
    """
    size, content = tokenizer.vocab_size, "the token ids of the training corpora"
    if cache is not None:
        name = entry_name("ids", tokenizer.model_bytes, text_digest(texts))
        file = cache.find(name) or cache.make(
            name, lambda file: write_ids(encode_lines(texts, tokenizer, num_threads=num_threads), file, vocab_size=size)
        )
        if file is not None:
            return EncodedLines.read(
                file, num_bytes=file.num_bytes, num_lines=len(texts), vocab_size=size, content=content
            )
    return EncodedLines(encode_lines(texts, tokenizer, num_threads=num_threads), vocab_size=size, content=content)


def encode_lines(
    texts: Sequence[str], tokenizer: Tokenizer, *, num_threads: int, check: Callable[[], None] = lambda: None
) -> Iterator[list[int]]:
    """The ids of each line.

    Args:
        num_threads: The result does not depend on it.
        check: Called now and then; what it raises ends the encoding.
    """
    # Threads of Python's rather than of SentencePiece's: while one makes lists of its ids, the others encode.
    with ThreadPoolExecutor(num_threads) as pool:
        waiting: deque[Future[list[list[int]]]] = deque()
        for first in range(0, len(texts), _THREAD_LINES):
            check()
            waiting.append(pool.submit(tokenizer.encode_lines, texts[first : first + _THREAD_LINES], num_threads=1))
            if len(waiting) > num_threads:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()
