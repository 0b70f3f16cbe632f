"""Tables with named columns, local or from the Hugging Face Hub, through `datasets`: one way from a table to two lists.

`datasets` is imported where it is used, because it takes most of a second and a corpus of plain text does not need it.
"""

import glob
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from translate.config import HubCorpus, TableCorpus
from translate.errors import InputError

if TYPE_CHECKING:
    import datasets


def read_table_columns(corpus: TableCorpus) -> tuple[list[str], list[str]]:
    """Source and target sentences of a local JSON, CSV or Parquet file.

    Every cell of a CSV file is text as it stands: `null`, `NA` and `007` are neither missing nor numbers.

    Raises:
        InputError: The file cannot be read, has no such column, or a cell that is not text.
    """
    if not corpus.path.is_file():
        raise InputError(f"{corpus.path}: no such file")
    if corpus.path.stat().st_size == 0:
        raise InputError(f"{corpus.path}: the file is empty")
    # The Arrow copy that `datasets` makes lives as long as this call: no stale cache, and no disk filled unasked.
    with _quiet_datasets() as datasets, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as cache:
        try:
            options = _csv_options(corpus) if corpus.kind == "csv" else {}
            table = datasets.load_dataset(
                corpus.kind, data_files=glob.escape(str(corpus.path)), split="train", cache_dir=cache, **options
            )
        except Exception as error:  # `datasets` lets through whatever its readers raise
            raise InputError(f"{corpus.path}: cannot be read as {corpus.kind} ({_innermost(error)})") from error
        return _two_columns(table, corpus.source_column, corpus.target_column, name=str(corpus.path))


def read_hub_columns(corpus: HubCorpus) -> tuple[list[str], list[str]]:
    """Source and target sentences of a data set of the Hub, downloaded once into the user's cache.

    Raises:
        InputError: The data set cannot be loaded, has no such column, or a cell that is not text.
    """
    details = [f"split {corpus.split}"]
    details += [f"subset {corpus.subset}"] if corpus.subset is not None else []
    details += [f"revision {corpus.revision}"] if corpus.revision is not None else []
    name = f"{corpus.dataset} ({', '.join(details)})"
    with _quiet_datasets() as datasets:
        try:
            table = datasets.load_dataset(corpus.dataset, corpus.subset, split=corpus.split, revision=corpus.revision)
        except Exception as error:  # network, authentication, names, builders: each library has its own
            raise InputError(
                f"{name} could not be loaded from the Hugging Face Hub ({_innermost(error)}); check the network and the"
                " names, or download the data and give them as kind text, tsv, json, csv or parquet"
            ) from error
        return _two_columns(table, corpus.source_column, corpus.target_column, name=name)


def _two_columns(
    table: "datasets.Dataset", source_column: str, target_column: str, *, name: str
) -> tuple[list[str], list[str]]:
    flat = table.flatten()  # {"translation": {"de": ...}} becomes a column "translation.de"
    for key, column in (("source_column", source_column), ("target_column", target_column)):
        if column not in flat.column_names:
            existing = ", ".join(flat.column_names)
            raise InputError(f"{name}: {key} = {column!r} does not exist; the columns are {existing}")
    return _text_column(flat, source_column, name=name), _text_column(flat, target_column, name=name)


def _text_column(table: "datasets.Dataset", column: str, *, name: str) -> list[str]:
    values: list[Any] = list(table[column][:])
    for row, value in enumerate(values, start=1):
        if not isinstance(value, str):
            what = "is null" if value is None else f"is {value!r}, of type {type(value).__name__},"
            raise InputError(f"{name}: row {row} of column {column!r} {what} where text is needed")
    return values


def _csv_options(corpus: TableCorpus) -> dict[str, Any]:
    import pandas

    # A converter for every column, also those not asked for: guessed types may differ between chunks and then fail.
    header = pandas.read_csv(corpus.path, nrows=0, index_col=False)
    return {"converters": {column: str for column in header.columns}, "na_filter": False, "index_col": False}


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
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
