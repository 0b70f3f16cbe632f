"""A corpus that is never held whole: read in segments of so many pairs, pass after pass, each from an exact place.

What segment n holds depends on the stream and on n alone, so a place that was saved saves time and decides nothing:
without it, the pairs before are counted.
"""

import hashlib
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from translate.config import HubCorpus, TableCorpus
from translate.data.corpora import ParallelCorpus
from translate.data.tables import open_stream, pairs_of, reading, table_name
from translate.data.texts import PairChunk, store_pairs
from translate.errors import InputError

_CHUNK_ROWS = 1000


class Place(NamedTuple):
    """Where in a stream a segment begins."""

    num_passes: int  # over the whole stream, done before
    num_pairs: int  # of this pass, before the segment
    state: dict[str, Any] | None  # what `datasets` says of a place shortly before; None: the pass's beginning
    num_skipped: int  # pairs from there to here
    sha256: str | None  # of the segment's text; None: it was not read

    @property
    def counted(self) -> "Place":
        """The same, found without the help of `datasets`."""
        return self._replace(state=None, num_skipped=self.num_pairs)


_BEGINNING = Place(0, 0, None, 0, None)


class _Pass:
    """The rows of a stream from a place on, until it ends."""

    def __init__(self, corpus: TableCorpus | HubCorpus, place: Place) -> None:
        self._corpus = corpus
        self._number = place.num_passes
        self._rows = open_stream(corpus)
        with reading(corpus):
            if place.state is not None:
                self._rows.load_state_dict(place.state)
            self._tables = self._rows.iter(batch_size=_CHUNK_ROWS)
        weakref.finalize(self, self._tables.close)  # while Python still has all that its readers clean up with
        self._table: Any = None
        self._num_used = 0  # rows of the table
        self._state_before = self._state_after = place.state
        self.num_rows = place.num_pairs - place.num_skipped  # of the pass, taken or skipped
        for _ in self.take(place.num_skipped):
            pass

    def take(self, count: int) -> Iterator[Any]:
        """The next `count` rows, or as many as are left, as Arrow tables."""
        while count:
            if self._table is None or self._num_used == len(self._table):
                with reading(self._corpus):
                    self._table = next(self._tables, None)
                    if self._table is None:
                        return
                    self._state_before, self._state_after = self._state_after, self._rows.state_dict()
                self._num_used = 0
            piece = self._table.slice(self._num_used, count)
            self._num_used += len(piece)
            self.num_rows += len(piece)
            count -= len(piece)
            yield piece

    @property
    def place(self) -> Place:
        """Of the row that comes next."""
        if self._table is None or self._num_used == len(self._table):
            return Place(self._number, self.num_rows, self._state_after, 0, None)
        return Place(self._number, self.num_rows, self._state_before, self._num_used, None)


class CorpusStream:
    """One corpus, read segment by segment. The last of a pass is shorter, and with the next one a new pass begins."""

    def __init__(self, corpus: TableCorpus | HubCorpus, *, key: str, segment_pairs: int) -> None:
        """
        Args:
            key: Where the corpus stands in the config; errors begin with it.
            segment_pairs: At least 1.
        """
        self.name = table_name(corpus)
        self._corpus = corpus
        self._key = key
        self._segment_pairs = segment_pairs
        self._pass: _Pass | None = None
        self._place = _BEGINNING

    @property
    def identity(self) -> str:
        """What it is told by, beside its first pairs: a data set's name and revision, a file's size."""
        corpus = self._corpus
        if isinstance(corpus, HubCorpus):
            origin: tuple[object, ...] = (corpus.dataset, corpus.subset, corpus.split, corpus.revision)
        else:
            origin = (corpus.kind, corpus.path.stat().st_size)
        return repr((*origin, corpus.source_column, corpus.target_column, corpus.weight, self._segment_pairs))

    def go_to(self, place: Place) -> None:
        """The next segment is read from there."""
        self._pass, self._place = None, place

    def go_to_segment(self, number: int, *, check: Callable[[], None] = lambda: None) -> None:
        """The same for segment `number`, from 0, by counting the pairs before it.

        Args:
            check: Called now and then; what it raises ends the counting.

        Raises:
            InputError: They cannot be read.
        """
        self.go_to(_BEGINNING)
        num_passes = num_done = 0
        while num_done < number:
            for _ in self._next_tables():
                check()
            if self._place.num_passes > num_passes:  # that was the first of the second pass: a pass has `num_done`
                num_passes, number = divmod(number, num_done)
                self.go_to(Place(num_passes, 0, None, 0, None))
                num_done = 0
            else:
                self._place = self._place_after()
                num_done += 1

    def read(self, *, check: Callable[[], None] = lambda: None) -> tuple[ParallelCorpus, Place]:
        """The next segment, and where it begins.

        Args:
            check: As for `go_to_segment`.

        Raises:
            InputError: It cannot be read, or the stream has no pair at all; the message begins with the key.
            RunError: It is large, and its text cannot be written to a temporary file.
        """
        digest = _PairDigest()
        pairs = store_pairs(digest.watch(self._chunks(check)), name=self.name)
        place = self._place
        first, last = place.num_pairs + 1, place.num_pairs + len(pairs.sources)
        which_pass = f", pass {place.num_passes + 1}" if place.num_passes else ""
        name = f"{self.name}, pairs {first:,} to {last:,} of the stream{which_pass}"
        self._place = self._place_after()
        return ParallelCorpus(name, pairs.sources, pairs.targets, 1.0), place._replace(sha256=digest.hexdigest())

    def _chunks(self, check: Callable[[], None]) -> Iterator[PairChunk]:
        num_read = 0
        for table in self._next_tables():
            check()
            with self._naming_key():
                chunk = pairs_of(table, self._corpus, num_before=self._place.num_pairs + num_read)
            num_read += len(table)
            yield chunk

    def _next_tables(self) -> Iterator[Any]:
        """The rows of the segment at `_place`, which becomes that of the next pass if this one is at its end."""
        with self._naming_key():
            self._pass = self._pass or _Pass(self._corpus, self._place)
            tables = self._pass.take(self._segment_pairs)
            table = next(tables, None)
            if table is None:
                self._place = Place(self._place.num_passes + 1, 0, None, 0, None)
                self._pass = _Pass(self._corpus, self._place)
                tables = self._pass.take(self._segment_pairs)
                table = next(tables, None)
            if table is None:
                raise InputError(f"{self.name} has no sentence pair")
        while table is not None:
            yield table
            with self._naming_key():
                table = next(tables, None)

    def _place_after(self) -> Place:
        assert self._pass is not None
        return self._pass.place

    @contextmanager
    def _naming_key(self) -> Iterator[None]:
        try:
            yield
        except InputError as error:
            raise InputError(f"{self._key}: {error}") from error.__cause__


class _PairDigest:
    """A checksum of pairs that does not depend on how they are cut into chunks."""

    def __init__(self) -> None:
        self._sides = (hashlib.sha256(), hashlib.sha256())

    def watch(self, chunks: Iterable[PairChunk]) -> Iterator[PairChunk]:
        """The same chunks."""
        for chunk in chunks:
            for digest, lines in zip(self._sides, chunk, strict=True):
                digest.update("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass"))
            yield chunk

    def hexdigest(self) -> str:
        """Of both sides."""
        return hashlib.sha256(b"".join(digest.digest() for digest in self._sides)).hexdigest()
