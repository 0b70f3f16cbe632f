"""Reads pairs from tables: files in the formats of `FORMATS`, and data sets of the Hugging Face Hub.

JSON and CSV are read here rather than by `datasets`, so an error can name the line. `datasets` (seen with 5.2) counts
rows from wherever its chunk began, fills in missing cells, guesses types, and crashes the process on a file that begins
with `null`. It reads only the Hub, because importing it takes most of a second.
"""

import csv
import json
import logging
import reprlib
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

from translate.config.data import HubCorpus, TableCorpus, TsvCorpus
from translate.data.bilingual.catalogs import catalog_languages, catalog_pairs
from translate.data.bilingual.xml_units import unit_languages, unit_pairs
from translate.data.text import require_unchanged, stream_lines
from translate.errors import InputError, as_input_error
from translate.files import XLIFF_SUFFIXES, find_files, require_file

logger = logging.getLogger(__name__)

_CHUNK_ROWS = 1000
Table = TsvCorpus | TableCorpus | HubCorpus


class PairChunk(NamedTuple):
    """Some pairs of a corpus: as many sources as targets."""

    sources: list[str]
    targets: list[str]


def read_table(*corpora: Table) -> Iterator[PairChunk]:
    """The pairs of local files, or of data sets of the Hub, which are downloaded once into the user's cache.

    Every cell of a CSV file is text as it is written: `null`, `NA` and `007` are neither missing nor numbers.

    At the end, the log counts the texts of all files that are left out.

    Raises:
        InputError: The table cannot be read, has no such column, or has a cell that is not text.
    """
    left_out = Counter[str]()
    for corpus in chain.from_iterable(map(_by_file, corpora)):
        with _reading(table_name(corpus), corpus.kind):
            if isinstance(corpus, HubCorpus):
                yield from _pairs_of_tables(_load(corpus).iter(batch_size=_CHUNK_ROWS), corpus)
            else:
                yield from chunk_pairs(FORMATS[corpus.kind].pairs(corpus, left_out))
    if counts := ", ".join(f"{what} ({count:,})" for what, count in (+left_out).items()):
        logger.info(f"{table_name(*corpora)}: left out: {counts}")


def _by_file(corpus: Table) -> Sequence[Table]:
    """A corpus for each file that the path of a corpus means."""
    if isinstance(corpus, HubCorpus):
        return [corpus]
    files = find_files(corpus.path, FORMATS[corpus.kind].suffixes)
    return [corpus.model_copy(update={"path": path}) for path in files]


def table_columns(path: Path, kind: str) -> list[str]:
    """What `init` chooses two columns from; `Format.naming` says what these are.

    Raises:
        InputError: The file cannot be read.
    """
    with _reading(str(path), kind):
        return FORMATS[kind].columns(path)


class StreamPosition(NamedTuple):
    """Where a segment begins in a stream, as checkpoints keep it."""

    num_passes: int = 0  # over the whole stream, before this one
    num_pairs: int = 0  # of this pass, before the segment
    state: dict[str, Any] | None = None  # with which `datasets` finds a row shortly before; None: start of the pass
    num_skipped: int = 0  # pairs from that row to the segment
    sha256: str | None = None  # of the segment's text, if it has been read


def open_stream(
    corpus: TableCorpus | HubCorpus, position: StreamPosition
) -> Iterator[tuple[PairChunk, dict[str, Any] | None]]:
    """Read pairs from a position on, in chunks with the state from which each can be read again."""
    if isinstance(corpus, TableCorpus):
        yield from ((chunk, None) for chunk in read_table(corpus))
        return
    with _reading(table_name(corpus), "hub"):
        rows = _load(corpus, streaming=True)
        if (state := position.state) is not None:
            rows.load_state_dict(state)
        tables, num_before = rows.iter(batch_size=_CHUNK_ROWS), position.num_pairs - position.num_skipped
        for chunk in _pairs_of_tables(tables, corpus, num_before=num_before):
            yield chunk, state
            state = rows.state_dict()


def chunk_pairs(pairs: Iterator[tuple[str, str]]) -> Iterator[PairChunk]:
    """Pairs, a thousand at a time."""
    while some := list(islice(pairs, _CHUNK_ROWS)):
        yield PairChunk([source for source, _ in some], [target for _, target in some])


# TSV, CSV and JSON


def _flat_pairs(corpus: TsvCorpus | TableCorpus, _left_out: Counter[str]) -> Iterator[tuple[str, str]]:
    """The pairs of a TSV or CSV. In a row with more or fewer cells than the first, cells may be shifted: an error."""
    rows, given = _flat_rows(corpus.path, corpus.kind), (corpus.source_column, corpus.target_column)
    start, first = next(rows, (1, list[str]()))
    has_header = isinstance(corpus, TableCorpus) or corpus.has_header
    header = [name if name in given else name.strip() for name in first] if has_header else []
    _check_columns(header, corpus)
    source, target = (header.index(column) if isinstance(column, str) else column for column in given)
    if first and len(first) <= max(source, target):
        chosen = f"source_column = {given[0]!r} and target_column = {given[1]!r}"
        needed = f"{max(source, target) + 1} tab-separated columns, counted from 0, and the line has {len(first)}"
        raise InputError(f"{corpus.path}, line {start}: {chosen} need {needed}")
    for line, row in chain([] if has_header or not first else [(start, first)], rows):
        if len(row) != len(first):
            problem = f"has {len(row)} cell{'s' * (len(row) > 1)}, and the first line has {len(first)}"
            hint = "; put a cell that contains the separator in double quotes" if corpus.kind == "csv" else ""
            raise InputError(f"{corpus.path}, line {line}: {problem}{hint}")
        yield row[source], row[target]


def _flat_rows(path: Path, kind: str) -> Iterator[tuple[int, list[str]]]:
    """The rows of a TSV or CSV that are not blank, each with the number of its last line.

    The cells of a CSV are separated by what its first line has: a comma, or else a semicolon, or else a tab.
    """
    if kind == "tsv":
        yield from ((number, line.split("\t")) for number, line in enumerate(stream_lines(path), start=1) if line)
        return
    header = next(filter(None, stream_lines(path)), "")
    delimiter = next((separator for separator in ",;\t" if separator in header), ",")
    csv.field_size_limit(sys.maxsize)
    # A quoted cell may contain newlines, and the parser needs them.
    rows = csv.reader((f"{line}\n" for line in stream_lines(path)), delimiter=delimiter, strict=True)
    try:
        yield from ((rows.line_num, row) for row in rows if row and row != ["sep=", ""])  # which Excel reads and hides
    except csv.Error as error:
        raise InputError(f"{path}, line {rows.line_num}: is not CSV ({error})") from error


def _check_columns(columns: list[str], corpus: Table) -> None:
    """Check that each column that a corpus names occurs once in the header, or raise an InputError."""
    for key, column in (("source_column", corpus.source_column), ("target_column", corpus.target_column)):
        if isinstance(column, str) and columns.count(column) != 1:
            wrong = "is the name of several columns" if column in columns else "does not exist"
            found = ", ".join(columns) or "missing"
            found += "; without a header, give the numbers of columns, from 0" * isinstance(corpus, TsvCorpus)
            raise InputError(f"{table_name(corpus)}: {key} = {column!r} {wrong}; the columns are {found}")


def _row_pair(row: dict[str, Any], corpus: Any, place: str) -> tuple[str, str]:
    return _cell(row, corpus.source_column, place), _cell(row, corpus.target_column, place)


def _json_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of a file with one JSON object per line, each with its place for errors."""
    needed = "each line must be one object, as `jq -c '.[]'` writes those of an array"
    for number, text in enumerate(stream_lines(path), start=1):
        if not text.strip():
            continue  # like `datasets`
        place = f"{path}, line {number}"
        try:
            row = json.loads(text, object_pairs_hook=_unique_keys)
        except (ValueError, RecursionError) as error:
            character, reason = getattr(error, "colno", 1), getattr(error, "msg", error)
            raise InputError(f"{place}, character {character}: is not JSON ({reason}); {needed}") from error
        if not isinstance(row, dict):
            raise InputError(f"{place}: is {_shown(row)}; {needed}")
        yield place, row


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; a repeated key is an error, where Python would take the last value."""
    if len(row := dict(pairs)) < len(pairs):
        raise ValueError("an object gives a key twice")
    return row


def _column_names(row: dict[str, Any], depth: int = 10) -> Iterator[str]:
    """The names of columns; an object within `depth` others is a column, whatever it has."""
    for key, value in row.items():
        is_nested = isinstance(value, dict) and depth
        yield from (f"{key}.{name}" for name in _column_names(value, depth - 1)) if is_nested else [key]


def _cell(row: dict[str, Any], column: str, place: str) -> str:
    value: Any = row
    for key in [column] if column in row else column.split("."):
        if not isinstance(value, dict) or key not in value:
            found = f"has the keys {', '.join(value)}" if isinstance(value, dict) else f"is {_shown(value)}"
            raise InputError(f"{place}: has no {key!r}, which column {column!r} needs; it {found}")
        value = value[key]
    if not isinstance(value, str) or any("\ud800" <= character <= "\udfff" for character in value):
        raise InputError(f"{place}: column {column!r} is {_shown(value)}, where Unicode text is needed")
    return value


def _shown(cell: Any) -> str:
    return "null" if cell is None else f"{reprlib.repr(cell)}, of type {type(cell).__name__}"


# Arrow tables: Parquet and the Hub


def _parquet_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    from pyarrow import parquet  # type: ignore[import-untyped]

    require_file(path)
    with require_unchanged(path), parquet.ParquetFile(path) as file:
        rows = chain.from_iterable(batch.to_pylist() for batch in file.iter_batches(batch_size=_CHUNK_ROWS))
        yield from ((f"{path}, row {number}", row) for number, row in enumerate(rows, start=1))


def _pairs_of_tables(tables: Iterable[Any], corpus: Table, *, num_before: int = 0) -> Iterator[PairChunk]:
    """A chunk of pairs for each Arrow table; before them are `num_before` rows of the corpus, which count in errors."""
    for table in tables:
        rows = enumerate(table.to_pylist(), start=num_before + 1)
        pairs = [_row_pair(row, corpus, f"{table_name(corpus)}, row {number}") for number, row in rows]
        yield PairChunk([source for source, _ in pairs], [target for _, target in pairs])
        num_before += len(table)


# The file formats


class Format(NamedTuple):
    """A format of files with tables: the files that have it, and their pairs and columns."""

    suffixes: tuple[str, ...]  # of file names, perhaps with `.gz` after them
    pairs: Callable[[Any, Counter[str]], Iterator[tuple[str, str]]]  # which counts the texts that it leaves out
    columns: Callable[[Path], list[str]]  # what `init` chooses two columns from
    # What these are. cells: the first line, which may be a header or a pair; header: the first line; fields: names,
    # with a dot before that of a nested field; languages: codes.
    naming: Literal["cells", "header", "fields", "languages"]


def _first_cells(kind: str) -> Callable[[Path], list[str]]:
    return lambda path: [cell.strip() for cell in next(_flat_rows(path, kind), (0, []))[1]]


def _row_format(suffixes: tuple[str, ...], rows: Callable[[Path], Iterator[tuple[str, dict[str, Any]]]]) -> Format:
    """A format with an object for each row, which its reader gives with its place for errors."""

    def pairs(corpus: TableCorpus, _left_out: Counter[str]) -> Iterator[tuple[str, str]]:
        return (_row_pair(row, corpus, place) for place, row in rows(corpus.path))

    def columns(path: Path) -> list[str]:
        return [column for _, row in islice(rows(path), 1) for column in _column_names(row)]

    return Format(suffixes, pairs, columns, "fields")


FORMATS = {
    "tsv": Format((".tsv",), _flat_pairs, _first_cells("tsv"), "cells"),
    "csv": Format((".csv",), _flat_pairs, _first_cells("csv"), "header"),
    "json": _row_format((".json", ".jsonl"), _json_rows),
    "parquet": _row_format((".parquet",), _parquet_rows),
    "po": Format((".po", ".pot", ".mo"), catalog_pairs, catalog_languages, "languages"),
    "tmx": Format((".tmx",), unit_pairs, unit_languages, "languages"),
    "xliff": Format(XLIFF_SUFFIXES, unit_pairs, unit_languages, "languages"),
}
"""The file formats by `kind` of corpus. Two text files and data sets of the Hub are read by functions of their own."""
KIND_BY_SUFFIX = {suffix: kind for kind, form in FORMATS.items() for suffix in form.suffixes}


def hub_columns(dataset: str, codes: Sequence[str | None]) -> tuple[str, dict[str, list[str]]]:
    """The splits of a data set of the Hub with their columns, and which of its configurations that is.

    Args:
        codes: Two languages, which choose a configuration such as `de-en` if there are several.

    Raises:
        InputError: It cannot be loaded, or has several configurations, none of them for these languages.
    """
    with _reading(dataset, "hub"):
        datasets = _quiet_datasets()
        names = datasets.get_dataset_config_names(dataset)
        subset = next((name for name in names if {*name.split("-")} == {*codes}), None)
        subset = subset or datasets.get_dataset_default_config_name(dataset)
        if subset is None:
            some = f"{', '.join(names):.300}"
            raise InputError(f"{dataset}: --from and --to should be the languages of one of its configurations: {some}")
        splits = datasets.load_dataset(dataset, subset).with_format("arrow")
        return subset, {name: [*_column_names(split[:1].to_pylist()[0])] for name, split in splits.items()}


def table_name(corpus: Table, *more: Table) -> str:
    """A table's name in errors: the file, or the data set with its configuration."""
    if more:
        return f"{table_name(corpus)} and {len(more):,} more"
    if not isinstance(corpus, HubCorpus):
        return str(corpus.path)
    details = [f"{key} {value}" for key in ("split", "subset", "revision") if (value := getattr(corpus, key))]
    return f"{corpus.dataset} ({', '.join(details)})" if details else corpus.dataset


def _reading(name: str, kind: str) -> AbstractContextManager[None]:
    source = "a data set of the Hugging Face Hub" if kind == "hub" else kind
    return as_input_error(f"{name}: cannot be read as {source}")


def _load(corpus: HubCorpus, **options: bool) -> Any:
    names, datasets = (corpus.dataset, corpus.subset), _quiet_datasets()
    rows = datasets.load_dataset(*names, split=corpus.split, revision=corpus.revision, **options)
    return rows.with_format("arrow")


def work_offline_if_unreachable() -> None:
    """From now on, the Hub is its local cache if it cannot be reached: retries would take most of a minute."""
    from huggingface_hub import constants, get_session

    try:
        if not constants.HF_HUB_OFFLINE:
            get_session().head(constants.ENDPOINT, timeout=10)
    except Exception:  # whatever the HTTP client raises
        constants.HF_HUB_OFFLINE = True


def _quiet_datasets() -> Any:
    """The module `datasets` without progress bars and log lines; its errors contain everything important."""
    import datasets

    work_offline_if_unreachable()
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL + 1)
    warnings.filterwarnings("ignore", module=r"datasets\.")
    return datasets
