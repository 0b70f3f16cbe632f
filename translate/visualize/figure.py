"""Figures for papers: panels in rows and columns on one sheet, as PNG or SVG."""

import io
import warnings
from itertools import islice
from typing import Any, Literal, NamedTuple

from translate.errors import InputError
from translate.visualize.panels import Panel, Picture
from translate.visualize.plots import DOTS_PER_INCH, FAINT, draw_panel, room_for, wrapped

MOST_DOTS = 16_000  # of a side; a larger figure is drawn coarser
_STYLE: dict[Any, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "axes.edgecolor": "#71808f",
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.parse_math": False,  # a $ is a $
    "svg.fonttype": "path",  # letters as outlines: the same in every reader, whatever its fonts
    "svg.hashsalt": "translate",  # the same picture has the same bytes
}


class _Layout(NamedTuple):
    """A figure in inches."""

    width: float
    height: float
    places: list[tuple[Panel, tuple[float, float, float, float]]]  # left, bottom, width, height
    caption: list[str]


def draw_figure(picture: Picture, *, format: Literal["png", "svg"], dots_per_inch: int = DOTS_PER_INCH) -> bytes:
    """The picture as a file's content; the same picture gives the same bytes.

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
        # A letter that the font lacks becomes a box; that is no reason to stop.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        layout = _lay_out(picture)
        figure = Figure(figsize=(layout.width, layout.height))
        for panel, (left, bottom, width, height) in layout.places:
            place = (left / layout.width, bottom / layout.height, width / layout.width, height / layout.height)
            draw_panel(panel, figure.add_axes(place))
        figure.text(0, 1, picture.title, fontsize=12, fontweight="bold", va="top")
        figure.text(0, 0, "\n".join(layout.caption), fontsize=8, color=FAINT, va="bottom", linespacing=1.4)
        written = io.BytesIO()
        metadata = {"Date": None, "Creator": None} if format == "svg" else {"Software": None}
        dots = min(dots_per_inch, MOST_DOTS / max(layout.width, layout.height))
        figure.savefig(written, format=format, dpi=dots, bbox_inches="tight", pad_inches=0.12, metadata=metadata)
    return written.getvalue() if format == "svg" else _with_palette(written)


def _with_palette(png: io.BytesIO) -> bytes:
    """The picture in the 256 colours that are nearest to its own: less than half of the bytes."""
    from PIL import Image  # matplotlib brings it

    small = io.BytesIO()
    image = Image.open(png).convert("RGB")
    palette = image.quantize(256, method=Image.Quantize.MEDIANCUT, kmeans=2, dither=Image.Dither.NONE)
    palette.save(small, "PNG", optimize=True)
    return small.getvalue()


def _lay_out(picture: Picture) -> _Layout:
    """Panels in rows, so that what is drawn begins at the same height in a row and at the same left in a column."""
    columns = min(picture.columns, len(picture.panels))
    remaining = iter([(panel, room_for(panel)) for panel in picture.panels])
    rows = list(iter(lambda: list(islice(remaining, columns)), []))
    by_column = [[row[column][1] for row in rows if column < len(row)] for column in range(columns)]
    lefts = [max(room.left for room in rooms) for rooms in by_column]
    widths = [max(room.width + room.right for room in rooms) for rooms in by_column]
    caption = wrapped(picture.paragraphs, width_inches=sum(lefts) + sum(widths))
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
