"""Corpora that are never entirely in memory: read in segments, pass after pass, each from an exact position.

A segment of a stream is used like an epoch of other data: encoded, filtered and batched. Segment n depends only
on the streams and on n, so a saved position saves time and changes nothing.
"""

import copy
import hashlib
import logging
import math
import weakref
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate, chain, pairwise
from typing import Any

from translate.bars import show_progress
from translate.config.data import DataConfig, HubCorpus, TableCorpus, is_stream
from translate.config.languages import Languages
from translate.data.corpora import ParallelCorpus, join_texts, read_corpus, store_pairs, tag_corpus
from translate.data.epochs import BatchSettings, Epoch, TrainingBatches
from translate.data.filtering import FilterReport, log_reports
from translate.data.subword_sampling import SamplingPool
from translate.data.tables import FORMATS, PairChunk, StreamPosition, open_stream, table_name
from translate.data.token_store import CheckCancelled, TokenChunk, TokenStore, TokenWriter, encode_chunks
from translate.data.tokenizer import Tokenizer, Tokenizers
from translate.distributed.process_group import World
from translate.errors import InputError, RunError
from translate.files import find_files

logger = logging.getLogger(__name__)

_NUM_REMEMBERED = 4  # positions of the last segments: one is being trained on, and one may be in preparation
_EXCHANGED_LINES = 10_000  # encoded by each process before all exchange their ids


class CorpusStream:
    """One corpus, read segment by segment. The last segment of a pass is shorter, and the next begins a new pass."""

    def __init__(self, corpus: TableCorpus | HubCorpus, *, key: str, segment_pairs: int, languages: Languages) -> None:
        self.name, self._languages = table_name(corpus), languages
        self._corpus = corpus
        self.key = key
        self.segment_pairs = segment_pairs
        self._opened: list[Any] = []  # the iterator over chunks, if it is open
        weakref.finalize(self, _close, self._opened)  # while Python still has what its readers need to clean up
        self.seek(StreamPosition())

    def seek(self, position: StreamPosition) -> None:
        """Read the next segment from a position."""
        if isinstance(self._corpus, TableCorpus):  # always read from its beginning
            position = position._replace(num_skipped=position.num_pairs)
        self.position = position
        """Where the next segment begins."""
        _close(self._opened)

    @property
    def identity(self) -> str:
        """Identifies the stream together with its first pairs: name and revision of a data set, or size of a file."""
        corpus = self._corpus
        columns = corpus.source_column, corpus.target_column
        if isinstance(corpus, HubCorpus):
            origin = corpus.dataset, corpus.subset, corpus.split, corpus.revision
            return repr((*origin, *columns, corpus.weight, self.segment_pairs))
        num_bytes = sum(path.stat().st_size for path in find_files(corpus.path, FORMATS[corpus.kind].suffixes))
        return repr((corpus.kind, num_bytes, *columns, corpus.weight, self.segment_pairs))

    def read(self, *, check: CheckCancelled = lambda: None) -> tuple[ParallelCorpus, StreamPosition]:
        """Read the next segment, and return it with the position at which it begins.

        Raises:
            InputError: The segment cannot be read, or differs from the one whose position was saved.
            RunError: The segment is large, and its text cannot be written to a temporary file.
        """
        noted_sha256 = self.position.sha256
        digests = hashlib.sha256(), hashlib.sha256()
        try:
            sources, targets = store_pairs(self._chunks(check, digests), name=self.name)
        except InputError as error:
            raise InputError(f"{self.key}: {error}") from error.__cause__
        digest = hashlib.sha256(b"".join(side.digest() for side in digests))
        begin = self.position._replace(sha256=digest.hexdigest())
        first, last = begin.num_pairs + 1, begin.num_pairs + len(sources)
        which_pass = f", pass {begin.num_passes + 1}" if begin.num_passes else ""
        name = f"{self.name}, pairs {first:,} to {last:,} of the stream{which_pass}"
        if noted_sha256 not in (None, begin.sha256):
            raise InputError(
                f"{name}: these are not the pairs that this run was trained on, so it cannot be continued: the data or"
                " the version of datasets has changed. Restore the original data (for a data set of the Hub, set its"
                " revision), or start a new run"
            )
        self.position = StreamPosition(begin.num_passes, last, self._state, self._num_used)
        corpus = self._corpus
        part = ParallelCorpus(name, sources, targets, 1.0, corpus.source_tag, augment=corpus.augment)
        return tag_corpus(part, corpus, self._languages), begin

    def _chunks(self, check: CheckCancelled, digests: Sequence[Any]) -> Iterator[PairChunk]:
        """The pairs of the segment at the position, added to the digests; at the end of a pass the next one begins."""
        for is_new_pass in (False, True):
            if is_new_pass:
                self.seek(StreamPosition(num_passes=self.position.num_passes + 1))
            if not self._opened:
                self._opened.append(open_stream(self._corpus, self.position))
                self._chunk, self._num_used = PairChunk([], []), 0
                for _ in self._take(self.position.num_skipped):
                    check()
            num_read = 0
            for pairs in self._take(self.segment_pairs):
                check()
                num_read += len(pairs.sources)
                for digest, lines in zip(digests, pairs, strict=True):
                    digest.update("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass"))
                yield pairs
            if num_read:
                return
        raise InputError(f"{self.name} has no sentence pair")

    def _take(self, count: int) -> Iterator[PairChunk]:
        """The next `count` pairs, or all that are left in this pass."""
        while count:
            if self._num_used == len(self._chunk.sources):
                found = next(self._opened[0], None)
                if found is None:
                    return
                (self._chunk, self._state), self._num_used = found, 0
            pairs = PairChunk(*(side[self._num_used : self._num_used + count] for side in self._chunk))
            self._num_used += len(pairs.sources)
            count -= len(pairs.sources)
            yield pairs


def _close(opened: list[Any]) -> None:
    while opened:
        opened.pop().close()


class TrainingStreams:
    """The corpora of `data.train`, some of which are streamed; every segment contains all of the others.

    The streams share a segment in proportion to their weights. A segment has at most one pass of each, and a stream
    that has ended starts again in the next segment. The weight of a corpus that is not streamed has its usual meaning:
    how often each pair is seen in an epoch.

    Raises:
        InputError: A corpus cannot be used; the message begins with its key.
    """

    def __init__(self, data: DataConfig) -> None:
        ends = list(accumulate(corpus.weight for corpus in data.train if is_stream(corpus)))
        borders = [0, *(math.floor(data.stream_segment_pairs * end / ends[-1] + 0.5) for end in ends)]
        shares = (max(1, end - start) for start, end in pairwise(borders))
        languages = Languages(data)
        self._corpora: list[ParallelCorpus | CorpusStream] = [
            CorpusStream(corpus, key=key, segment_pairs=next(shares), languages=languages)
            if is_stream(corpus)
            else read_corpus(corpus, key=key, languages=languages)
            for key, corpus in data.corpora("train").items()
        ]
        self.streams = [corpus for corpus in self._corpora if isinstance(corpus, CorpusStream)]
        self.positions: dict[int, list[StreamPosition]] = {}
        """Where the last segments begin in each stream; these segments can be read directly."""
        self._next = 0  # number of the segment that the streams read next
        self.first = self.segment(0)
        """The first segment. Whatever needs the text before training, such as the tokenizer, is made from it alone."""

    @property
    def identity(self) -> str:
        """Identifies the streams together with their first segment."""
        return "\n".join(stream.identity for stream in self.streams)

    def segment(self, number: int, *, check: CheckCancelled = lambda: None) -> list[ParallelCorpus]:
        """Read segment `number`, counted from 0: the corpora of `data.train`, and the next part of each streamed one.

        If its position is not known, it must come after the segment that was read last; all in between are read too.

        Raises:
            InputError: A corpus cannot be read, or has changed since the position was saved.
            RunError: The text cannot be written to a temporary file.
        """
        num_reads = number - self._next + 1
        if number in self.positions:
            num_reads = 1
            for stream, position in zip(self.streams, self.positions[number], strict=True):
                stream.seek(position)
        for _ in range(num_reads):
            parts = [stream.read(check=check) for stream in self.streams]
        self._next = number + 1
        self.positions[number] = [position for _, position in parts]
        self.positions.pop(number - _NUM_REMEMBERED, None)
        remaining = iter(parts)
        return [next(remaining)[0] if isinstance(corpus, CorpusStream) else corpus for corpus in self._corpora]


class StreamedBatches:
    """Like `TrainingBatches`, but each epoch is the next segment of `TrainingStreams`.

    Args:
        world: The processes that train together, with connections that nothing else uses. All must prepare the same
            segments; each encodes a part.
    """

    def __init__(
        self, streams: TrainingStreams, tokenizers: Tokenizers, settings: BatchSettings, *, world: World
    ) -> None:
        self._streams = streams
        self._tokenizers = tokenizers
        self._settings = settings
        self._world = world
        self._sampling_pool = SamplingPool(num_processes=settings.num_threads)
        self._newest: tuple[int, TrainingBatches] | None = None
        self.filter_reports: list[FilterReport] = []
        """The filter's reports on the first segment, once that is prepared."""

    def continue_from(self, number: int, position: dict[str, Any] | None) -> None:
        """Continue with segment `number`.

        Args:
            position: What `position(number)` returned, as read from JSON; None: all segments before it are read again.
        """
        if position is not None:
            self._streams.positions[number] = [StreamPosition(**place) for place in position["places"]]

    def position(self, number: int) -> dict[str, Any] | None:
        """Where one of the last few segments begins, as JSON; None for any other segment."""
        positions = self._streams.positions.get(number)
        return None if positions is None else {"segment": number, "places": [place._asdict() for place in positions]}

    @property
    def longest(self) -> int:
        """Most tokens on a side of a pair with its special symbol, in any segment."""
        return max(self._settings.limits.max_source_tokens, self._settings.limits.max_target_tokens) + 1

    @property
    def largest_batch(self) -> tuple[int, int]:
        """Like `TrainingBatches.largest_batch`, of the newest segment; zeros if there is none yet."""
        return (0, 0) if self._newest is None else self._newest[1].largest_batch

    def sample_sources(self, number: int) -> list[str]:
        """Like `TrainingBatches.sample_sources`, of the newest segment; empty if there is none yet."""
        return [] if self._newest is None else self._newest[1].sample_sources(number)

    def with_batch_tokens(self, batch_tokens: int) -> "StreamedBatches":
        """The same streams in batches of another size, at least `longest`."""
        other = copy.copy(self)
        other._settings = self._settings._replace(batch_tokens=batch_tokens)
        if self._newest is not None:
            other._newest = self._newest[0], self._newest[1].with_batch_tokens(batch_tokens)
        return other

    def epoch(self, number: int, *, check: CheckCancelled = lambda: None, is_changed: bool = True) -> Epoch:
        """Segment `number`, counted from 0: the same batches in the same order whenever it is asked for.

        Raises:
            InputError: The first segment cannot be read, or the filter leaves no pair of it.
            RunError: A later segment cannot be read.
            Cancelled: Another training process no longer needs the segment.
        """
        if self._newest is None or self._newest[0] != number:
            self._newest = None  # frees its memory
            self._newest = number, self._prepare(number, check)
        return self._newest[1].epoch(number, check=check, is_changed=is_changed)

    def _prepare(self, number: int, check: CheckCancelled) -> TrainingBatches:
        read = partial(self._streams.segment, number, check=check)
        try:
            corpora = self._world.run_cancellable(read if number else lambda: self._streams.first)
            sides = zip(join_texts(corpora, with_tags=True), self._tokenizers[:2], strict=True)
            encoded = [self._encode(texts, tokenizer, check) for texts, tokenizer in sides]
            make_batches = partial(TrainingBatches, corpora, self._tokenizers, self._settings, encoded=encoded)
            make_batches = partial(make_batches, sampling_pool=self._sampling_pool, may_be_empty=number > 0)
            batches = self._world.run_cancellable(make_batches)
        except InputError as error:
            if number == 0:
                raise
            raise RunError(
                f"segment {number + 1} of the training data: {error}. Once that is fixed, continue with --resume"
            ) from error
        if number == 0:
            self.filter_reports = batches.filter_reports
        else:
            logger.info(f"Segment {number + 1} of the streamed corpora prepared")
            log_reports(batches.filter_reports)
        return batches

    def _encode(self, texts: Sequence[str], tokenizer: Tokenizer, check: CheckCancelled) -> TokenStore:
        """The ids of each line: each process encodes a part, and all processes get all ids."""
        writer, world = TokenWriter("the token ids of a segment"), self._world
        with show_progress("Encoding the next segment", len(texts), unit="lines") as advance:
            for first in range(0, len(texts), _EXCHANGED_LINES * world.size):
                start = first + world.rank * _EXCHANGED_LINES
                lines = texts[start : start + _EXCHANGED_LINES]
                own = encode_chunks(lines, tokenizer, num_threads=self._settings.num_threads, check=check)
                parts = world.all_gather(world.run_cancellable(partial(list[TokenChunk], own)))
                # All store at the same time, so that one full disk ends all processes.
                world.run_cancellable(partial(writer.add, *chain.from_iterable(parts)))
                advance(_EXCHANGED_LINES * world.size)
        return writer.finish()


Batches = TrainingBatches | StreamedBatches
