"""Corpora that are never held whole: read in segments of so many pairs, pass after pass, each from an exact position.

A segment is to a training what an epoch is of other data: encoded, filtered and cut into batches. What segment n holds
depends on the streams and on n alone, so a saved position saves time and decides nothing.
"""

import copy
import hashlib
import logging
import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, TypeGuard

from translate.config import Corpus, DataConfig, HubCorpus, TableCorpus
from translate.data.corpora import JoinedText, ParallelCorpus, read_corpus, store_pairs
from translate.data.encoding import ProcessGroup, encode_together, run_together
from translate.data.epochs import Epoch, TrainingBatches
from translate.data.filtering import FilterReport
from translate.data.subword_sampling import SamplingPool
from translate.data.tables import PairChunk, open_stream, pairs_of, reading, table_name
from translate.data.token_store import TokenStore
from translate.data.tokenizer import Tokenizers
from translate.errors import InputError, RunError

logger = logging.getLogger(__name__)

_CHUNK_ROWS = 1000
_NUM_REMEMBERED = 4  # of the last segments: one is trained on, and one may be prepared meanwhile


def _no_check() -> None:
    """Never end the work."""


class StreamPosition(NamedTuple):
    """Where a segment begins in a stream."""

    num_passes: int  # over the whole stream, before this one
    num_pairs: int  # of this pass, before the segment
    state: dict[str, Any] | None  # by which `datasets` finds a row shortly before; None: the beginning of the pass
    num_skipped: int  # pairs from that row to the segment
    sha256: str | None  # of the segment's text; None: it has not been read


_BEGINNING = StreamPosition(0, 0, None, 0, None)


class _Pass:
    """The rows of a stream from a position to its end."""

    def __init__(self, corpus: TableCorpus | HubCorpus, position: StreamPosition, check: Callable[[], None]) -> None:
        self._corpus = corpus
        self._number = position.num_passes
        self._rows = open_stream(corpus)
        with reading(corpus):
            if position.state is not None:
                self._rows.load_state_dict(position.state)
            self._tables = self._rows.iter(batch_size=_CHUNK_ROWS)
        weakref.finalize(self, self._tables.close)  # before Python loses what its readers need to clean up
        self._table: Any = None
        self._num_used = 0  # rows of the table
        self._state_before = self._state_after = position.state
        self._num_rows = position.num_pairs - position.num_skipped  # rows of the pass that were taken or skipped
        for _ in self.take(position.num_skipped):
            check()

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
            rows = self._table.slice(self._num_used, count)
            self._num_used += len(rows)
            self._num_rows += len(rows)
            count -= len(rows)
            yield rows

    @property
    def position(self) -> StreamPosition:
        """The position of the next row."""
        if self._table is None or self._num_used == len(self._table):
            return StreamPosition(self._number, self._num_rows, self._state_after, 0, None)
        return StreamPosition(self._number, self._num_rows, self._state_before, self._num_used, None)


class CorpusStream:
    """One corpus, read segment by segment. The last segment of a pass is shorter, and the next begins a new pass."""

    def __init__(self, corpus: TableCorpus | HubCorpus, *, key: str, segment_pairs: int) -> None:
        """
        Args:
            key: Where the corpus stands in the config; errors begin with it.
            segment_pairs: At least 1.
        """
        self.name = table_name(corpus)
        self.position = _BEGINNING
        """Where the next segment is to be read."""
        self._corpus = corpus
        self._key = key
        self._segment_pairs = segment_pairs
        self._pass: _Pass | None = None  # which stands at the position

    @property
    def identity(self) -> str:
        """What tells the stream apart, besides its first pairs: a data set's name and revision, or a file's size."""
        corpus = self._corpus
        if isinstance(corpus, HubCorpus):
            origin: tuple[object, ...] = (corpus.dataset, corpus.subset, corpus.split, corpus.revision)
        else:
            origin = (corpus.kind, corpus.path.stat().st_size)
        return repr((*origin, corpus.source_column, corpus.target_column, corpus.weight, self._segment_pairs))

    def seek(self, position: StreamPosition) -> None:
        """Read the next segment from a position."""
        self._pass, self.position = None, position

    def read(self, *, check: Callable[[], None] = _no_check) -> tuple[ParallelCorpus, StreamPosition]:
        """Read the next segment.

        Args:
            check: Called now and then; an exception that it raises ends the reading.

        Returns:
            The segment, and where it begins.

        Raises:
            InputError: The segment cannot be read, or the stream has no pair at all; the message begins with the key.
            RunError: The segment is large, and its text cannot be written to a temporary file.
        """
        digest = _PairDigest()
        try:
            sources, targets = store_pairs(digest.watch(self._chunks(check)), name=self.name)
        except InputError as error:
            raise InputError(f"{self._key}: {error}") from error.__cause__
        begin = self.position._replace(sha256=digest.hexdigest())
        first, last = begin.num_pairs + 1, begin.num_pairs + len(sources)
        which_pass = f", pass {begin.num_passes + 1}" if begin.num_passes else ""
        name = f"{self.name}, pairs {first:,} to {last:,} of the stream{which_pass}"
        assert self._pass is not None
        self.position = self._pass.position
        return ParallelCorpus(name, sources, targets, 1.0), begin

    def read_noted(
        self, noted: StreamPosition, *, check: Callable[[], None] = _no_check
    ) -> tuple[ParallelCorpus, StreamPosition]:
        """Read the segment at a position that was noted in another process.

        The state of `datasets` may lead elsewhere in another version of it; then the pairs before are counted.

        Raises:
            InputError: As in `read`; or the stream has other pairs than when the position was noted.
        """
        counted = noted._replace(state=None, num_skipped=noted.num_pairs)
        for position in (noted, counted):
            self.seek(position)
            try:
                corpus, found = self.read(check=check)
            except InputError:
                if position == counted:
                    raise
                continue
            if found.sha256 == noted.sha256:
                if position != noted:
                    logger.warning(
                        f"{corpus.name}: found by counting the pairs before it, because it is not where datasets noted"
                        " its position"
                    )
                return corpus, found
        raise InputError(
            f"{corpus.name}: these are not the pairs that this run was trained on, so it cannot be continued; give"
            " the data that it was begun with (of a data set of the Hub, its revision), or begin a new run"
        )

    def _chunks(self, check: Callable[[], None]) -> Iterator[PairChunk]:
        """The pairs of the segment at the position; at the end of a pass, the next pass begins."""
        for is_new_pass in (False, True):
            if is_new_pass:
                self.seek(_BEGINNING._replace(num_passes=self.position.num_passes + 1))
            self._pass = self._pass or _Pass(self._corpus, self.position, check)
            num_read = 0
            for table in self._pass.take(self._segment_pairs):
                check()
                yield pairs_of(table, self._corpus, num_before=self.position.num_pairs + num_read)
                num_read += len(table)
            if num_read:
                return
        raise InputError(f"{self.name} has no sentence pair")


class _PairDigest:
    """A checksum of pairs that does not depend on how they are cut into chunks."""

    def __init__(self) -> None:
        self._sides = (hashlib.sha256(), hashlib.sha256())

    def watch(self, chunks: Iterable[PairChunk]) -> Iterator[PairChunk]:
        """The same chunks, which are added to the checksum."""
        for chunk in chunks:
            for digest, lines in zip(self._sides, chunk, strict=True):
                digest.update("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass"))
            yield chunk

    def hexdigest(self) -> str:
        """The checksum of both sides."""
        return hashlib.sha256(b"".join(digest.digest() for digest in self._sides)).hexdigest()


class Segment(NamedTuple):
    """The pairs of one segment of all training corpora."""

    corpora: list[ParallelCorpus]  # those of `data.train`; of the streamed ones a part
    positions: list[StreamPosition]  # where the parts of the streamed ones begin


class TrainingStreams:
    """The corpora of `data.train`, some of which are streamed; the others are in every segment, whole.

    The streams share a segment in proportion to their weights, and each begins anew when it ends. So the weight of a
    corpus that is not streamed means what it always means: how often each pair is seen in an epoch.
    """

    def __init__(self, data: DataConfig) -> None:
        """
        Args:
            data: At least one training corpus must be streamed.

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
        self._next = 0  # the number of the segment at which the streams stand
        self.first = self.segment(0)
        """The first segment stands for all of the data where not all of them can be looked at."""

    @property
    def names(self) -> list[str]:
        """The names of all corpora, in the config's order."""
        return [corpus.name for corpus in self._corpora]

    @property
    def identity(self) -> str:
        """What tells the streams apart, besides their first segment."""
        return "\n".join(stream.identity for stream in self.streams)

    def segment(
        self,
        number: int,
        *,
        positions: Sequence[StreamPosition] | None = None,
        check: Callable[[], None] = _no_check,
    ) -> Segment:
        """Read segment `number`, counted from 0.

        Args:
            positions: Where the segment begins in each stream, if that was noted. Otherwise the segments before it are
                read, unless it follows the segment that was read last.
            check: Called now and then; an exception that it raises ends the reading.

        Raises:
            InputError: A corpus cannot be read, or has other pairs than when the positions were noted; the message
                begins with its key.
            RunError: The text cannot be written to a temporary file.
        """
        begins = [stream.position for stream in self.streams]
        try:
            if positions is not None:
                parts = [
                    stream.read_noted(position, check=check)
                    for stream, position in zip(self.streams, positions, strict=True)
                ]
            else:
                if number < self._next:
                    begins, self._next = [_BEGINNING] * len(self.streams), 0
                    self._seek(begins)
                for _ in range(number - self._next + 1):
                    parts = [stream.read(check=check) for stream in self.streams]
        except BaseException:
            self._seek(begins)
            raise
        self._next = number + 1
        remaining = iter(parts)
        corpora = [next(remaining)[0] if isinstance(each, CorpusStream) else each for each in self._corpora]
        return Segment(corpora, [position for _, position in parts])

    def _seek(self, positions: Sequence[StreamPosition]) -> None:
        for stream, position in zip(self.streams, positions, strict=True):
            stream.seek(position)


def _is_streamed(corpus: Corpus) -> TypeGuard[TableCorpus | HubCorpus]:
    return isinstance(corpus, TableCorpus | HubCorpus) and corpus.streaming


def _shares(weights: list[float], segment_pairs: int) -> list[int]:
    """The pairs of a segment for each stream, in proportion to the weights and at least one."""
    ends = list(accumulate(weights))
    borders = [0, *(math.floor(segment_pairs * end / ends[-1] + 0.5) for end in ends)]
    return [max(1, end - start) for start, end in pairwise(borders)]


class FilterTotals(NamedTuple):
    """What the filter counted over some segments."""

    first: int  # the number of the first of the segments
    counts: tuple[tuple[int, ...], ...]  # for each corpus, those of a `FilterReport`

    def plus(self, reports: Sequence[FilterReport]) -> "FilterTotals":
        """The totals with one more segment."""
        counts = [tuple(report[2:]) for report in reports]
        if self.counts:
            counts = [tuple(map(sum, zip(*each, strict=True))) for each in zip(self.counts, counts, strict=True)]
        return FilterTotals(self.first, tuple(counts))


class _Prepared(NamedTuple):
    """What remains known of a segment that was prepared."""

    positions: list[StreamPosition]
    reports: tuple[FilterReport, ...]  # one for each corpus
    totals_before: FilterTotals


class StreamedBatches:
    """Like `TrainingBatches`, but each epoch is the next segment of `TrainingStreams`.

    A segment is prepared when its epoch is asked for, perhaps in a thread; two segments are held at once, one of which
    is trained on.
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
        processes: ProcessGroup,
        num_threads: int = 1,
    ) -> None:
        """
        Args:
            processes: The processes that train together, with connections that nothing else uses. All must prepare the
                same segments; each encodes a part. The other arguments are as in `TrainingBatches`.
        """
        self._streams = streams
        self._tokenizers = tokenizers
        self._limits = limits
        self._subword_sampling = subword_sampling
        self._batch_tokens = batch_tokens
        self._seed = seed
        self._processes = processes
        self._num_threads = num_threads
        self._sampling_pool = None
        if subword_sampling is not None:
            self._sampling_pool = SamplingPool(amount=subword_sampling, num_processes=num_threads)
        self._begun = 0
        self._noted: list[StreamPosition] | None = None  # the positions of the segment that a continued run begins with
        self._totals_before = FilterTotals(0, ())
        self._newest: tuple[int, TrainingBatches] | None = None
        self._prepared: dict[int, _Prepared] = {}

    def continue_from(self, number: int, position: object) -> None:
        """Begin with segment `number`.

        Args:
            position: What `position` gave for the segment, as read from JSON, if anything.
        """
        noted = _read_position(position, number=number, num_streams=len(self._streams.streams))
        self._begun = number
        self._totals_before = FilterTotals(number, ())
        if noted is not None:
            self._noted, self._totals_before = noted
        elif number > 0:
            logger.warning(f"The checkpoint does not say where segment {number + 1} begins: reading those before it")

    def position(self, number: int) -> dict[str, Any] | None:
        """Where segment `number` begins, for JSON.

        Args:
            number: One of the last segments that `epoch` gave; or, before any, the segment to begin with.
        """
        prepared = self._prepared.get(number)
        positions, totals = (
            (self._noted, self._totals_before) if prepared is None else (prepared.positions, prepared.totals_before)
        )
        if positions is None:
            return None
        return {
            "segment": number,
            "places": [position._asdict() for position in positions],
            "filtered": totals._asdict(),
        }

    @property
    def filter_reports(self) -> tuple[FilterReport, ...]:
        """The filter's reports on the first segment."""
        if 0 not in self._prepared:
            self._prepare(0, check=_no_check)
        return self._prepared[0].reports

    @property
    def num_pairs(self) -> int:
        """The pairs of the first segment that passed the filter."""
        return sum(report.num_kept for report in self.filter_reports)

    @property
    def longest(self) -> int:
        """The tokens that the longest side of a pair may have with its special symbol, in any segment."""
        return max(self._limits.max_source_tokens, self._limits.max_target_tokens) + 1

    def with_batch_tokens(self, batch_tokens: int) -> "StreamedBatches":
        """The same streams in batches of another size, at least `longest`."""
        other = copy.copy(self)
        other._batch_tokens = batch_tokens
        if self._newest is not None:
            number, batches = self._newest
            other._newest = number, batches.with_batch_tokens(batch_tokens)
        return other

    def epoch(self, number: int, *, check: Callable[[], None] = _no_check) -> Epoch:
        """Segment `number`, counted from 0: the same batches in the same order whenever it is asked for.

        A segment comes quickly after the one before it, or where `continue_from` has begun.

        Args:
            check: Called now and then; an exception that it raises ends the work.

        Raises:
            InputError: The streams cannot be read, or the filter leaves no pair of the first segment.
            RunError: A later segment cannot be read.
            Cancelled: Another process of the training does not need the segment any more.
        """
        if self._newest is None or self._newest[0] != number:
            self._prepare(number, check=check)
        assert self._newest is not None
        return self._newest[1].epoch(number, check=check)

    def _prepare(self, number: int, *, check: Callable[[], None]) -> None:
        self._newest = None  # frees its memory
        positions = self._noted if number == self._begun else None
        if number in self._prepared:
            positions = self._prepared[number].positions

        def read() -> Segment:
            if number == 0:
                return self._streams.first
            return self._streams.segment(number, positions=positions, check=check)

        try:
            segment = run_together(self._processes, read)
            encoded = self._encode(segment, check)
            batches = run_together(self._processes, lambda: self._make_batches(segment, number, encoded))
        except InputError as error:
            if number == self._begun:
                raise
            raise RunError(
                f"segment {number + 1} of the training data: {error}. When that is mended, continue with --resume"
            ) from error
        before = self._totals_before
        if number - 1 in self._prepared:
            before = self._prepared[number - 1].totals_before.plus(self._prepared[number - 1].reports)
        self._prepared[number] = _Prepared(segment.positions, batches.filter_reports, before)
        remembered = {0, *sorted(self._prepared)[-_NUM_REMEMBERED:]}
        self._prepared = {number: each for number, each in self._prepared.items() if number in remembered}
        self._newest = number, batches
        if number > 0:
            self._log_report(number)

    def _encode(self, segment: Segment, check: Callable[[], None]) -> tuple[TokenStore, TokenStore]:
        sources, targets = (
            encode_together(
                texts,
                tokenizer,
                processes=self._processes,
                num_threads=self._num_threads,
                content="the token ids of a segment",
                check=check,
            )
            for texts, tokenizer in (
                (JoinedText(corpus.sources for corpus in segment.corpora), self._tokenizers.source),
                (JoinedText(corpus.targets for corpus in segment.corpora), self._tokenizers.target),
            )
        )
        return sources, targets

    def _make_batches(self, segment: Segment, number: int, encoded: tuple[TokenStore, TokenStore]) -> TrainingBatches:
        return TrainingBatches(
            segment.corpora,
            self._tokenizers,
            limits=self._limits,
            subword_sampling=self._subword_sampling,
            batch_tokens=self._batch_tokens,
            seed=self._seed,
            sampling_pool=self._sampling_pool,
            encoded=encoded,
            may_be_empty=number > 0,
        )

    def _log_report(self, number: int) -> None:
        """Log what was left out of a segment, and of all segments up to it."""
        prepared = self._prepared[number]
        logger.info(f"Segment {number + 1} of the streamed corpora prepared")
        for report in prepared.reports:
            for line in report.lines():
                logger.info(line)
        totals = prepared.totals_before.plus(prepared.reports)
        if totals.first < number:
            logger.info(f"Segments {totals.first + 1} to {number + 1} together")
            for name, counts in zip(self._streams.names, totals.counts, strict=True):
                for line in FilterReport(name, self._limits, *counts).lines():
                    logger.info(line)


def _read_position(
    position: object, *, number: int, num_streams: int
) -> tuple[list[StreamPosition], FilterTotals] | None:
    """What `StreamedBatches.position` gave; None if it is of another segment, or in another version's format."""
    if not isinstance(position, dict) or position.get("segment") != number:
        return None
    try:
        positions = [StreamPosition(**place) for place in position["places"]]
        filtered = position["filtered"]
        totals = FilterTotals(filtered["first"], tuple(map(tuple, filtered["counts"])))
    except (KeyError, TypeError):
        return None
    return (positions, totals) if len(positions) == num_streams else None


Batches = TrainingBatches | StreamedBatches
