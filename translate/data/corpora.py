"""Text in: files, tables and Hub data sets become sentences and their translations, or an error naming the place.

Nothing is silently changed or dropped here. A sentence out of a table may contain a newline; it is kept, and
SentencePiece's normalisation takes it for a space.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from translate.config import Corpus, HubCorpus, TableCorpus, TextCorpus, TsvCorpus
from translate.data.tables import read_hub, read_table
from translate.data.text import stream_lines
from translate.data.texts import PairChunk, store_pairs
from translate.errors import InputError

_CHUNK_LINES = 1000


class ParallelCorpus(NamedTuple):
    """Sentences and their translations: `targets[i]` translates `sources[i]`.

    A large corpus is in a file: go through it in order, by iteration or in slices (which are lists).
    """

    name: str  # for logs: the files or the data set
    sources: Sequence[str]
    targets: Sequence[str]
    weight: float  # how often each pair is seen in one epoch


def read_corpus(corpus: Corpus, *, key: str) -> ParallelCorpus:
    """Reads one corpus of any kind.

    Args:
        key: Where the corpus stands in the config, such as `data.train.0`; errors begin with it.

    Raises:
        InputError: The corpus is missing, damaged, misaligned, or has no pair.
        RunError: It is large, and its text cannot be written to a temporary file.
    """
    try:
        match corpus:
            case TextCorpus():
                name = f"{corpus.source}, {corpus.target}"
                pairs = store_pairs(_text_pairs(corpus), name=name)
            case TsvCorpus():
                name = str(corpus.path)
                pairs = store_pairs(_tsv_pairs(corpus), name=name)
            case TableCorpus():
                name = str(corpus.path)
                pairs = read_table(corpus)
            case HubCorpus():
                name = f"{corpus.dataset}[{corpus.split}]"
                pairs = read_hub(corpus)
    except InputError as error:
        raise InputError(f"{key}: {error}") from error.__cause__
    if not len(pairs.sources):
        raise InputError(f"{key}: {name} has no sentence pair")
    return ParallelCorpus(name, pairs.sources, pairs.targets, corpus.weight)


def _text_pairs(corpus: TextCorpus) -> Iterator[PairChunk]:
    sources, targets = stream_lines(corpus.source), stream_lines(corpus.target)
    while True:
        chunk = PairChunk(list(islice(sources, _CHUNK_LINES)), list(islice(targets, _CHUNK_LINES)))
        if len(chunk.sources) != len(chunk.targets):
            raise InputError(unequal_message(corpus.source, corpus.target))
        if not chunk.sources:
            return
        yield chunk


def unequal_message(source: Path, target: Path) -> str:
    """For two files of unlike numbers of lines, which are read again, for the lengths alone."""
    sources, targets = _line_lengths(source), _line_lengths(target)
    message = (
        f"{source} has {len(sources)} lines and {target} has {len(targets)};"
        " line N of one must translate line N of the other"
    )
    if len(sources) and len(targets):
        message += f". Judging by the lengths of the lines, they part near line {_slip_line(sources, targets)}"
    return message


def _line_lengths(path: Path) -> NDArray[np.int32]:
    return np.fromiter(map(len, stream_lines(path)), dtype=np.int32)


def _slip_line(source_lengths: NDArray[np.int32], target_lengths: NDArray[np.int32]) -> int:
    """The likeliest line (from 1) at which the longer list has its surplus lines.

    Until there line i should pair with line i, and from there with line i + surplus; the place is chosen where the
    lengths of the paired lines agree best, with the difference of their logarithms as the cost.
    """
    shorter, longer = sorted(
        (np.log1p(lengths) for lengths in (source_lengths, target_lengths)), key=lambda lengths: int(lengths.size)
    )
    surplus = longer.size - shorter.size
    offset = longer.mean() - shorter.mean()  # one language may use more letters throughout
    before = np.abs(longer[: shorter.size] - shorter - offset)
    after = np.abs(longer[surplus:] - shorter - offset)
    cost = np.concatenate([[0.0], np.cumsum(before)]) + np.concatenate([np.cumsum(after[::-1])[::-1], [0.0]])
    return int(cost.argmin()) + 1


def _tsv_pairs(corpus: TsvCorpus) -> Iterator[PairChunk]:
    needed = max(corpus.source_column, corpus.target_column) + 1
    number = 0
    lines = stream_lines(corpus.path)
    while chunk := list(islice(lines, _CHUNK_LINES)):
        pairs = PairChunk([], [])
        for line in chunk:
            number += 1
            columns = line.split("\t")
            if len(columns) < needed:
                raise InputError(
                    f"{corpus.path}, line {number}: {len(columns)} tab-separated column{'s' * (len(columns) > 1)},"
                    f" but source_column = {corpus.source_column} and target_column = {corpus.target_column},"
                    f" counted from 0, need {needed}"
                )
            pairs.sources.append(columns[corpus.source_column])
            pairs.targets.append(columns[corpus.target_column])
        yield pairs
