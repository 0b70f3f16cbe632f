"""Tables with named columns become pairs: JSON, CSV and Parquet files, and data sets of the Hugging Face Hub.

JSON and CSV are read here rather than by `datasets`, so that an error can name the line. `datasets` (seen with 5.2)
counts rows from wherever its chunk began, fills in missing cells, guesses types, and crashes the process on a file that
begins with `null`. It reads only the Hub, because importing it takes most of a second.
"""

import csv
import json
import logging
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, NamedTuple

from translate.config.data import HubCorpus, TableCorpus
from translate.data.text import require_file, require_unchanged, stream_lines
from translate.errors import InputError

_CHUNK_ROWS = 1000


class PairChunk(NamedTuple):
    """Some pairs of a corpus: as many sources as targets."""

    sources: list[str]
    targets: list[str]


def read_table(corpus: TableCorpus | HubCorpus) -> Iterator[PairChunk]:
    """The pairs of a local file, or of a data set of the Hub, which is downloaded once into the user's cache.

    Every cell of a CSV file is text as it is written: `null`, `NA` and `007` are neither missing nor numbers.

    Raises:
        InputError: The table cannot be read, has no such column, or has a cell that is not text.
    """
    if isinstance(corpus, TableCorpus):
        require_file(corpus.path)
        if corpus.path.stat().st_size == 0:
            raise InputError(f"{corpus.path}: the file is empty")
        yield from FILE_FORMATS[corpus.kind](corpus)
        return
    with _quiet_datasets() as datasets, _reading(corpus):
        rows = datasets.load_dataset(corpus.dataset, corpus.subset, split=corpus.split, revision=corpus.revision)
        yield from _pairs_of_tables(rows.with_format("arrow").iter(batch_size=_CHUNK_ROWS), corpus)


def chunk_pairs(pairs: Iterator[tuple[str, str]]) -> Iterator[PairChunk]:
    """Pairs, a thousand at a time."""
    while some := list(islice(pairs, _CHUNK_ROWS)):
        yield PairChunk([source for source, _ in some], [target for _, target in some])


# JSON and CSV


def _json_pairs(corpus: TableCorpus) -> Iterator[tuple[str, str]]:
    """The pairs of a file with one JSON object per line, or with one array of objects."""
    path = corpus.path
    if next(stream_lines(path), "").lstrip().startswith("["):
        if corpus.streaming:
            raise InputError(f"{path}: is one JSON array, which cannot be streamed; write one object per line instead")
        try:
            rows = json.loads("\n".join(stream_lines(path)), object_pairs_hook=_unique_keys)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}: begins like a JSON array, but cannot be read as one ({error})") from error
        for number, row in enumerate(rows, start=1):
            yield _json_pair(row, corpus, place=f"{path}, row {number}")
        return
    for number, line in enumerate(stream_lines(path), start=1):
        if not line.strip():
            continue  # as `datasets` does
        place = f"{path}, line {number}"
        try:
            row = json.loads(line, object_pairs_hook=_unique_keys)
        except ValueError as error:
            reason = str(error)
            if isinstance(error, json.JSONDecodeError):
                place, reason = f"{place}, character {error.colno}", error.msg
            raise InputError(f"{place}: is not JSON ({reason}); each line must be one object") from error
        except RecursionError as error:
            raise InputError(f"{place}: is nested too deeply") from error
        yield _json_pair(row, corpus, place=place)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, unless it gives a key twice; Python would take the last value."""
    if len(row := dict(pairs)) < len(pairs):
        raise ValueError("an object gives a key twice")
    return row


def _json_pair(row: Any, corpus: TableCorpus, *, place: str) -> tuple[str, str]:
    if not isinstance(row, dict):
        raise InputError(f"{place}: is JSON but not an object: {_shortened(json.dumps(row))}")
    return _json_cell(row, corpus.source_column, place=place), _json_cell(row, corpus.target_column, place=place)


def _json_cell(row: dict[str, Any], column: str, *, place: str) -> str:
    value: Any = row
    entered = ""
    for key in [column] if column in row else column.split("."):
        if not isinstance(value, dict) or key not in value:
            where = f"{entered!r} has" if entered else "has"
            keys = f"the keys {', '.join(map(str, value))}" if isinstance(value, dict) and value else "no keys"
            raise InputError(f"{place}: {where} no {key!r}, which column {column!r} needs, but {keys}")
        value, entered = value[key], f"{entered}.{key}".removeprefix(".")
    if not isinstance(value, str):
        raise InputError(f"{place}: column {column!r} {_not_text(value, _shortened(json.dumps(value)))}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{place}: column {column!r} has half a surrogate pair (such as \\ud800), which is not a character"
        ) from error
    return value


def _csv_pairs(corpus: TableCorpus) -> Iterator[tuple[str, str]]:
    """The pairs of a file with a header, in which every row has as many cells as the header."""
    path = corpus.path
    csv.field_size_limit(sys.maxsize)
    try:
        # A quoted cell may contain newlines, and the parser needs them.
        rows = csv.reader((f"{line}\n" for line in stream_lines(path)), strict=True)
        header = next((row for row in rows if row), [])
        if not header:
            raise InputError(f"{path}: the file has no header")
        _check_columns(header, corpus)
        source, target = header.index(corpus.source_column), header.index(corpus.target_column)
        for row in rows:
            if row and len(row) != len(header):
                raise InputError(
                    f"{path}, line {rows.line_num}: has {len(row)} cell{'s' * (len(row) > 1)}, and the header has"
                    f" {len(header)}; put a cell with commas in double quotes"
                )
            if row:
                yield row[source], row[target]
    except csv.Error as error:
        raise InputError(f"{path}, line {rows.line_num}: is not CSV ({error})") from error


def _check_columns(columns: list[str], corpus: TableCorpus | HubCorpus) -> None:
    for key, column in (("source_column", corpus.source_column), ("target_column", corpus.target_column)):
        if column not in columns:
            raise InputError(
                f"{table_name(corpus)}: {key} = {column!r} does not exist; the columns are {', '.join(columns)}"
            )
        if columns.count(column) > 1:
            raise InputError(f"{table_name(corpus)}: {key} = {column!r} is the name of several columns; rename them")


def _not_text(cell: Any, shown: str) -> str:
    """What is wrong with a cell that is not text."""
    what = "is null" if cell is None else f"is {shown}, of type {type(cell).__name__},"
    return f"{what} where text is needed"


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."


# Arrow tables: Parquet and the Hub


def _parquet_pairs(corpus: TableCorpus) -> Iterator[PairChunk]:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyarrow import parquet

    with _reading(corpus), require_unchanged(corpus.path), parquet.ParquetFile(corpus.path) as file:
        batches = file.iter_batches(batch_size=_CHUNK_ROWS)
        yield from _pairs_of_tables((pa.Table.from_batches([batch]) for batch in batches), corpus)


def _pairs_of_tables(
    tables: Iterable[Any], corpus: TableCorpus | HubCorpus, *, num_before: int = 0
) -> Iterator[PairChunk]:
    """The two columns of Arrow tables; before them are `num_before` rows of the corpus, which count in errors."""
    for table in tables:
        while any(str(column.type).startswith("struct<") for column in table.columns):
            table = table.flatten()  # {"translation": {"de": ...}} becomes a column "translation.de"
        _check_columns(table.column_names, corpus)
        name, sides = table_name(corpus), []
        for column in (corpus.source_column, corpus.target_column):
            try:
                cells: list[Any] = table[column].to_pylist()
            except UnicodeDecodeError as error:
                rows = f"rows {num_before + 1} to {num_before + len(table)}"
                raise InputError(
                    f"{name}: {rows}: column {column!r} has text that is not UTF-8; is the file damaged?"
                ) from error
            for row, cell in enumerate(cells, start=num_before + 1):
                if not isinstance(cell, str):
                    raise InputError(f"{name}: row {row} of column {column!r} {_not_text(cell, repr(cell))}")
            sides.append(cells)
        yield PairChunk(*sides)
        num_before += len(table)


FILE_FORMATS: dict[str, Callable[[TableCorpus], Iterator[PairChunk]]] = {
    "json": lambda corpus: chunk_pairs(_json_pairs(corpus)),
    "csv": lambda corpus: chunk_pairs(_csv_pairs(corpus)),
    "parquet": _parquet_pairs,
}
"""How each `kind` of `TableCorpus` is read."""


class StreamChunk(NamedTuple):
    """Some pairs of a stream, and the state of `datasets` after them; None: the stream has no state."""

    pairs: PairChunk
    state: dict[str, Any] | None


def open_stream(
    corpus: TableCorpus | HubCorpus, *, state: dict[str, Any] | None, num_before: int
) -> Iterator[StreamChunk]:
    """The pairs of a table one chunk after the other; nothing is stored.

    Args:
        state: Begin after the chunk that had this state; None, as for every file: begin with the first row.
        num_before: Rows of the corpus before these, for errors.

    Raises:
        InputError: The table cannot be read, has no such column, or has a cell that is not text.
    """
    if isinstance(corpus, TableCorpus):
        yield from (StreamChunk(chunk, None) for chunk in read_table(corpus))
        return
    # The error says what readers log about a broken file; that a download is retried is worth reading.
    logging.getLogger("datasets.packaged_modules").setLevel(logging.CRITICAL + 1)
    with _reading(corpus):
        with _quiet_datasets() as datasets:
            rows = datasets.load_dataset(
                corpus.dataset, corpus.subset, split=corpus.split, revision=corpus.revision, streaming=True
            ).with_format("arrow")
        if state is not None:
            rows.load_state_dict(state)
        for chunk in _pairs_of_tables(rows.iter(batch_size=_CHUNK_ROWS), corpus, num_before=num_before):
            yield StreamChunk(chunk, rows.state_dict())


def table_name(corpus: TableCorpus | HubCorpus) -> str:
    """What errors call a table: the file, or the data set with all that was asked for."""
    if isinstance(corpus, TableCorpus):
        return str(corpus.path)
    details = [f"split {corpus.split}"]
    details += [f"subset {corpus.subset}"] if corpus.subset is not None else []
    details += [f"revision {corpus.revision}"] if corpus.revision is not None else []
    return f"{corpus.dataset} ({', '.join(details)})"


@contextmanager
def _reading(corpus: TableCorpus | HubCorpus) -> Iterator[None]:
    """Turn whatever the libraries and the network raise into an InputError."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        name, reason = table_name(corpus), _innermost(error)
        if isinstance(corpus, TableCorpus):
            raise InputError(f"{name}: cannot be read as {corpus.kind} ({reason})") from error
        raise InputError(
            f"{name} could not be loaded from the Hugging Face Hub ({reason}); check the network and the names,"
            " or download the data and use kind text, tsv, json, csv or parquet"
        ) from error


@contextmanager
def _quiet_datasets() -> Iterator[Any]:
    """`datasets` without progress bars and log lines; the error that it raises has what matters in them."""
    import datasets

    bars_were_on = datasets.is_progress_bar_enabled()
    verbosity = datasets.logging.get_verbosity()
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield datasets
    finally:
        datasets.logging.set_verbosity(verbosity)
        if bars_were_on:
            datasets.enable_progress_bars()


def _innermost(error: BaseException) -> str:
    """The first line of the original error, which `datasets` wraps in one that says only `generation failed`."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines()
    reason = "".join(character if character.isprintable() else "?" for character in lines[0]) if lines else ""
    return f"{type(error).__name__}: {reason}" if reason else type(error).__name__
