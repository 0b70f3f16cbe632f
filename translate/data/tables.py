"""Tables with named columns, local or from the Hugging Face Hub: one way, through `datasets`, from a table to pairs.

`datasets` is imported where it is used, because it takes most of a second and a corpus of plain text does not need it.
"""

import glob
import logging
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from translate.config import HubCorpus, TableCorpus
from translate.data.rows import check_csv, check_json_lines
from translate.data.text import require_file, require_unchanged, stream_lines
from translate.data.texts import PairChunk, StoredPairs, store_pairs
from translate.errors import InputError

_CHUNK_ROWS = 1000


def read_table(corpus: TableCorpus) -> StoredPairs:
    """The pairs of a local JSON, CSV or Parquet file.

    Every cell of a CSV file is text as it stands: `null`, `NA` and `007` are neither missing nor numbers.

    Raises:
        InputError: The file cannot be read, has no such column, or a cell that is not text.
    """
    path = corpus.path
    require_file(path)
    options: dict[str, Any] = {}
    with require_unchanged(path):
        if path.stat().st_size == 0:
            raise InputError(f"{path}: the file is empty")
        if corpus.kind == "json":
            check_json_lines(path, (corpus.source_column, corpus.target_column))
        elif corpus.kind == "csv":
            # A converter for every column, also those not asked for: types are guessed anew for each chunk.
            options = {"converters": dict.fromkeys(check_csv(path), str), "na_filter": False, "index_col": False}

        def load(datasets: Any) -> Iterable[Any]:
            # As a stream: `datasets` makes no copy of its own, which could be stale or fill a disk.
            rows = datasets.load_dataset(
                corpus.kind, data_files=glob.escape(str(path)), split="train", streaming=True, **options
            )
            return rows.with_format("arrow").iter(batch_size=_CHUNK_ROWS)

        return _store(load, corpus)


def read_hub(corpus: HubCorpus) -> StoredPairs:
    """The pairs of a data set of the Hub, downloaded once into the user's cache.

    Raises:
        InputError: The data set cannot be loaded, has no such column, or a cell that is not text.
    """

    def load(datasets: Any) -> Iterable[Any]:
        rows = datasets.load_dataset(corpus.dataset, corpus.subset, split=corpus.split, revision=corpus.revision)
        return rows.with_format("arrow").iter(batch_size=_CHUNK_ROWS)

    return _store(load, corpus)


def open_stream(corpus: TableCorpus | HubCorpus) -> Any:
    """The rows of a table as they come, of which nothing is stored.

    Returns:
        A `datasets.IterableDataset` of Arrow tables, which can say where it stands and be put there again.

    Raises:
        InputError: The table cannot be opened.
    """
    if isinstance(corpus, TableCorpus):
        _check_beginning(corpus)
    # What readers log of a broken file stands in the error raised; that the network is tried again may well be read.
    logging.getLogger("datasets.packaged_modules").setLevel(logging.CRITICAL + 1)
    with quiet_datasets() as datasets, reading(corpus):
        if isinstance(corpus, HubCorpus):
            rows = datasets.load_dataset(
                corpus.dataset, corpus.subset, split=corpus.split, revision=corpus.revision, streaming=True
            )
        else:
            from datasets.packaged_modules.json.json import JsonConfig

            options = {}
            if corpus.kind == "json" and hasattr(JsonConfig, "on_mixed_types"):
                options = {"on_mixed_types": None}  # or it would turn a whole column into JSON for one number in it
            rows = datasets.load_dataset(
                corpus.kind, data_files=glob.escape(str(corpus.path)), split="train", streaming=True, **options
            )
        return rows.with_format("arrow")


def _check_beginning(corpus: TableCorpus) -> None:
    """What can be told of a file that is too large to be looked through."""
    path = corpus.path
    require_file(path)
    if path.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty")
    if corpus.kind == "json":
        if next(stream_lines(path), "").lstrip().startswith("["):
            raise InputError(f"{path}: is one JSON array, which cannot be streamed; write one object a line instead")
        check_json_lines(path, (corpus.source_column, corpus.target_column), max_lines=_CHUNK_ROWS)


def table_name(corpus: TableCorpus | HubCorpus) -> str:
    """What errors call it: the file, or the data set with all that was asked for."""
    if isinstance(corpus, TableCorpus):
        return str(corpus.path)
    details = [f"split {corpus.split}"]
    details += [f"subset {corpus.subset}"] if corpus.subset is not None else []
    details += [f"revision {corpus.revision}"] if corpus.revision is not None else []
    return f"{corpus.dataset} ({', '.join(details)})"


@contextmanager
def reading(corpus: TableCorpus | HubCorpus) -> Iterator[None]:
    """Whatever the readers of `datasets` and the network raise becomes an InputError."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        name, reason = table_name(corpus), _innermost(error)
        if isinstance(corpus, TableCorpus):
            if corpus.kind == "json" and corpus.streaming:
                # Its rows are counted from wherever a chunk began; looked through now, the line can be named.
                check_json_lines(corpus.path, (corpus.source_column, corpus.target_column))
            elif corpus.kind == "parquet":
                _refuse_no_row(corpus.path)
            raise InputError(f"{name}: cannot be read as {corpus.kind} ({reason})") from error
        raise InputError(
            f"{name} could not be loaded from the Hugging Face Hub ({reason}); check the network and the names,"
            " or download the data and give them as kind text, tsv, json, csv or parquet"
        ) from error


def _refuse_no_row(path: Path) -> None:
    """What `datasets` does not understand: a Parquet file with columns and nothing in them."""
    from pyarrow import ArrowException, parquet  # type: ignore[import-untyped]

    with suppress(ArrowException, OSError):
        if parquet.read_metadata(path).num_rows == 0:
            raise InputError(f"{path} has no sentence pair")


def _store(load: Callable[[Any], Iterable[Any]], corpus: TableCorpus | HubCorpus) -> StoredPairs:
    """The two columns of a table that comes in parts.

    Args:
        load: Given the module `datasets`, begins to read the table, as Arrow tables one below the other.
    """
    with quiet_datasets() as datasets:

        def tables() -> Iterator[Any]:
            with reading(corpus):
                yield from load(datasets)

        return store_pairs(_pairs(tables(), corpus), name=table_name(corpus))


def _pairs(tables: Iterable[Any], corpus: TableCorpus | HubCorpus) -> Iterator[PairChunk]:
    num_rows = 0
    for table in tables:
        yield pairs_of(table, corpus, num_before=num_rows)
        num_rows += len(table)


def pairs_of(table: Any, corpus: TableCorpus | HubCorpus, *, num_before: int) -> PairChunk:
    """The two columns of an Arrow table.

    Args:
        num_before: Rows of the corpus before these, for errors.

    Raises:
        InputError: It has no such column, or a cell that is not text.
    """
    name = table_name(corpus)
    while any(str(column.type).startswith("struct<") for column in table.columns):
        table = table.flatten()  # {"translation": {"de": ...}} becomes a column "translation.de"
    for key, column in (("source_column", corpus.source_column), ("target_column", corpus.target_column)):
        if column not in table.column_names:
            existing = ", ".join(table.column_names)
            raise InputError(f"{name}: {key} = {column!r} does not exist; the columns are {existing}")
    return PairChunk(
        *(
            _text(table, column, name=name, num_before=num_before)
            for column in (corpus.source_column, corpus.target_column)
        )
    )


def _text(table: Any, column: str, *, name: str, num_before: int) -> list[str]:
    """The cells of a column, all of them text; `num_before` rows came before."""
    try:
        values: list[Any] = table[column].to_pylist()
    except UnicodeDecodeError as error:
        rows = f"rows {num_before + 1} to {num_before + len(table)}"
        raise InputError(
            f"{name}: {rows}: column {column!r} has text that is not UTF-8; is the file damaged?"
        ) from error
    for row, value in enumerate(values, start=num_before + 1):
        if not isinstance(value, str):
            what = "is null" if value is None else f"is {value!r}, of type {type(value).__name__},"
            raise InputError(f"{name}: row {row} of column {column!r} {what} where text is needed")
    return values


@contextmanager
def quiet_datasets() -> Iterator[Any]:
    """`datasets` without progress bars and log lines of its own; what it has to say stands in the error raised."""
    import datasets
    from pandas.errors import ParserWarning

    bars_were_on = datasets.is_progress_bar_enabled()
    verbosity = datasets.logging.get_verbosity()
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", ParserWarning)  # a row with too many cells loses some of them
            yield datasets
    finally:
        datasets.logging.set_verbosity(verbosity)
        if bars_were_on:
            datasets.enable_progress_bars()


def _innermost(error: BaseException) -> str:
    """The first line of the error that started it: `datasets` wraps it in one that says only `generation failed`."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines()
    reason = "".join(character if character.isprintable() else "?" for character in lines[0]) if lines else ""
    return f"{type(error).__name__}: {reason}" if reason else type(error).__name__
