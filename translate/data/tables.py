"""Tables with named columns, local or from the Hugging Face Hub: one way, through `datasets`, from a table to pairs.

`datasets` is imported where it is used, because it takes most of a second and a corpus of plain text does not need it.
"""

import glob
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from translate.config import HubCorpus, TableCorpus
from translate.data.lines import require_file, require_unchanged
from translate.data.rows import check_csv, check_json_lines
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

        return _store(load, corpus, name=str(path), failure=f"{path}: cannot be read as {corpus.kind} (%s)")


def read_hub(corpus: HubCorpus) -> StoredPairs:
    """The pairs of a data set of the Hub, downloaded once into the user's cache.

    Raises:
        InputError: The data set cannot be loaded, has no such column, or a cell that is not text.
    """
    details = [f"split {corpus.split}"]
    details += [f"subset {corpus.subset}"] if corpus.subset is not None else []
    details += [f"revision {corpus.revision}"] if corpus.revision is not None else []
    name = f"{corpus.dataset} ({', '.join(details)})"

    def load(datasets: Any) -> Iterable[Any]:
        rows = datasets.load_dataset(corpus.dataset, corpus.subset, split=corpus.split, revision=corpus.revision)
        return rows.with_format("arrow").iter(batch_size=_CHUNK_ROWS)

    failure = (
        f"{name} could not be loaded from the Hugging Face Hub (%s); check the network and the names,"
        " or download the data and give them as kind text, tsv, json, csv or parquet"
    )
    return _store(load, corpus, name=name, failure=failure)


def _store(
    load: Callable[[Any], Iterable[Any]], corpus: TableCorpus | HubCorpus, *, name: str, failure: str
) -> StoredPairs:
    """The two columns of a table that comes in parts.

    Args:
        load: Given the module `datasets`, begins to read the table, as Arrow tables one below the other.
        failure: The error if that fails, with `%s` for the reason.
    """
    with _quiet_datasets() as datasets:

        def tables() -> Iterator[Any]:
            try:
                yield from load(datasets)
            except Exception as error:  # `datasets` lets through whatever its readers and the network raise
                raise InputError(failure.replace("%s", _innermost(error))) from error

        return store_pairs(_pairs(tables(), corpus, name=name), name=name)


def _pairs(tables: Iterable[Any], corpus: TableCorpus | HubCorpus, *, name: str) -> Iterator[PairChunk]:
    num_rows = 0
    for table in tables:
        while any(str(column.type).startswith("struct<") for column in table.columns):
            table = table.flatten()  # {"translation": {"de": ...}} becomes a column "translation.de"
        for key, column in (("source_column", corpus.source_column), ("target_column", corpus.target_column)):
            if column not in table.column_names:
                existing = ", ".join(table.column_names)
                raise InputError(f"{name}: {key} = {column!r} does not exist; the columns are {existing}")
        sources, targets = (
            _text(table, column, name=name, num_before=num_rows)
            for column in (corpus.source_column, corpus.target_column)
        )
        yield PairChunk(sources, targets)
        num_rows += len(sources)


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
def _quiet_datasets() -> Iterator[Any]:
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
