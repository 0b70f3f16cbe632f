"""What is trained on of streamed corpora: epoch n is segment n, encoded, filtered and planned like any other epoch."""

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from translate.config import DataConfig
from translate.data.drawing import Drawer
from translate.data.encoded import EncodedLines
from translate.data.epochs import Epoch, TrainingBatches
from translate.data.filtering import FilterReport
from translate.data.segments import TrainingStreams
from translate.data.sharing import SharedEncoding
from translate.data.streaming import Place
from translate.data.tokenizer import Tokenizer, Tokenizers
from translate.errors import InputError, RunError

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
