"""A corpus that is never held whole: read in segments of so many pairs, pass after pass, each from an exact place.

What segment n holds depends on the stream and on n alone, so a place that was saved saves time and decides nothing:
without it, the pairs before are counted.
"""

import contextlib
import copy
import datetime
import functools
import hashlib
import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import torch.distributed as dist

from translate.config import Corpus, DataConfig, HubCorpus, TableCorpus
from translate.data.corpora import ParallelCorpus, read_corpus
from translate.data.drawing import Drawer
from translate.data.epochs import Epoch, TrainingBatches
from translate.data.filtering import FilterReport
from translate.data.tables import open_stream, pairs_of, reading, table_name
from translate.data.texts import PairChunk, store_pairs
from translate.data.token_store import EncodedLines, encode_lines
from translate.data.tokenizer import Tokenizer, Tokenizers
from translate.errors import InputError, RunError

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


class Segment(NamedTuple):
    """The pairs of one segment."""

    corpora: list[ParallelCorpus]  # those of `data.train`, of the streamed ones a part
    places: list[Place]  # of the streamed ones, where these parts begin


class TrainingStreams:
    """The corpora of `data.train`, some of which are streamed; the others are in every segment, whole.

    The streams share a segment in proportion to their weights, and each goes its own rounds. So the weight of the
    others says what it always says: how often each pair is seen in an epoch.
    """

    def __init__(self, data: DataConfig) -> None:
        """
        Args:
            data: Of which at least one training corpus is streamed.

        Raises:
            InputError: A corpus cannot be used; the message begins with its key.
        """
        weights = [corpus.weight for corpus in data.train if _is_streamed(corpus)]
        shares = iter(_shares(weights, data.stream_segment_pairs))
        self._corpora: list[ParallelCorpus | CorpusStream] = [
            CorpusStream(corpus, key=f"data.train.{index}", segment_pairs=next(shares))
            if _is_streamed(corpus)
            else read_corpus(corpus, key=f"data.train.{index}")
            for index, corpus in enumerate(data.train)
        ]
        self.streams = [corpus for corpus in self._corpora if isinstance(corpus, CorpusStream)]
        self._next = 0
        self.first = self.segment(0)
        """What stands for all of the data where all of them cannot be looked at."""

    @property
    def names(self) -> list[str]:
        """Of all corpora, in the config's order."""
        return [corpus.name for corpus in self._corpora]

    @property
    def identity(self) -> str:
        """What the streams are told by, beside their first segment."""
        return "\n".join(stream.identity for stream in self.streams)

    def segment(
        self, number: int, *, places: list[Place] | None = None, check: Callable[[], None] = lambda: None
    ) -> Segment:
        """Segment `number`, counted from 0; without places, only the one after the last that was read comes quickly.

        Args:
            places: Where it begins in each stream, if that was noted.
            check: Called now and then; what it raises ends the reading.

        Raises:
            InputError: A corpus cannot be read, or it has other pairs than when the places were noted; the message
                begins with its key.
            RunError: The text cannot be written to a temporary file.
        """
        is_next, self._next = number == self._next, -1  # what ends the reading leaves the streams anywhere
        if places is not None:
            parts = [_read_at(*each, check) for each in zip(self.streams, places, strict=True)]
        else:
            for stream in self.streams:
                if not is_next:
                    stream.go_to_segment(number, check=check)
            parts = [stream.read(check=check) for stream in self.streams]
        self._next = number + 1
        remaining = iter(parts)
        corpora = [next(remaining)[0] if isinstance(each, CorpusStream) else each for each in self._corpora]
        return Segment(corpora, [place for _, place in parts])


def _read_at(stream: CorpusStream, place: Place, check: Callable[[], None]) -> tuple[ParallelCorpus, Place]:
    """By what `datasets` noted; and if that leads elsewhere, as it may in another version of it, by counting."""
    if place.state is not None:
        stream.go_to(place)
        with contextlib.suppress(InputError):  # it may be the note that is bad
            corpus, found = stream.read(check=check)
            if found.sha256 == place.sha256:
                return corpus, found
    stream.go_to(place.counted)
    corpus, found = stream.read(check=check)
    if found.sha256 != place.sha256:
        raise InputError(
            f"{corpus.name}: these are not the pairs that this run was trained on, so it cannot be continued; give"
            " the data that it was begun with (of a data set of the Hub, its revision), or begin a new run"
        )
    return corpus, found


def _is_streamed(corpus: Corpus) -> TypeGuard[TableCorpus | HubCorpus]:
    return isinstance(corpus, TableCorpus | HubCorpus) and corpus.streaming


def _shares(weights: list[float], segment_pairs: int) -> list[int]:
    """Pairs of a segment for each stream, in proportion to the weights and at least one."""
    ends = list(accumulate(weights))
    borders = [0, *(math.floor(segment_pairs * end / ends[-1] + 0.5) for end in ends)]
    return [max(1, end - start) for start, end in pairwise(borders)]


_LINES_EXCHANGED = 10_000  # of each process
# A process may still be reading from a slow network. One that dies breaks its connections, which ends the wait; so this
# is for a machine or a network that is gone.
_PATIENCE = datetime.timedelta(hours=1)


class SharedEncoding:
    """The processes of `torch.distributed`, if it is set up, else this one alone.

    All must make one at the same time, and then encode the same texts in the same order. It has connections of its own,
    so that this may be done in a thread while the training exchanges gradients.
    """

    def __init__(self) -> None:
        self._group: dist.ProcessGroup | None = None
        self._rank, self._size = 0, 1
        if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            self._group = dist.new_group(backend="gloo", timeout=_PATIENCE)
            self._rank, self._size = dist.get_rank(), dist.get_world_size()

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """For all that is done up to some encoding and with it: if it fails in one process, it does in all.

        Raises:
            InputError: It failed so in another process, and this is what that one says.
            RunError: The same.
        """
        try:
            yield
        except _AnotherFailed as failure:
            raise failure.told() from failure
        except BaseException as error:
            with contextlib.suppress(_AnotherFailed, RuntimeError):  # or it failed because the others are gone
                self._exchange(_Failure(isinstance(error, InputError), str(error), self._rank))
            raise
        try:
            self._exchange(None)
        except _AnotherFailed as failure:
            raise failure.told() from failure

    def encode(
        self,
        texts: Sequence[str],
        tokenizer: Tokenizer,
        *,
        num_threads: int,
        check: Callable[[], None] = lambda: None,
    ) -> Iterator[list[int]]:
        """The ids of each line; within `together`.

        Args:
            num_threads: Of this process; the result does not depend on it.
            check: Called now and then; what it raises ends the encoding.
        """
        encode = functools.partial(encode_lines, tokenizer=tokenizer, num_threads=num_threads, check=check)
        if self._group is None:
            yield from encode(texts)
            return
        num_lines = _LINES_EXCHANGED * self._size
        for first in range(0, len(texts), num_lines):
            start = min(first + self._rank * _LINES_EXCHANGED, len(texts))
            own = texts[start : min(start + _LINES_EXCHANGED, len(texts))]
            for part in self._exchange(_packed(list(encode(own)))):
                yield from _unpacked(*part)

    def _exchange(self, own: Any) -> list[Any]:
        """What each process gives, by rank."""
        if self._group is None:
            return [own]
        parts: list[Any] = [None] * self._size
        dist.all_gather_object(parts, own, group=self._group)
        for rank, part in enumerate(parts):
            if isinstance(part, _Failure) and rank != self._rank:
                raise _AnotherFailed(part)
        return parts


class _Failure(NamedTuple):
    """What a process gives that ends what all are doing."""

    is_of_input: bool
    text: str
    rank: int


class _AnotherFailed(Exception):
    def __init__(self, failure: _Failure) -> None:
        super().__init__(failure.text)
        self._failure = failure

    def told(self) -> InputError | RunError:
        """The error that the other process met."""
        kind = InputError if self._failure.is_of_input else RunError
        return kind(f"process {self._failure.rank + 1} of this training: {self._failure.text}")


def _packed(rows: list[list[int]]) -> tuple[Any, Any]:
    lengths = np.fromiter(map(len, rows), dtype=np.int32, count=len(rows))
    return lengths, np.fromiter((token for row in rows for token in row), dtype=np.int32, count=int(lengths.sum()))


def _unpacked(lengths: Any, ids: Any) -> Iterator[list[int]]:
    flat = ids.tolist()
    for start, end in pairwise([0, *np.cumsum(lengths).tolist()]):
        yield flat[start:end]


_NUM_RECORDS = 4  # of the last segments: one is trained on, one may be prepared meanwhile


class _Totals(NamedTuple):
    """What the filter counted over some segments."""

    first: int  # the number of the first of them
    counts: tuple[tuple[int, ...], ...]  # for each corpus, those of a `FilterReport`


class _Record(NamedTuple):
    """What is to be known of a segment without having it."""

    places: list[Place]
    reports: tuple[FilterReport, ...]  # one for each corpus
    before: _Totals  # of the segments before it
    is_counted: bool  # its noted places led elsewhere, and the pairs before it were counted


class StreamedBatches:
    """Like `TrainingBatches`, for `TrainingStreams`: in the place of epochs over the same pairs there are segments.

    Each is made when its epoch is asked for, in a thread perhaps; two are held at once, one being trained on.
    """

    def __init__(
        self,
        streams: TrainingStreams,
        tokenizers: Tokenizers,
        *,
        limits: DataConfig,
        subword_sampling: float | None,
        batch_tokens: int,
        seed: int,
        num_threads: int = 1,
    ) -> None:
        """
        Args:
            limits: As for `TrainingBatches`, like all that follow.
        """
        self._streams = streams
        self._tokenizers = tokenizers
        self._limits = limits
        self._subword_sampling = subword_sampling
        self._batch_tokens = batch_tokens
        self._seed = seed
        self._num_threads = num_threads
        self._drawer = None if subword_sampling is None else Drawer(amount=subword_sampling, num_processes=num_threads)
        self._sharing = SharedEncoding()
        self._begun = 0
        self._noted: list[Place] | None = None  # where the segment begins with which it is begun
        self._before = _Totals(0, ())
        self._num_told = 0
        self._newest: tuple[int, TrainingBatches] | None = None
        self._records: dict[int, _Record] = {}

    def go_on_from(self, number: int, position: object, *, say: Callable[[str], None]) -> None:
        """Begin with segment `number`.

        Args:
            position: What `position` gave for it, as read from JSON, if anything.
            say: Receives what is worth knowing.
        """
        noted = _read_position(position, number=number, num_streams=len(self._streams.streams))
        self._begun = number
        self._before = _Totals(number, ())
        if noted is not None:
            self._noted, self._before = noted
        elif number > 0:
            say(f"where segment {number + 1} begins was not noted, so the pairs before it are counted first")

    def position(self, number: int) -> dict[str, Any] | None:
        """Where segment `number` begins, for JSON.

        Args:
            number: Of one of the last that `epoch` gave; or, before any, of that to begin with.
        """
        record = self._records.get(number)
        places, before = (self._noted, self._before) if record is None else (record.places, record.before)
        if places is None:
            return None
        return {
            "segment": number,
            "places": [place._asdict() for place in places],
            "filtered": {"first": before.first, "counts": before.counts},
        }

    @property
    def filter_reports(self) -> tuple[FilterReport, ...]:
        """Of the first segment."""
        if 0 not in self._records:
            self._prepare(0, check=lambda: None)
        return self._records[0].reports

    @property
    def num_pairs(self) -> int:
        """Pairs of the first segment that passed the filter."""
        return sum(report.num_kept for report in self.filter_reports)

    @property
    def longest(self) -> int:
        """Tokens that the longest side of a pair may have with its special symbol: the next segment may have it."""
        return max(self._limits.max_source_tokens, self._limits.max_target_tokens) + 1

    def with_batch_tokens(self, batch_tokens: int) -> "StreamedBatches":
        """The same in batches of another size, at least `longest`."""
        other = copy.copy(self)
        other._batch_tokens = batch_tokens
        if self._newest is not None:
            number, batches = self._newest
            other._newest = number, batches.with_batch_tokens(batch_tokens)
        return other

    def untold(self, number: int) -> list[str]:
        """The reports on the segments to this one that were not asked for yet, also on those without any batch."""
        first, self._num_told = max(self._num_told, self._begun), max(self._num_told, number + 1)
        return [line for each in range(first, number + 1) for line in self.report(each)]

    def report(self, number: int) -> list[str]:
        """What was left out of segment `number` and, if it is not the first, of all until it: lines for the log.

        Args:
            number: Of one of the last segments that `epoch` gave.
        """
        record = self._records[number]
        lines = [f"segment {number + 1} of the streamed corpora"]
        if record.is_counted:
            lines.append("  found by counting the pairs before it, because where datasets noted its place it is not")
        lines += [line for report in record.reports for line in report.lines()]
        totals = _add(record)
        if totals.first < number:
            lines.append(f"segments {totals.first + 1} to {number + 1}")
            for name, counts in zip(self._streams.names, totals.counts, strict=True):
                lines += FilterReport(name, self._limits, *counts).lines()
        return lines

    def epoch(self, number: int, *, check: Callable[[], None] = lambda: None) -> Epoch:
        """Segment `number`, counted from 0: the same batches in the same order whenever it is asked for.

        It comes quickly after the one before it, or where `go_on_from` has begun.

        Args:
            check: Called now and then; what it raises ends the work.

        Raises:
            InputError: The streams cannot be read, or not a pair of the first segment is left by the filter.
            RunError: Later segments cannot be read.
        """
        if self._newest is None or self._newest[0] != number:
            self._prepare(number, check=check)
        assert self._newest is not None
        return self._newest[1].epoch(number, check=check)

    def _prepare(self, number: int, *, check: Callable[[], None]) -> None:
        self._newest = None  # its memory is needed
        places = self._noted if number == self._begun else None
        if number in self._records:
            places = self._records[number].places
        if is_first := number == 0:
            places = None  # it is there; whether it is the same, the checksum of the data says

        def encode(texts: Sequence[str], tokenizer: Tokenizer) -> EncodedLines:
            ids = self._sharing.encode(texts, tokenizer, num_threads=self._num_threads, check=check)
            return EncodedLines(ids, vocab_size=tokenizer.vocab_size, content="the token ids of a segment")

        try:
            with self._sharing.together():
                segment = self._streams.first if is_first else self._streams.segment(number, places=places, check=check)
                batches = TrainingBatches(
                    segment.corpora,
                    self._tokenizers,
                    limits=self._limits,
                    subword_sampling=self._subword_sampling,
                    batch_tokens=self._batch_tokens,
                    seed=self._seed,
                    drawer=self._drawer,
                    encode=encode,
                    may_be_empty=number > 0,
                )
        except InputError as error:
            if number == self._begun:
                raise
            raise RunError(
                f"segment {number + 1} of the training data: {error}. When that is mended, go on by --resume"
            ) from error
        before = _add(self._records[number - 1]) if number - 1 in self._records else self._before
        states = [[place.state for place in each] for each in (places or segment.places, segment.places)]
        self._records[number] = _Record(segment.places, batches.filter_reports, before, states[0] != states[1])
        kept = {0, *sorted(self._records)[-_NUM_RECORDS:]}
        self._records = {number: record for number, record in self._records.items() if number in kept}
        self._newest = number, batches


def _add(record: _Record) -> _Totals:
    """Of a segment and of those before it."""
    these = tuple(tuple(report[2:]) for report in record.reports)
    before = record.before.counts or tuple((0,) * len(counts) for counts in these)
    sums = (tuple(map(sum, zip(*each, strict=True))) for each in zip(before, these, strict=True))
    return _Totals(record.before.first, tuple(sums))


def _read_position(position: object, *, number: int, num_streams: int) -> tuple[list[Place], _Totals] | None:
    """What `StreamedBatches.position` gave; None, if it is not that of this segment, or of another version's form."""
    if not isinstance(position, dict) or position.get("segment") != number:
        return None
    try:
        places = [Place(**place) for place in position["places"]]
        filtered = position["filtered"]
        totals = _Totals(filtered["first"], tuple(map(tuple, filtered["counts"])))
    except (KeyError, TypeError):
        return None
    return (places, totals) if len(places) == num_streams else None


Batches = TrainingBatches | StreamedBatches
