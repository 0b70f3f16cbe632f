"""Figures for papers by matplotlib: panels in rows and columns on one sheet, in the colours of the pages by day."""

import io
import math
import textwrap
import warnings
from typing import TYPE_CHECKING, Any, Literal

from translate.errors import InputError, install_hint
from translate.visualize.panels import Curves, Links, Matrix, Panel, Picture, Points, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DOTS_PER_INCH = 160
_MOST_DOTS, _MOST_DOTS_IN_ALL = 16_000, 60_000_000  # of a side, and of a figure; a larger one is drawn coarser
_MOST_INCHES, _MOST_SQUARE_INCHES = 200, 10_000  # beyond, letters would be less than ten dots high
_STYLE: dict[Any, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "axes.axisbelow": True,
    "axes.edgecolor": "#71808f",
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#e3e7ec",
    "legend.fontsize": 8,
    "legend.edgecolor": "none",
    "text.parse_math": False,  # a $ stays a $
    "svg.fonttype": "path",  # letters as outlines: the same in every reader, whatever its fonts
    "svg.hashsalt": "translate",  # the same picture has the same bytes
}
_FAINT = "#4d5a68"
_COLOURS = {  # of a matrix, from its smallest value to its largest
    "weight": ["#ffffff", "#d6e6f4", "#8fc1de", "#3d8dc3", "#125ea6", "#08306b"],
    "signed": ["#08306b", "#2f79b5", "#9cc7e0", "#f7f7f7", "#f3b670", "#c96a12", "#7f3b08"],
    "visible": ["#ffffff", "#125ea6"],
}
_SERIES = ["#0072b2", "#c25700", "#007a5a", "#a8497d", "#7a5f00", "#333333"]
_DASHES = ["-", "--", ":", "-."]
_MASKED = "#d4dae1"
_ANCHORS: dict[str, tuple[tuple[int, int], str, str]] = {  # offset and alignment of a label
    "right": ((4, 0), "left", "center"),
    "left": ((-4, 0), "right", "center"),
    "above": ((0, 4), "center", "bottom"),
    "below": ((0, -4), "center", "top"),
}
_CELL = 0.19  # inches: a line of text, so that each row and column of a matrix has its label
_LETTER = 0.0837  # inches: the width of every letter of DejaVu Sans Mono in 10 points
_LINE = 0.22  # inches: a row of a table


def draw_figure(picture: Picture, *, format: Literal["png", "svg"], dots_per_inch: int = DOTS_PER_INCH) -> bytes:
    """Draw a picture and return the file's content; the same picture gives the same bytes.

    Raises:
        InputError: matplotlib is not installed, or the figure would be too large to be read.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise InputError(
            f"--format {format} needs matplotlib: {install_hint('pictures')}, or use --format html"
        ) from error
    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        # A letter that the font lacks is drawn as a box.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = _lay_out(picture)
        written = io.BytesIO()
        metadata = {"Date": None, "Creator": None} if format == "svg" else {"Software": None}
        width, height = figure.get_size_inches()
        dots = min(dots_per_inch, _MOST_DOTS / max(width, height), math.sqrt(_MOST_DOTS_IN_ALL / (width * height)))
        figure.savefig(written, format=format, dpi=dots, bbox_inches="tight", pad_inches=0.12, metadata=metadata)
    return written.getvalue()


def _lay_out(picture: Picture) -> "Figure":
    """A figure as large as its panels, and the labels around them, need."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    columns = min(picture.columns, len(picture.panels))
    sizes = [_size(panel) for panel in picture.panels]
    widths = [max(width for width, _ in sizes[column::columns]) for column in range(columns)]
    heights = [max(height for _, height in sizes[first : first + columns]) for first in range(0, len(sizes), columns)]
    width, height = sum(widths), sum(heights)
    if max(width, height) > _MOST_INCHES or width * height > _MOST_SQUARE_INCHES:
        raise InputError(
            f"the figure would be {width:.0f} x {height:.0f} inches, and the limits are {_MOST_INCHES} a side and"
            f" {_MOST_SQUARE_INCHES:,} square inches: show shorter or fewer sentences, or one layer or head, or use"
            " --format html"
        )
    figure = Figure(layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12, wspace=0, hspace=0))
    grid = figure.add_gridspec(len(heights), columns, width_ratios=widths, height_ratios=heights)
    all_axes = []
    for number, panel in enumerate(picture.panels):
        row, column = divmod(number, columns)
        all_axes.append(figure.add_subplot(grid[row, column], anchor="NW"))
        _draw_panel(panel, all_axes[-1], width=widths[column], height=heights[row])
    num_letters = max(50, int(15 * sum(widths)))
    caption = [line for text in picture.paragraphs for line in textwrap.wrap(text, num_letters)]
    figure.suptitle(picture.title, x=0, ha="left", fontsize=12, fontweight="bold")
    figure.supxlabel("\n".join(caption), x=0, ha="left", fontsize=8, color=_FAINT, linespacing=1.4)
    # What labels and titles need is measured in a figure that has room enough; the rest is for the panels.
    matrices = [panel for panel in picture.panels if isinstance(panel, Matrix)]
    label = 2 + 0.15 * max((len(text) for panel in matrices for text in (*panel.rows, *panel.columns)), default=0)
    loose = sum(widths) + label * len(widths), sum(heights) + label * len(heights) + 0.2 * len(caption)
    figure.set_size_inches(loose)
    figure.draw_without_rendering()
    share_x = sum(axes.get_position(original=True).width for axes in all_axes[:columns])
    share_y = sum(axes.get_position(original=True).height for axes in all_axes[::columns])
    figure.set_size_inches(sum(widths) + loose[0] * (1 - share_x), sum(heights) + loose[1] * (1 - share_y))
    return figure


def _size(panel: Panel) -> tuple[float, float]:
    """The width and height in inches that a panel needs, without the labels around it."""
    match panel:
        case Matrix(scale="signed"):  # numbered cells share the space, with two dots or more for each
            columns, rows = len(panel.columns), len(panel.rows)
            width, height = min(_CELL * columns, 5.5), min(_CELL * rows, 4.2)
            width, height = max(width, 2 * columns / DOTS_PER_INCH), max(height, 2 * rows / DOTS_PER_INCH)
        case Matrix():
            width, height = _CELL * len(panel.columns), _CELL * len(panel.rows)
        case Curves():
            width, height = 4.4, 2.4
        case Points():
            width, height = 8.5, 6.4
        case Links():
            width, height = _LETTER * max(len(" ".join(side)) for side in (panel.source, panel.target)), 1.2
        case Table():
            width, height = sum(_column_widths(panel)), _LINE * (len(panel.rows) + 1)
    return max(width, 0.07 * len(panel.title)), height


def _draw_panel(panel: Panel, axes: "Axes", *, width: float, height: float) -> None:
    """Draw a panel and its title into axes that will have about this size in inches."""
    note = textwrap.wrap(panel.note, max(50, int(13 * width)))
    axes.set_title("\n".join([panel.title, *note]), loc="left", pad=8)
    match panel:
        case Matrix():
            _draw_matrix(panel, axes, width=width, height=height)
        case Curves():
            _draw_curves(panel, axes)
        case Points():
            _draw_points(panel, axes)
        case Links():
            _draw_links(panel, axes, num_letters=width / _LETTER)
        case Table():
            _draw_table(panel, axes, width=width, height=height)
    if isinstance(panel, Curves | Points):
        axes.grid()
        axes.set_xlabel(panel.x_axis)
        axes.set_ylabel(panel.y_axis)
        if len(axes.get_legend_handles_labels()[1]) > 1:
            axes.legend()


def _draw_matrix(panel: Matrix, axes: "Axes", *, width: float, height: float) -> None:
    import numpy as np
    from matplotlib.colors import LinearSegmentedColormap, Normalize, PowerNorm

    values = np.array(panel.values, dtype=float)  # None becomes NaN, which is not drawn
    norm = Normalize(0.0, 1.0)
    if panel.scale == "weight":
        norm = PowerNorm(0.5, 0.0, 1.0)  # by the root, so that small weights are visible
    elif panel.scale == "signed":
        limit = float(np.nanmax(np.abs(values))) or 1.0
        norm = Normalize(-limit, limit)
    colours = LinearSegmentedColormap.from_list("translate", _COLOURS[panel.scale])
    aspect: Literal["auto", "equal"] = "auto" if panel.scale == "signed" else "equal"
    image = axes.imshow(values, norm=norm, cmap=colours, aspect=aspect, interpolation="nearest")
    axes.set_facecolor(_MASKED)
    axes.spines[:].set_visible(True)
    steps = 1, 1
    if panel.scale == "signed":
        axes.figure.colorbar(image, ax=axes, aspect=30, pad=0.02)
        steps = math.ceil(0.15 / width * len(panel.columns)), math.ceil(0.15 / height * len(panel.rows))
    elif panel.scale == "visible":
        axes.set_xticks(np.arange(len(panel.columns) - 1) + 0.5, minor=True)
        axes.set_yticks(np.arange(len(panel.rows) - 1) + 0.5, minor=True)
        axes.grid(which="minor", color="#c3cbd4", linewidth=0.6)
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_xticks(range(0, len(panel.columns), steps[0]), panel.columns[:: steps[0]], rotation=90)
    axes.set_yticks(range(0, len(panel.rows), steps[1]), panel.rows[:: steps[1]])
    axes.tick_params(which="both", length=0)
    axes.set_xlabel(textwrap.fill(panel.column_axis, max(12, int(16 * width))), color=_FAINT, fontsize=8)
    axes.set_ylabel(textwrap.fill(panel.row_axis, max(12, int(16 * height))), color=_FAINT, fontsize=8)


def _draw_curves(panel: Curves, axes: "Axes") -> None:
    from matplotlib.ticker import LogLocator

    for number, series in enumerate(panel.series):
        heights = [math.nan if value is None else value for value in series.y]
        colour, dashes = _SERIES[number % len(_SERIES)], _DASHES[number // len(_SERIES) % len(_DASHES)]
        style: dict[str, Any] = {"color": colour, "linestyle": dashes, "linewidth": 1.6, "markersize": 3}
        axes.plot(list(series.x), heights, marker="o" if len(heights) <= 40 else None, label=series.name, **style)
    if panel.is_log and any(value for series in panel.series for value in series.y):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("")


def _draw_points(panel: Points, axes: "Axes") -> None:
    groups = list(dict.fromkeys(point.group for point in panel.points))
    for number, group in enumerate(groups):
        members = [point for point in panel.points if point.group == group]
        colour, marker = _SERIES[number % len(_SERIES)], "os^Dv"[number % 5]
        xs, ys = [point.x for point in members], [point.y for point in members]
        axes.scatter(xs, ys, s=14, color=colour, marker=marker, label=group)
        for point in members:
            offset, horizontal, vertical = _ANCHORS[point.anchor]
            style: dict[str, Any] = {"fontsize": 7.5, "color": colour, "ha": horizontal, "va": vertical}
            axes.annotate(point.label, (point.x, point.y), offset, textcoords="offset points", **style)
    axes.margins(0.08)


def _draw_links(panel: Links, axes: "Axes", *, num_letters: float) -> None:
    """Draw two lines of words in letters of one width, and the links between them."""
    middles: list[list[float]] = []
    for words, height, anchor in ((panel.source, 0.9, "bottom"), (panel.target, 0.1, "top")):
        ends = [len(" ".join(words[: number + 1])) for number in range(len(words))]
        middles.append([end - len(word) / 2 for word, end in zip(words, ends, strict=True)])
        for word, middle in zip(words, middles[-1], strict=True):
            axes.text(middle, height, word, ha="center", va=anchor, fontsize=10, family="DejaVu Sans Mono")
    for source, target, weight in panel.links:
        xs = [middles[0][source], middles[1][target]]
        axes.plot(xs, [0.86, 0.14], color=_SERIES[0], linewidth=0.8 + 2 * weight, alpha=0.85)
    axes.set_xlim(0, num_letters)
    axes.set_ylim(-0.1, 1.1)
    axes.set_axis_off()


def _draw_table(panel: Table, axes: "Axes", *, width: float, height: float) -> None:
    from matplotlib.transforms import Bbox

    axes.set_axis_off()
    widths = _column_widths(panel)
    share = _LINE * (len(panel.rows) + 1) / height
    table = axes.table(
        cellText=[list(row) for row in panel.rows],
        colLabels=list(panel.header),
        colWidths=[each / sum(widths) for each in widths],
        cellLoc="left",
        colLoc="left",
        bbox=Bbox.from_bounds(0.0, 1 - share, sum(widths) / width, share),
        edges="horizontal",
    )
    table.auto_set_font_size(False)
    table.set_fontsize(8)
    for cell in table.get_celld().values():
        cell.set_edgecolor("#c3cbd4")


def _column_widths(panel: Table) -> list[float]:
    """The width in inches of each column of a table, by its longest text."""
    return [0.3 + 0.075 * max(map(len, column)) for column in zip(panel.header, *panel.rows, strict=True)]
