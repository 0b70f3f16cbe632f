"""Each kind of panel drawn by matplotlib, with the colours of the pages in daylight, and the room that it needs."""

import functools
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from translate.visualize.panels import Curves, Links, Matrix, Panel, Points, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap

DOTS_PER_INCH = 160
FAINT = "#4d5a68"
_WEIGHT = ["#ffffff", "#d6e6f4", "#8fc1de", "#3d8dc3", "#125ea6", "#08306b"]
_SIGNED = ["#08306b", "#2f79b5", "#9cc7e0", "#f7f7f7", "#f3b670", "#c96a12", "#7f3b08"]
_VISIBLE = ["#ffffff", "#125ea6"]
_SERIES = ["#0072b2", "#c25700", "#007a5a", "#a8497d", "#7a5f00", "#333333"]
_DASHES = ["-", "--", ":", "-."]
_MASKED = "#d4dae1"
_ANCHORS: dict[str, tuple[tuple[int, int], Literal["left", "right", "center"], Literal["center", "bottom", "top"]]] = {
    "right": ((4, 0), "left", "center"),
    "left": ((-4, 0), "right", "center"),
    "above": ((0, 4), "center", "bottom"),
    "below": ((0, -4), "center", "top"),
}


class Room(NamedTuple):
    """Inches that a panel needs: for what is drawn, and around it for labels and the title."""

    left: float
    width: float
    right: float
    above: float
    height: float
    below: float


def draw_panel(panel: Panel, axes: "Axes") -> None:
    """Draw a panel and its title into axes that have the size which `room_for` gives."""
    title = "\n".join([panel.title, *_note(panel, room_for(panel).width)])
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


def room_for(panel: Panel) -> Room:
    """What a panel needs so that none of its labels is cut or covered."""
    match panel:
        case Matrix():
            left = _longest(panel.rows) + 0.15 + 0.22 * bool(panel.row_axis)
            above = _longest(panel.columns) + 0.15 + 0.22 * bool(panel.column_axis)
            cell_width, cell_height = _cell_size(panel)
            width, height = cell_width * len(panel.columns), cell_height * len(panel.rows)
            beside = 0.7 if panel.scale == "signed" else 0.1
            room = Room(left, width, max(beside, _inches(panel.title) - width) + 0.15, above, height, 0.15)
        case Curves():
            room = Room(0.75, 4.4, 0.25, 0.0, 2.4, 0.6)
        case Points():
            room = Room(0.75, 8.5, 0.2, 0.0, 6.4, 0.6)
        case Links():
            room = Room(0.0, max(2.0, *(_spread(side)[-1][1] for side in (panel.source, panel.target))), 0.5, 0, 1.2, 0)
        case Table():
            width = max(3.0, sum(_column_widths(panel)))
            room = Room(0.0, width, 0.3, 0.0, 0.22 * (len(panel.rows) + 1), 0.3)
    return room._replace(above=room.above + 0.32 + 0.15 * len(_note(panel, room.width)))


def _note(panel: Panel, width: float) -> list[str]:
    return wrapped([panel.note], width_inches=max(4.0, width)) if panel.note else []


def _longest(texts: Sequence[str]) -> float:
    return max(map(_inches, texts), default=0.0)


@functools.cache
def _inches(text: str, size: float = 9.0) -> float:
    """The width of a text, in the font of the figure."""
    from matplotlib.textpath import TextPath

    return TextPath((0, 0), text, size=size).get_extents().x1 / 72 if text.strip() else 0.0


def _cell_size(panel: Matrix) -> tuple[float, float]:
    """Cells between tokens are as high as a line of text, so that each is named; numbered ones share what there is."""
    if panel.scale == "signed":
        shares = 5.5 / len(panel.columns), 4.2 / len(panel.rows)
        dots = [max(2, round(min(0.19, share) * DOTS_PER_INCH)) for share in shares]  # whole ones: no cell is lost
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
            norm, colours = PowerNorm(0.5, 0.0, 1.0), _colormap(_WEIGHT)  # by the root: small weights are seen
        case "signed":
            norm, colours = Normalize(-limit, limit), _colormap(_SIGNED)
        case "visible":
            norm, colours = Normalize(0.0, 1.0), _colormap(_VISIBLE)
    axes.set_facecolor(_MASKED)
    cell_width, cell_height = _cell_size(panel)
    image = axes.imshow(
        np.ma.masked_invalid(values),
        norm=norm,
        cmap=colours,
        aspect=cell_height / cell_width,
        interpolation="nearest",
    )
    for spine in axes.spines.values():
        spine.set_visible(True)
    if panel.scale == "visible":
        axes.set_xticks(np.arange(len(panel.columns) - 1) + 0.5, minor=True)
        axes.set_yticks(np.arange(len(panel.rows) - 1) + 0.5, minor=True)
        axes.grid(which="minor", color="#c3cbd4", linewidth=0.6)
        axes.tick_params(which="minor", length=0)
    if panel.scale == "signed":
        beside = axes.inset_axes((1.0 + 0.1 / (cell_width * len(panel.columns)), 0.0, 0.03, 1.0))
        axes.figure.colorbar(image, cax=beside)
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_xticks(*_ticks(panel.columns, size=cell_width), rotation=90)
    axes.set_yticks(*_ticks(panel.rows, size=cell_height))
    axes.tick_params(length=0)
    axes.set_xlabel(panel.column_axis, color=FAINT, fontsize=8)
    axes.set_ylabel(panel.row_axis, color=FAINT, fontsize=8)


def _ticks(labels: Sequence[str], *, size: float) -> tuple[list[int], list[str]]:
    """Places and texts of the labels that have room and say something."""
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if step * size >= 0.15)
    places = [place for place in range(0, len(labels), step) if labels[place]]
    return places, [labels[place] for place in places]


def _draw_curves(panel: Curves, axes: "Axes") -> None:
    for number, series in enumerate(panel.series):
        heights = [float("nan") if value is None else value for value in series.y]
        axes.plot(
            list(series.x),
            heights,
            color=_SERIES[number % len(_SERIES)],
            linestyle=_DASHES[number // len(_SERIES) % len(_DASHES)],
            linewidth=1.6,
            marker="o" if len(heights) <= 40 else None,
            markersize=3,
            label=series.name,
        )
    if panel.is_log and any(value for series in panel.series for value in series.y):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(_label_2_and_5)
    axes.set_axisbelow(True)
    axes.grid(color="#e3e7ec")
    axes.set_xlabel(panel.x_axis)
    axes.set_ylabel(panel.y_axis)
    if len(panel.series) > 1:
        axes.legend(fontsize=8, edgecolor="none", framealpha=0.85)


def _label_2_and_5(value: float, place: object) -> str:
    """Between the powers of ten of an axis."""
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
        axes.annotate(
            point.label,
            (point.x, point.y),
            offset,
            textcoords="offset points",
            fontsize=7.5,
            color=colour,
            ha=horizontal,
            va=vertical,
        )
    axes.set_axisbelow(True)
    axes.grid(color="#e3e7ec")
    axes.margins(0.08)
    axes.set_xlabel(panel.x_axis)
    axes.set_ylabel(panel.y_axis)
    if len(groups) > 1:
        axes.legend(frameon=False)


def _draw_links(panel: Links, axes: "Axes") -> None:
    """Two lines of words, each word as wide as its letters."""
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
    """The middle and the end of each word, in inches."""
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
        cellText=[[cell for cell in row] for row in panel.rows],
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


def wrapped(paragraphs: Sequence[str], *, width_inches: float) -> list[str]:
    """Paragraphs as lines of small print that are no wider."""
    width = max(50, int(15 * width_inches))
    return [line for text in paragraphs for line in textwrap.wrap(text, width)]


def _colormap(stops: Sequence[str]) -> "Colormap":
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("translate", list(stops))
