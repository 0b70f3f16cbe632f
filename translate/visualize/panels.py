"""What a picture is made of, whether a browser or matplotlib draws it: matrices, curves, maps, links and tables."""

from collections.abc import Sequence
from typing import Literal, NamedTuple


class Matrix(NamedTuple):
    """Numbers in rows and columns, as colours. The first row is at the top."""

    title: str
    rows: Sequence[str]  # labels; empty texts stay empty
    columns: Sequence[str]
    values: Sequence[Sequence[float | None]]  # None: masked, there is no number
    row_axis: str
    column_axis: str
    scale: Literal["weight", "signed", "visible"]  # weight: 0 to 1; signed: around 0; visible: 1 is yes and 0 is no
    note: str = ""
    kind: Literal["matrix"] = "matrix"


class Series(NamedTuple):
    """One curve; None in `y` is a gap."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]


class Curves(NamedTuple):
    """Curves over a common axis."""

    title: str
    x_axis: str
    y_axis: str
    series: Sequence[Series]
    is_log: bool = False  # the vertical axis
    note: str = ""
    kind: Literal["curves"] = "curves"


Anchor = Literal["right", "left", "above", "below"]


class Point(NamedTuple):
    """A place on a map."""

    label: str
    x: float
    y: float
    group: str
    note: str = ""  # said of the point when it is looked at
    anchor: Anchor = "right"  # where the label stands


class Points(NamedTuple):
    """A map."""

    title: str
    x_axis: str
    y_axis: str
    points: Sequence[Point]
    note: str = ""
    kind: Literal["points"] = "points"


class Link(NamedTuple):
    """A word above and a word below that belong together."""

    source: int
    target: int
    weight: float  # 0 to 1


class Links(NamedTuple):
    """Two sentences, one above the other, and lines between their words."""

    title: str
    source: Sequence[str]
    target: Sequence[str]
    links: Sequence[Link]
    note: str = ""
    kind: Literal["links"] = "links"


class Table(NamedTuple):
    """Text in rows and columns; the first column names its row."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    kind: Literal["table"] = "table"


Panel = Matrix | Curves | Points | Links | Table


class Picture(NamedTuple):
    """Panels under a title."""

    title: str
    paragraphs: Sequence[str]  # what is to be seen, and how it was made
    panels: Sequence[Panel]
    columns: int = 1  # panels side by side in a figure
