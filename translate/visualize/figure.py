"""Figures for papers by matplotlib: panels in rows and columns on one sheet, in the colours of the pages by day."""

import functools
import io
import textwrap
import warnings
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from translate.errors import InputError
from translate.visualize.panels import Curves, Links, Matrix, Panel, Picture, Points, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap

DOTS_PER_INCH = 160
_MOST_DOTS = 16_000  # of a side; a larger figure is drawn coarser
_STYLE: dict[Any, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "axes.edgecolor": "#71808f",
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.parse_math": False,  # a $ stays a $
    "svg.fonttype": "path",  # letters as outlines: the same in every reader, whatever its fonts
    "svg.hashsalt": "translate",  # the same picture has the same bytes
}
_FAINT = "#4d5a68"
_WEIGHT = ["#ffffff", "#d6e6f4", "#8fc1de", "#3d8dc3", "#125ea6", "#08306b"]
_SIGNED = ["#08306b", "#2f79b5", "#9cc7e0", "#f7f7f7", "#f3b670", "#c96a12", "#7f3b08"]
_VISIBLE = ["#ffffff", "#125ea6"]
_SERIES = ["#0072b2", "#c25700", "#007a5a", "#a8497d", "#7a5f00", "#333333"]
_DASHES = ["-", "--", ":", "-."]
_MASKED = "#d4dae1"
_ANCHORS: dict[str, tuple[tuple[int, int], str, str]] = {  # offset and alignment of a label
    "right": ((4, 0), "left", "center"),
    "left": ((-4, 0), "right", "center"),
    "above": ((0, 4), "center", "bottom"),
    "below": ((0, -4), "center", "top"),
}


def draw_figure(picture: Picture, *, format: Literal["png", "svg"], dots_per_inch: int = DOTS_PER_INCH) -> bytes:
    """Draw a picture and return the file's content; the same picture gives the same bytes.

    Raises:
        InputError: matplotlib is not installed.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError(
            f"--format {format} needs matplotlib: pip install 'translate-nmt[pictures]' first, or use --format html"
        ) from error
    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        # A letter that the font lacks is drawn as a box.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        layout = _lay_out(picture)
        figure = Figure(figsize=(layout.width, layout.height))
        for panel, (left, bottom, width, height) in layout.places:
            place = (left / layout.width, bottom / layout.height, width / layout.width, height / layout.height)
            _draw_panel(panel, figure.add_axes(place))
        figure.text(0, 1, picture.title, fontsize=12, fontweight="bold", va="top")
        figure.text(0, 0, "\n".join(layout.caption), fontsize=8, color=_FAINT, va="bottom", linespacing=1.4)
        written = io.BytesIO()
        metadata = {"Date": None, "Creator": None} if format == "svg" else {"Software": None}
        dots = min(dots_per_inch, _MOST_DOTS / max(layout.width, layout.height))
        figure.savefig(written, format=format, dpi=dots, bbox_inches="tight", pad_inches=0.12, metadata=metadata)
    return written.getvalue() if format == "svg" else _with_palette(written)


def _with_palette(png: io.BytesIO) -> bytes:
    """The PNG in the 256 colours that are nearest to its own, which halves the file."""
    from PIL import Image  # a dependency of matplotlib

    small = io.BytesIO()
    image = Image.open(png).convert("RGB")
    palette = image.quantize(256, method=Image.Quantize.MEDIANCUT, kmeans=2, dither=Image.Dither.NONE)
    palette.save(small, "PNG", optimize=True)
    return small.getvalue()


class _Layout(NamedTuple):
    """The size of a figure and the places of its panels, in inches."""

    width: float
    height: float
    places: list[tuple[Panel, tuple[float, float, float, float]]]  # left, bottom, width, height
    caption: list[str]


def _lay_out(picture: Picture) -> _Layout:
    """Arrange the panels in rows and columns, with their axes aligned in each row and in each column."""
    columns = min(picture.columns, len(picture.panels))
    remaining = iter([(panel, _room_for(panel)) for panel in picture.panels])
    rows = list(iter(lambda: list(islice(remaining, columns)), []))
    by_column = [[row[column][1] for row in rows if column < len(row)] for column in range(columns)]
    lefts = [max(room.left for room in rooms) for rooms in by_column]
    widths = [max(room.width + room.right for room in rooms) for rooms in by_column]
    caption = _wrapped(picture.paragraphs, width_inches=sum(lefts) + sum(widths))
    height = 0.4 + sum(max(r.above for _, r in row) + max(r.height + r.below for _, r in row) for row in rows)
    height += 0.16 * len(caption) + 0.1
    places, top = [], height - 0.4
    for row in rows:
        top -= max(room.above for _, room in row)
        left = 0.0
        for column, (panel, room) in enumerate(row):
            places.append((panel, (left + lefts[column], top - room.height, room.width, room.height)))
            left += lefts[column] + widths[column]
        top -= max(room.height + room.below for _, room in row)
    return _Layout(sum(lefts) + sum(widths), height, places, caption)


class _Room(NamedTuple):
    """Inches that a panel needs: for its axes, and around them for labels and the title."""

    left: float
    width: float
    right: float
    above: float
    height: float
    below: float


def _draw_panel(panel: Panel, axes: "Axes") -> None:
    """Draw a panel and its title into axes of the size that `_room_for` gives."""
    title = "\n".join([panel.title, *_note(panel, _room_for(panel).width)])
    axes.set_title(title, loc="left", pad=8)
    match panel:
        case Matrix():
            _draw_matrix(panel, axes)
        case Curves():
            _draw_curves(panel, axes)
        case Points():
            _draw_points(panel, axes)
        case Links():
            _draw_links(panel, axes)
        case Table():
            _draw_table(panel, axes)


def _room_for(panel: Panel) -> _Room:
    """The room that a panel needs so that none of its labels is cut or covered."""
    match panel:
        case Matrix():
            left = _longest(panel.rows) + 0.15 + 0.22 * bool(panel.row_axis)
            above = _longest(panel.columns) + 0.15 + 0.22 * bool(panel.column_axis)
            cell_width, cell_height = _cell_size(panel)
            width, height = cell_width * len(panel.columns), cell_height * len(panel.rows)
            beside = 0.7 if panel.scale == "signed" else 0.1
            room = _Room(left, width, max(beside, _inches(panel.title) - width) + 0.15, above, height, 0.15)
        case Curves():
            room = _Room(0.75, 4.4, 0.25, 0.0, 2.4, 0.6)
        case Points():
            room = _Room(0.75, 8.5, 0.2, 0.0, 6.4, 0.6)
        case Links():
            room = _Room(
                0.0, max(2.0, *(_spread(side)[-1][1] for side in (panel.source, panel.target))), 0.5, 0, 1.2, 0
            )
        case Table():
            width = max(3.0, sum(_column_widths(panel)))
            room = _Room(0.0, width, 0.3, 0.0, 0.22 * (len(panel.rows) + 1), 0.3)
    return room._replace(above=room.above + 0.32 + 0.15 * len(_note(panel, room.width)))


def _note(panel: Panel, width: float) -> list[str]:
    return _wrapped([panel.note], width_inches=max(4.0, width)) if panel.note else []


def _longest(texts: Sequence[str]) -> float:
    return max(map(_inches, texts), default=0.0)


@functools.cache
def _inches(text: str, size: float = 9.0) -> float:
    """The width of a text, in the font of the figure."""
    from matplotlib.textpath import TextPath

    return TextPath((0, 0), text, size=size).get_extents().x1 / 72 if text.strip() else 0.0


def _cell_size(panel: Matrix) -> tuple[float, float]:
    """Cells of tokens are as high as a line of text, so that each has its label; numbered cells share the space."""
    if panel.scale == "signed":
        shares = 5.5 / len(panel.columns), 4.2 / len(panel.rows)
        dots = [
            max(2, round(min(0.19, share) * DOTS_PER_INCH)) for share in shares
        ]  # whole dots, so that no cell is lost
        return dots[0] / DOTS_PER_INCH, dots[1] / DOTS_PER_INCH
    return 0.19, 0.19


def _draw_matrix(panel: Matrix, axes: "Axes") -> None:
    import numpy as np
    from matplotlib.colors import Normalize, PowerNorm

    values = np.array([[np.nan if cell is None else cell for cell in row] for row in panel.values], dtype=float)
    limit = float(np.nanmax(np.abs(values))) or 1.0
    norm: Normalize
    match panel.scale:
        case "weight":
            norm, colours = (
                PowerNorm(0.5, 0.0, 1.0),
                _colormap(_WEIGHT),
            )  # by the root, so that small weights are visible
        case "signed":
            norm, colours = Normalize(-limit, limit), _colormap(_SIGNED)
        case "visible":
            norm, colours = Normalize(0.0, 1.0), _colormap(_VISIBLE)
    axes.set_facecolor(_MASKED)
    width, height = _cell_size(panel)
    masked = np.ma.masked_invalid(values)
    image = axes.imshow(masked, norm=norm, cmap=colours, aspect=height / width, interpolation="nearest")
    for spine in axes.spines.values():
        spine.set_visible(True)
    if panel.scale == "visible":
        axes.set_xticks(np.arange(len(panel.columns) - 1) + 0.5, minor=True)
        axes.set_yticks(np.arange(len(panel.rows) - 1) + 0.5, minor=True)
        axes.grid(which="minor", color="#c3cbd4", linewidth=0.6)
        axes.tick_params(which="minor", length=0)
    if panel.scale == "signed":
        beside = axes.inset_axes((1.0 + 0.1 / (width * len(panel.columns)), 0.0, 0.03, 1.0))
        axes.figure.colorbar(image, cax=beside)
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_xticks(*_ticks(panel.columns, size=width), rotation=90)
    axes.set_yticks(*_ticks(panel.rows, size=height))
    axes.tick_params(length=0)
    axes.set_xlabel(panel.column_axis, color=_FAINT, fontsize=8)
    axes.set_ylabel(panel.row_axis, color=_FAINT, fontsize=8)


def _ticks(labels: Sequence[str], *, size: float) -> tuple[list[int], list[str]]:
    """Places and texts of the labels that fit and are not empty."""
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if step * size >= 0.15)
    places = [place for place in range(0, len(labels), step) if labels[place]]
    return places, [labels[place] for place in places]


def _draw_curves(panel: Curves, axes: "Axes") -> None:
    for number, series in enumerate(panel.series):
        heights = [float("nan") if value is None else value for value in series.y]
        colour, dashes = _SERIES[number % len(_SERIES)], _DASHES[number // len(_SERIES) % len(_DASHES)]
        style: dict[str, Any] = {"color": colour, "linestyle": dashes, "linewidth": 1.6, "markersize": 3}
        axes.plot(list(series.x), heights, marker="o" if len(heights) <= 40 else None, label=series.name, **style)
    if panel.is_log and any(value for series in panel.series for value in series.y):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(_label_2_and_5)
    _draw_grid(panel, axes)
    if len(panel.series) > 1:
        axes.legend(fontsize=8, edgecolor="none", framealpha=0.85)


def _draw_grid(panel: Curves | Points, axes: "Axes") -> None:
    axes.set_axisbelow(True)
    axes.grid(color="#e3e7ec")
    axes.set_xlabel(panel.x_axis)
    axes.set_ylabel(panel.y_axis)


def _label_2_and_5(value: float, place: object) -> str:
    """Labels of a logarithmic axis between its powers of ten."""
    text = f"{value:g}"
    return text if text.strip("0.") in ("2", "5") else ""


def _draw_points(panel: Points, axes: "Axes") -> None:
    groups = list(dict.fromkeys(point.group for point in panel.points))
    for number, group in enumerate(groups):
        members = [point for point in panel.points if point.group == group]
        xs, ys = [point.x for point in members], [point.y for point in members]
        colour, marker = _SERIES[number % len(_SERIES)], "os^Dv"[number % 5]
        axes.scatter(xs, ys, s=14, color=colour, marker=marker, label=group)
    for point in panel.points:
        colour = _SERIES[groups.index(point.group) % len(_SERIES)]
        offset, horizontal, vertical = _ANCHORS[point.anchor]
        style: dict[str, Any] = {"fontsize": 7.5, "color": colour, "ha": horizontal, "va": vertical}
        axes.annotate(point.label, (point.x, point.y), offset, textcoords="offset points", **style)
    _draw_grid(panel, axes)
    axes.margins(0.08)
    if len(groups) > 1:
        axes.legend(frameon=False)


def _draw_links(panel: Links, axes: "Axes") -> None:
    """Draw two lines of words, each word as wide as its letters, and the links between them."""
    places = [_spread(panel.source), _spread(panel.target)]
    widest = max(1.0, *(row[-1][1] for row in places if row))
    for link in panel.links:
        above, below = places[0][link.source][0], places[1][link.target][0]
        axes.plot([above, below], [0.86, 0.14], color=_SERIES[0], linewidth=0.8 + 2 * link.weight, alpha=0.85)
    for words, row, height, anchor in ((panel.source, places[0], 0.9, "bottom"), (panel.target, places[1], 0.1, "top")):
        for word, (middle, _) in zip(words, row, strict=True):
            axes.text(middle, height, word, ha="center", va=anchor, fontsize=10)
    axes.set_xlim(0, widest)
    axes.set_ylim(-0.1, 1.1)
    axes.set_axis_off()


def _spread(words: Sequence[str]) -> list[tuple[float, float]]:
    """The middle and the end of each word in a line, in inches."""
    places, end = [], 0.0
    for word in words:
        width = _inches(word, 10.0) + 0.2
        places.append((end + width / 2, end + width))
        end += width
    return places


def _draw_table(panel: Table, axes: "Axes") -> None:
    from matplotlib.transforms import Bbox

    axes.set_axis_off()
    widths = _column_widths(panel)
    table = axes.table(
        cellText=[list(row) for row in panel.rows],
        colLabels=list(panel.header),
        colWidths=[width / sum(widths) for width in widths],
        cellLoc="left",
        colLoc="left",
        bbox=Bbox.from_bounds(0.0, 0.0, 1.0, 1.0),
        edges="horizontal",
    )
    table.auto_set_font_size(False)
    table.set_fontsize(8)
    for cell in table.get_celld().values():
        cell.set_edgecolor("#c3cbd4")


def _column_widths(panel: Table) -> list[float]:
    return [
        _longest([row[column] for row in (panel.header, *panel.rows)]) + 0.25 for column in range(len(panel.header))
    ]


def _wrapped(paragraphs: Sequence[str], *, width_inches: float) -> list[str]:
    """Wrap paragraphs of small print to a width."""
    width = max(50, int(15 * width_inches))
    return [line for text in paragraphs for line in textwrap.wrap(text, width)]


def _colormap(stops: Sequence[str]) -> "Colormap":
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("translate", list(stops))
