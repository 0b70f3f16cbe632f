"""Where the sentences of a corpus are: in lists if they are few, else in a memory-mapped Arrow file of `datasets`.

Either way they are a `Sequence[str]`. Lists save a small corpus the import of `datasets` and every disk; whoever goes
through a large one does it in order, in slices, and holds no more than a slice.
"""

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from typing import Any, NamedTuple, overload

from translate.data.spill import UnnamedFile

# Of Python's memory for one corpus: some 200,000 pairs. Reading that many takes as long as importing `datasets`.
MAX_BYTES_IN_MEMORY = 64 * 2**20
_STRING_BYTES = 64  # of a Python string, besides its characters
# The Arrow file is written in blocks of so much.
_BLOCK_LINES = 20_000
_BLOCK_CHARACTERS = 8 * 2**20
# A mapped page counts as resident once it is touched; mapping the file anew, after so many bytes, lets go of all.
_MAX_TOUCHED_BYTES = 64 * 2**20


class PairChunk(NamedTuple):
    """Some pairs of a corpus, equally many sources and targets."""

    sources: list[str]
    targets: list[str]


class StoredPairs(NamedTuple):
    """All sources and targets of a corpus."""

    sources: Sequence[str]
    targets: Sequence[str]


class _TextInParts(Sequence[str]):
    """Lines that lie in parts, one after the other."""

    def __init__(self, lengths: Iterable[int]) -> None:
        self._ends = list(accumulate(lengths))

    @abstractmethod
    def _line(self, part: int, number: int) -> str:
        """A line of a part."""

    @abstractmethod
    def _lines(self, part: int, start: int, stop: int) -> list[str]:
        """The lines of a part from one number to before another."""

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            numbers = range(len(self))[place]
            if numbers.step != 1:
                return [self[number] for number in numbers]
            return list(chain.from_iterable(self._pieces(numbers.start, numbers.stop)))
        number = range(len(self))[place]  # from the end, if it is negative
        part = bisect_right(self._ends, number)
        return self._line(part, number - self._start(part))

    def _pieces(self, start: int, stop: int) -> Iterator[list[str]]:
        """The lines from one number to before another, part by part."""
        for part in range(bisect_right(self._ends, start), len(self._ends)):
            first = self._start(part)
            if first >= stop:
                return
            yield self._lines(part, max(start - first, 0), min(stop, self._ends[part]) - first)

    def _start(self, part: int) -> int:
        return self._ends[part - 1] if part else 0


class MappedText(_TextInParts):
    """A column of text in an Arrow file."""

    def __init__(self, file: UnnamedFile, column: str) -> None:
        self._file = file
        self._column = column
        self._blocks: list[Any] = []  # Arrow arrays
        self._num_touched = 0
        self._last_block = -1
        self._map()
        super().__init__(map(len, self._blocks))

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._pieces(0, len(self)))

    def _line(self, part: int, number: int) -> str:
        line: str = self._open(part)[number].as_py()
        return line

    def _lines(self, part: int, start: int, stop: int) -> list[str]:
        lines: list[str] = self._open(part).slice(start, stop - start).to_pylist()
        return lines

    def _open(self, block: int) -> Any:
        if block != self._last_block:
            self._num_touched += self._blocks[block].nbytes
            if self._num_touched > _MAX_TOUCHED_BYTES:
                self._map()
            self._last_block = block
        return self._blocks[block]

    def _map(self) -> None:
        import datasets

        self._blocks = datasets.Dataset.from_file(self._file.path).data.column(self._column).chunks
        self._num_touched = 0
        self._last_block = -1


class JoinedText(_TextInParts):
    """Several texts, one after the other."""

    def __init__(self, texts: Iterable[Sequence[str]]) -> None:
        self._texts = list(texts)
        super().__init__(map(len, self._texts))

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._texts)

    def _line(self, part: int, number: int) -> str:
        return self._texts[part][number]

    def _lines(self, part: int, start: int, stop: int) -> list[str]:
        return list(self._texts[part][start:stop])


def store_pairs(chunks: Iterable[PairChunk], *, name: str) -> StoredPairs:
    """All pairs, in memory while they are few, else in a file.

    Args:
        chunks: Read as they are needed; small enough that a few of them do not matter.
        name: What errors call the corpus.

    Raises:
        RunError: The file cannot be written.
    """
    sources: list[str] = []
    targets: list[str] = []
    num_bytes = 0
    remaining = iter(chunks)
    for chunk in remaining:
        sources += chunk.sources
        targets += chunk.targets
        num_bytes += sum(_STRING_BYTES + len(line) for lines in chunk for line in lines)
        if num_bytes > MAX_BYTES_IN_MEMORY:
            return _write(chain([PairChunk(sources, targets)], remaining), name=name)
    return StoredPairs(sources, targets)


def _write(chunks: Iterable[PairChunk], *, name: str) -> StoredPairs:
    import datasets
    from datasets.arrow_writer import ArrowWriter

    file = UnnamedFile(f"the text of {name}")
    features = datasets.Features({column: datasets.Value("large_string") for column in PairChunk._fields})
    writer = ArrowWriter(features=features, stream=file, writer_batch_size=_BLOCK_LINES)
    for block in _blocks(chunks):
        writer.write_batch(block._asdict())
    writer.finalize(close_stream=False)
    return StoredPairs(*(MappedText(file, column) for column in PairChunk._fields))


def _blocks(chunks: Iterable[PairChunk]) -> Iterator[PairChunk]:
    """The same pairs, in blocks of the size of the file's."""
    block, num_characters = PairChunk([], []), 0
    for chunk in chunks:
        for start in range(0, len(chunk.sources), 1000):
            these = PairChunk(*(lines[start : start + 1000] for lines in chunk))
            block.sources.extend(these.sources)
            block.targets.extend(these.targets)
            num_characters += sum(map(len, these.sources)) + sum(map(len, these.targets))
            if len(block.sources) >= _BLOCK_LINES or num_characters >= _BLOCK_CHARACTERS:
                yield block
                block, num_characters = PairChunk([], []), 0
    if block.sources:
        yield block
