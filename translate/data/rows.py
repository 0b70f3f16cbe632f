"""JSON and CSV looked through line by line before `datasets` reads them, so that an error can name the line.

`datasets` (seen with 5.2) counts rows from wherever its chunk began, fills missing cells up, turns a column into JSON
for one number in it, and dies with the whole process of a file that begins with `null`.
"""

import csv
import json
import sys
from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from translate.data.text import stream_lines
from translate.errors import InputError


def check_json_lines(path: Path, columns: Sequence[str], *, max_lines: int | None = None) -> None:
    """Every line is an object with text in the columns; a file that is one JSON array is left to `datasets`.

    Args:
        columns: A dot enters a nested object.
        max_lines: Look at no more lines than these; None: at all.

    Raises:
        InputError: A line is not; it is named.
    """
    lines = islice(stream_lines(path), max_lines)
    first = next(lines, "")
    if first.lstrip().startswith("["):
        return
    for number, line in enumerate(chain([first], lines), start=1):
        if not line.strip():
            continue  # as `datasets` does
        try:
            row = json.loads(line)
        except ValueError as error:
            column = f", character {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
            reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            raise InputError(
                f"{path}, line {number}{column}: is no JSON ({reason}); each line must be one object"
            ) from error
        except RecursionError as error:
            raise InputError(f"{path}, line {number}: is nested too deeply") from error
        if not isinstance(row, dict):
            raise InputError(f"{path}, line {number}: is JSON, but no object: {_shortened(line)}")
        for column in columns:
            _check_cell(row, column, place=f"{path}, line {number}")


def _check_cell(row: dict[str, Any], column: str, *, place: str) -> None:
    value: Any = row
    entered = ""
    for key in [column] if column in row else column.split("."):
        if not isinstance(value, dict) or key not in value:
            where = f"{entered!r} has" if entered else "has"
            keys = f"the keys {', '.join(map(str, value))}" if isinstance(value, dict) and value else "no keys"
            raise InputError(f"{place}: {where} no {key!r}, which column {column!r} needs, but {keys}")
        value, entered = value[key], f"{entered}.{key}".removeprefix(".")
    if not isinstance(value, str):
        what = "is null" if value is None else f"is {_shortened(json.dumps(value))}, of type {type(value).__name__},"
        raise InputError(f"{place}: column {column!r} {what} where text is needed")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise InputError(
            f"{place}: column {column!r} has half a surrogate pair (such as \\ud800), which is no character"
        )


def check_csv(path: Path) -> list[str]:
    """The header of a CSV file, of which every row has as many cells.

    Raises:
        InputError: A row has not; its last line is named.
    """
    previous_limit = csv.field_size_limit(sys.maxsize)
    try:
        # A quoted cell may contain newlines, and the parser wants them back.
        rows = csv.reader((line + "\n" for line in stream_lines(path)), strict=True)
        header: list[str] = []
        for row in rows:
            if row and not header:
                header = row
            elif row and len(row) != len(header):
                raise InputError(
                    f"{path}, line {rows.line_num}: has {len(row)} cell{'s' * (len(row) > 1)}, and the header has"
                    f" {len(header)}; a cell with commas must stand in double quotes"
                )
    except csv.Error as error:
        raise InputError(f"{path}, line {rows.line_num}: is no CSV ({error})") from error
    finally:
        csv.field_size_limit(previous_limit)
    if not header:
        raise InputError(f"{path}: the file has no header")
    return header


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."
