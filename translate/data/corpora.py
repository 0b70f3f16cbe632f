"""Parallel corpora: sentences and their translations, read from files, tables and data sets of the Hugging Face Hub.

Nothing is silently changed or dropped here: whatever cannot be used is an error that names its place. A sentence in a
table may contain a newline; it is kept, and the tokenizer's normalisation decides what becomes of it.
"""

import hashlib
from bisect import bisect
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from translate.bars import Advance, show_progress
from translate.config.data import Augmentation, Corpus, Direction, TextCorpus, WeightedCorpus
from translate.config.languages import Languages
from translate.data.cache import TemporaryFile
from translate.data.tables import PairChunk, Table, chunk_pairs, read_table, table_name
from translate.data.text import Lines, SpacedText, stream_lines
from translate.data.token_store import FileArray
from translate.data.tokenizer import Tokenizers
from translate.errors import InputError
from translate.files import check_is_text

MAX_BYTES_IN_MEMORY = 64 * 2**20
"""Memory for the text of one corpus, some 200,000 pairs; the text of a larger one is in a file."""
_STRING_BYTES = 64  # overhead of a Python string
_DIGEST_LINES = 10_000  # changing this number changes the checksum of the training data


class ParallelCorpus(NamedTuple):
    """Sentences and their translations: `targets[i]` translates `sources[i]`.

    The text of a large corpus is in a file. Read it in order, by iteration or in slices, which are lists.
    """

    name: str  # for logs: the files or the data set
    sources: Sequence[str]
    targets: Sequence[str]
    weight: float  # how often each pair is seen in one epoch
    source_tag: str | None = None  # put before each source in training; `sources` are without it
    target_tag: str | None = None  # put before each target in training; `targets` are without it
    direction: Direction | None = None
    augment: Augmentation | None = None  # changes not made yet
    more_targets: tuple[Sequence[str], ...] = ()  # of a test set: further references of its sources


def read_corpus(corpus: Corpus, *more: Table, key: str, languages: Languages | None = None) -> ParallelCorpus:
    """Read one corpus of any kind.

    Args:
        more: Further tables, whose pairs follow those of a first one.
        key: The key of the corpus in the config, such as `data.train.0`; errors begin with it.
        languages: The languages of the config; None: the corpus gets no direction and no tags.

    Raises:
        InputError: The corpus is missing, damaged, misaligned or empty.
        RunError: The corpus is large, and its text cannot be written to a temporary file.
    """
    if isinstance(corpus, TextCorpus):
        name, chunks = f"{corpus.source}, {corpus.target}", chunk_pairs(_text_pairs(corpus.source, corpus.target))
    else:
        name, chunks = table_name(corpus, *more), read_table(corpus, *more)
    try:
        with show_progress(f"Reading {key}", unit="pairs") as advance:
            sources, targets = store_pairs(_counted(chunks, advance), name=name)
    except InputError as error:
        raise InputError(f"{key}: {error}") from error.__cause__
    if not len(sources):
        reason = ": both files are empty" if isinstance(corpus, TextCorpus) else ""
        raise InputError(f"{key}: {name} has no sentence pair{reason}")
    named = f"{name} with {corpus.source_tag}" if corpus.source_tag else name
    read = ParallelCorpus(named, sources, targets, corpus.weight, corpus.source_tag, augment=corpus.augment)
    return read if languages is None else tag_corpus(read, corpus, languages)


def tag_corpus(read: ParallelCorpus, corpus: WeightedCorpus, languages: Languages) -> ParallelCorpus:
    """A corpus with its direction and its language tags, which come before its own tag."""
    direction = languages.data.direction_of(corpus)
    source_tag, target_tag = languages.tags_of(direction)
    source_tag = " ".join(filter(None, (source_tag, corpus.source_tag))) or None
    return read._replace(source_tag=source_tag, target_tag=target_tag, direction=direction)


def balance_directions(corpora: Sequence[ParallelCorpus], temperature: float | None) -> list[ParallelCorpus]:
    """Corpora with weights that sample directions as `data.sampling_temperature` says; see there.

    Source: Arivazhagan et al. 2019, https://arxiv.org/abs/1907.05019.
    """
    sizes: dict[Direction | None, float] = {}
    for corpus in corpora:
        sizes[corpus.direction] = sizes.get(corpus.direction, 0.0) + corpus.weight * len(corpus.sources)
    exponent = 1.0 - 1.0 / (temperature or 1.0)
    # Rounded, because the last bits of a power differ between machines, and `data_fingerprint` covers the weights.
    factors = {direction: round((max(sizes.values()) / size) ** exponent, 9) for direction, size in sizes.items()}
    return [corpus._replace(weight=corpus.weight * factors[corpus.direction]) for corpus in corpora]


def repeat_by_weight(corpus: ParallelCorpus) -> ParallelCorpus:
    """Repeat the pairs of a corpus as often as its weight says. A fraction repeats evenly spaced pairs once more."""
    size = max(1, round(corpus.weight * len(corpus.sources)))
    sources, targets = (SpacedText(side, size) for side in (corpus.sources, corpus.targets))
    return corpus._replace(sources=sources, targets=targets, weight=1.0)


def _counted(chunks: Iterable[PairChunk], advance: Advance) -> Iterator[PairChunk]:
    for chunk in chunks:
        advance(len(chunk.sources))
        yield chunk


def _text_pairs(source: Path, target: Path) -> Iterator[tuple[str, str]]:
    for path in (source, target):
        check_is_text(path)
    try:
        yield from zip(stream_lines(source), stream_lines(target), strict=True)
    except ValueError as error:  # one file has more lines
        sources, targets = (np.fromiter(map(len, stream_lines(path)), dtype=np.int32) for path in (source, target))
        message = (
            f"{source} has {len(sources)} lines and {target} has {len(targets)};"
            " line N of one must translate line N of the other"
        )
        if len(sources) and len(targets):
            line = _divergence_line(sources, targets)
            message += f". Judging by the lengths of the lines, they diverge near line {line}"
        raise InputError(message) from error


def _divergence_line(source_lengths: NDArray[np.int32], target_lengths: NDArray[np.int32]) -> int:
    """The line (from 1) at which the longer file most likely has its extra lines.

    Before it, line i pairs with line i, and from there on with line i + surplus. It is the place where the lengths of
    paired lines agree best, with the difference of their logarithms as the cost.
    """
    shorter, longer = sorted((np.log1p(lengths) for lengths in (source_lengths, target_lengths)), key=len)
    surplus = len(longer) - len(shorter)
    offset = longer.mean() - shorter.mean()  # one language may use more letters throughout
    before = np.abs(longer[: len(shorter)] - shorter - offset)
    after = np.abs(longer[surplus:] - shorter - offset)
    cost = np.concatenate([[0.0], np.cumsum(before)]) + np.concatenate([np.cumsum(after[::-1])[::-1], [0.0]])
    return int(cost.argmin()) + 1


def data_fingerprint(corpora: Iterable[ParallelCorpus], tokenizers: Tokenizers, *, streams: str | None = None) -> str:
    """Checksum of all training data, in order, which `--resume` compares.

    Args:
        corpora: The training corpora; for streamed ones their first segment.
        streams: The identity of the streamed corpora; None: no corpus is streamed.
    """
    digest = hashlib.sha256(tokenizers.source.model_bytes + tokenizers.target.model_bytes)
    if streams is not None:
        digest.update(f"{streams}\n".encode())
    for corpus in corpora:
        tag = "".join(f" {tag}" for tag in (corpus.source_tag, corpus.target_tag) if tag)
        digest.update(f"{len(corpus.sources)} {corpus.weight}{tag}\n".encode())
        if corpus.augment is not None:
            digest.update(f"{corpus.augment.model_dump_json()}\n".encode())
        for lines in (corpus.sources, corpus.targets):
            for first in range(0, len(lines), _DIGEST_LINES):
                if first:
                    digest.update(b"\n")
                digest.update("\n".join(lines[first : first + _DIGEST_LINES]).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


# Where the text is held


class FileText(Lines):
    """Lines in a UTF-8 file; `borders` has the start of each line, and the end of the last one."""

    def __init__(self, text: TemporaryFile, borders: TemporaryFile) -> None:
        self._text = FileArray(text, dtype=np.dtype(np.uint8))
        self._borders = FileArray(borders, dtype=np.dtype(np.int64))

    def __len__(self) -> int:
        return self._borders.size - 1

    def _read(self, start: int, stop: int) -> list[str]:
        borders = self._borders[start : stop + 1].tolist()
        data = self._text[borders[0] : borders[-1]].tobytes()
        ends = [border - borders[0] for border in borders]
        return [data[begin:end].decode("utf-8", "surrogatepass") for begin, end in pairwise(ends)]


class JoinedText(Lines):
    """Several texts, one after the other.

    Args:
        tags: Put before each line of the text at the same index, with a space, except before blank lines.
    """

    def __init__(self, texts: Sequence[Sequence[str]], tags: Sequence[str | None]) -> None:
        self._texts, self._tags = texts, tags
        self._starts = [0, *accumulate(map(len, texts))]

    def __len__(self) -> int:
        return self._starts[-1]

    def tag(self, place: int) -> str:
        """The tag before a line that is not blank, with its space; empty: there is none."""
        tag = self._tags[bisect(self._starts, place) - 1]
        return f"{tag} " if tag else ""

    def _read(self, start: int, stop: int) -> list[str]:
        lines: list[str] = []
        for text, tag, first, end in zip(self._texts, self._tags, self._starts, self._starts[1:], strict=False):
            if start < end and first < stop:
                part = text[max(start - first, 0) : stop - first]
                lines += [f"{tag} {line}" if line.strip() else line for line in part] if tag else part
        return lines


def join_texts(corpora: Iterable[ParallelCorpus], *, with_tags: bool = False) -> tuple[JoinedText, JoinedText]:
    """All sources and all targets of some corpora, optionally with the tags of their corpora."""
    found = [corpus if with_tags else corpus._replace(source_tag=None, target_tag=None) for corpus in corpora]
    sources = JoinedText([corpus.sources for corpus in found], [corpus.source_tag for corpus in found])
    return sources, JoinedText([corpus.targets for corpus in found], [corpus.target_tag for corpus in found])


def store_pairs(chunks: Iterable[PairChunk], *, name: str) -> tuple[Sequence[str], Sequence[str]]:
    """Store all sources and all targets, in memory if there are few, else in temporary files; see `TemporaryFile`."""
    sources: list[str] = []
    targets: list[str] = []
    num_bytes = 0
    remaining = iter(chunks)
    for chunk in remaining:
        sources += chunk.sources
        targets += chunk.targets
        num_bytes += sum(_STRING_BYTES + len(line) for lines in chunk for line in lines)
        if num_bytes > MAX_BYTES_IN_MEMORY:
            texts, borders = ([TemporaryFile(f"the text of {name}") for _ in chunk] for _ in ("texts", "borders"))
            for border in borders:
                border.write(np.zeros(1, dtype=np.int64))
            for part in chain([PairChunk(sources, targets)], remaining):
                for text, border, lines in zip(texts, borders, part, strict=True):
                    encoded = [line.encode("utf-8", "surrogatepass") for line in lines]
                    border.write(text.num_bytes + np.cumsum([len(line) for line in encoded], dtype=np.int64))
                    text.write(b"".join(encoded))
            return FileText(texts[0], borders[0]), FileText(texts[1], borders[1])
    return sources, targets
