"""Text in: files, tables and Hub data sets become two lists of sentences of equal length, or an error naming the place.

Nothing is silently changed or dropped here. A sentence out of a table may contain a newline; it is kept, and
SentencePiece's normalisation takes it for a space.
"""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from translate.config import Corpus, HubCorpus, TableCorpus, TextCorpus, TsvCorpus
from translate.data.tables import read_hub_columns, read_table_columns
from translate.errors import InputError


class ParallelCorpus(NamedTuple):
    """Sentences and their translations: `targets[i]` translates `sources[i]`."""

    name: str  # for logs: the files or the data set
    sources: list[str]
    targets: list[str]
    weight: float  # how often each pair is seen in one epoch


def iterate_lines(stream: Iterable[bytes], name: str) -> Iterator[str]:
    r"""The lines of a UTF-8 stream, split on `\n` alone, as `wc -l` and every other MT tool counts them.

    Python's text mode and `str.splitlines` also split on `\r`, U+2028 and others, which would shift the pairing of
    two files. Removed are the newline, one `\r` before it (Windows files), and a byte order mark at the start.

    Args:
        stream: A file opened in binary mode, or `sys.stdin.buffer`: iterating over it splits it on `\n` alone.
        name: What errors call the stream: a path, or `standard input`.

    Returns:
        An iterator that reads as it goes, so that a pipe can be translated while it is written.

    Raises:
        InputError: A line is not UTF-8.
    """
    for number, line in enumerate(stream, start=1):
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{name}, line {number}: byte {error.start + 1} of the line (0x{line[error.start]:02x}) is not UTF-8;"
                " convert the file, for example with iconv -f latin1 -t utf-8"
            ) from error
        yield text.removeprefix("\ufeff") if number == 1 else text


def read_lines(path: Path) -> list[str]:
    """All lines of a UTF-8 file, gunzipped if its name ends in `.gz`; the rules of `iterate_lines`.

    Raises:
        InputError: The file is missing, a folder, unreadable, not gzip although named so, cut short, or not UTF-8.
    """
    try:
        with path.open("rb") as stream:
            if path.suffix != ".gz":
                return list(iterate_lines(stream, str(path)))
            with gzip.open(stream) as unzipped:
                return list(iterate_lines(unzipped, str(path)))
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except IsADirectoryError as error:
        raise InputError(f"{path}: is a folder, and a file is needed") from error
    except EOFError as error:
        raise InputError(f"{path}: the gzip data are cut short; copy or download the file again") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: not readable as gzip, which its name promises ({error})") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error


def read_corpus(corpus: Corpus, *, key: str) -> ParallelCorpus:
    """Reads one corpus of any kind.

    Args:
        key: Where the corpus stands in the config, such as `data.train.0`; errors begin with it.

    Raises:
        InputError: The corpus is missing, damaged, misaligned, or has no pair.
    """
    try:
        match corpus:
            case TextCorpus():
                pair = _read_text(corpus)
            case TsvCorpus():
                pair = _read_tsv(corpus)
            case TableCorpus():
                sources, targets = read_table_columns(corpus)
                pair = ParallelCorpus(str(corpus.path), sources, targets, corpus.weight)
            case HubCorpus():
                sources, targets = read_hub_columns(corpus)
                pair = ParallelCorpus(f"{corpus.dataset}[{corpus.split}]", sources, targets, corpus.weight)
    except InputError as error:
        raise InputError(f"{key}: {error}") from error.__cause__
    if not pair.sources:
        raise InputError(f"{key}: {pair.name} has no sentence pair")
    return pair


def _read_text(corpus: TextCorpus) -> ParallelCorpus:
    sources, targets = read_lines(corpus.source), read_lines(corpus.target)
    if len(sources) != len(targets):
        message = (
            f"{corpus.source} has {len(sources)} lines and {corpus.target} has {len(targets)};"
            " line N of one must translate line N of the other"
        )
        if sources and targets:
            message += f". Judging by the lengths of the lines, they part near line {_slip_line(sources, targets)}"
        raise InputError(message)
    return ParallelCorpus(f"{corpus.source}, {corpus.target}", sources, targets, corpus.weight)


def _slip_line(sources: list[str], targets: list[str]) -> int:
    """The likeliest line (from 1) at which the longer list has its surplus lines.

    Until there line i should pair with line i, and from there with line i + surplus; the place is chosen where the
    lengths of the paired lines agree best, with the difference of their logarithms as the cost.
    """
    shorter, longer = sorted(
        (np.log1p([len(line) for line in lines]) for lines in (sources, targets)), key=lambda lengths: int(lengths.size)
    )
    surplus = longer.size - shorter.size
    offset = longer.mean() - shorter.mean()  # one language may use more letters throughout
    before = np.abs(longer[: shorter.size] - shorter - offset)
    after = np.abs(longer[surplus:] - shorter - offset)
    cost = np.concatenate([[0.0], np.cumsum(before)]) + np.concatenate([np.cumsum(after[::-1])[::-1], [0.0]])
    return int(cost.argmin()) + 1


def _read_tsv(corpus: TsvCorpus) -> ParallelCorpus:
    needed = max(corpus.source_column, corpus.target_column) + 1
    sources, targets = [], []
    for number, line in enumerate(read_lines(corpus.path), start=1):
        columns = line.split("\t")
        if len(columns) < needed:
            raise InputError(
                f"{corpus.path}, line {number}: {len(columns)} tab-separated column{'s' * (len(columns) > 1)},"
                f" but source_column = {corpus.source_column} and target_column = {corpus.target_column},"
                f" counted from 0, need {needed}"
            )
        sources.append(columns[corpus.source_column])
        targets.append(columns[corpus.target_column])
    return ParallelCorpus(str(corpus.path), sources, targets, corpus.weight)
