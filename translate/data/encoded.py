"""The token ids of many sentences, 2 or 4 bytes each: in memory if they are few, else in a memory-mapped file."""

from collections.abc import Iterator
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

from translate.data.spill import UnnamedFile

MAX_BYTES_IN_MEMORY = 64 * 2**20
# Lines taken at once: the lists of Python integers that SentencePiece gives take ten times the room of the arrays.
_CHUNK_LINES = 10_000
# A mapped page counts as resident once it is touched, and a line touches up to 64 KiB; mapping anew lets go of all.
_MAX_LINES_TOUCHED = 2048


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
        self._dtype = np.dtype(np.uint16 if vocab_size <= 2**16 else np.int32)
        self._file: UnnamedFile | None = None
        self._num_touched = 0
        lengths = [np.empty(0, dtype=np.int32)]
        ids = [np.empty(0, dtype=self._dtype)]
        num_bytes = 0
        while chunk := list(islice(lines, _CHUNK_LINES)):
            lengths.append(np.fromiter(map(len, chunk), dtype=np.int32, count=len(chunk)))
            ids.append(np.fromiter(chain.from_iterable(chunk), dtype=self._dtype, count=int(lengths[-1].sum())))
            num_bytes += ids[-1].nbytes
            if num_bytes > MAX_BYTES_IN_MEMORY:
                self._file = self._file or UnnamedFile(content)
                for array in ids:
                    self._file.write(array.data)
                ids.clear()
        self.lengths: NDArray[np.int32] = np.concatenate(lengths)
        self._ends = np.cumsum(self.lengths, dtype=np.int64)
        if self._file is None:
            self._ids = np.concatenate(ids)
        else:
            self._map()

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, line: int) -> list[int]:
        end = int(self._ends[line])
        ids: list[int] = self._ids[end - int(self.lengths[line]) : end].tolist()
        self._num_touched += 1
        if self._file is not None and self._num_touched > _MAX_LINES_TOUCHED:
            self._map()
        return ids

    def replaced(self, where: NDArray[np.bool_], *, by: "EncodedLines", lines: NDArray[np.int64]) -> "EncodedLines":
        """The same, but for the lines at `where`, in whose place `by[lines[i]]` stands.

        Args:
            by: Of the same vocabulary.
        """
        choices = zip(where.tolist(), lines.tolist(), strict=True)
        ids = (by[line] if is_other else self[position] for position, (is_other, line) in enumerate(choices))
        return EncodedLines(ids, vocab_size=self.vocab_size, content=self._content)

    def _map(self) -> None:
        assert self._file is not None
        self._ids = np.memmap(self._file.path, dtype=self._dtype, mode="r")
        self._num_touched = 0
