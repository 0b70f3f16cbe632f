"""The panels of a picture, for Vega-Lite to draw: matrices, curves, links and tables."""

import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from translate.errors import InputError

MOST_NUMBERS = 2_500_000  # in the matrices of a picture: a page of some 20 MB
_UNPRINTABLE = re.compile(
    "[\\0-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\u2028\\u2029\\ud800-\\udfff\\ufdd0-\\ufdef\\ufffe\\uffff]"
)


class Matrix(NamedTuple):
    """Numbers in rows and columns, shown as colours. The first row is at the top."""

    title: str
    rows: Sequence[str]  # labels
    columns: Sequence[str]
    values: Sequence[Sequence[float | None]]  # None: masked
    row_axis: str
    column_axis: str
    scale: Literal["weight", "signed", "visible"]  # weight: 0 to 1; signed: around 0; visible: 1 is yes and 0 is no
    note: str = ""


class Series(NamedTuple):
    """One curve; None in `y` is a gap."""

    name: str  # the same name has the same colour and width in all panels
    x: Sequence[float]
    y: Sequence[float | None]
    kind: str = ""  # a picture's first kind is drawn as a solid line, its second as a dashed one
    marked: tuple[int, str] | None = None  # the place of a point to mark, and what to write there


class Curves(NamedTuple):
    """Curves over a common axis."""

    title: str
    x_axis: str
    y_axis: str
    series: Sequence[Series]
    is_log: bool = False  # the vertical axis, unless its range is small
    begins_at_zero: bool = False  # the vertical axis
    note: str = ""


class Links(NamedTuple):
    """Two sentences side by side, one word per line, and lines between words; words without one are grey."""

    title: str
    source: Sequence[str]
    target: Sequence[str]
    links: Sequence[tuple[int, int, float]]  # a source word, a target word, and the weight of their link, 0 to 1
    note: str = ""


Cell = str | tuple[str, ...]  # a text, or its parts, of which every second one is marked


class Table(NamedTuple):
    """Text in rows and columns; the first column names the row."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""


Panel = Matrix | Curves | Links | Table


class Picture(NamedTuple):
    """Panels under a title."""

    title: str
    paragraphs: Sequence[str]  # text below the title: what the panels show, and how they were made
    panels: Sequence[Panel]
    columns: int = 1  # panels side by side, where there is room


def printable(value: Any) -> Any:
    """A picture, a panel or a text in which U+FFFD replaces characters that XML, HTML or Vega forbid."""
    if isinstance(value, str):
        return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(printable, value))
    return [printable(part) for part in value] if isinstance(value, list | tuple) else value


def check_numbers(count: int, *, of: str, less: str) -> None:
    """Raise an InputError that says what to do if a picture would have too many numbers for a page."""
    if count > MOST_NUMBERS:
        raise InputError(f"the picture of {of} would have {count:,} numbers, and the limit is {MOST_NUMBERS:,}: {less}")
