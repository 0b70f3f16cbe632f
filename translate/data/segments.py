"""Streamed corpora side by side: a segment of all of them is to a training what an epoch is of other data."""

import contextlib
import math
from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import NamedTuple, TypeGuard

from translate.config import Corpus, DataConfig, HubCorpus, TableCorpus
from translate.data.corpora import ParallelCorpus, read_corpus
from translate.data.streaming import CorpusStream, Place
from translate.errors import InputError


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
