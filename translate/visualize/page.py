"""A picture as a page, or as a figure that Vega-Lite draws without a browser: HTML, PNG and SVG files."""

import html
import json
import re
import textwrap
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from translate.atomic import open_output
from translate.data.tokenizer import SPACE
from translate.errors import InputError, import_extra
from translate.visualize.charts import chart_specs, theme
from translate.visualize.panels import Curves, Matrix, Picture, Table, printable

PictureFormat = Literal["html", "png", "svg"]
_PAGE_FONT = 'system-ui, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif'
_FIGURE_FONT = "Liberation Sans, DejaVu Sans, sans-serif"  # the first comes with vl-convert
_MOST_CELLS = 600_000  # per figure: an SVG of some 30 MB
_WIDTH = 1250  # a figure's charts are placed side by side up to this width
_NOTHING = {"height": 1, "data": {"values": []}, "mark": "point"}  # a chart without marks
_DOTS_PER_INCH, _MOST_DOTS = 160, 60_000_000  # of a PNG; a larger one gets a lower resolution
_CDN = "https://cdn.jsdelivr.net"
_VEGA = ("vega@6.2", "vega-lite@6.4", "vega-embed@7.0")  # the versions bundled with vl-convert
_FORMATS: dict[str, PictureFormat] = {".html": "html", ".htm": "html", ".png": "png", ".svg": "svg"}


def picture_format(file: Path) -> PictureFormat:
    """The format that the ending of a picture's file determines; an InputError if it has another ending."""
    chosen = _FORMATS.get(file.suffix.lower())
    if chosen is None:
        raise InputError(f"--output {file}: end it in .html, .png or .svg")
    return chosen


def save_picture(picture: Picture | str, file: Path) -> None:
    """Draw a picture, unless it is a page that is already drawn, and save it.

    Raises:
        InputError: The picture is too large for a figure, or its file has another ending than a picture's.
        RunError: The file cannot be written.
    """
    format = picture_format(file)
    if isinstance(picture, str):
        content = printable(picture).encode()
    elif format == "html":
        content = picture_page(picture).encode()
    else:
        content = draw_figure(picture, format=format)
    with open_output(file) as written:
        written.write(content)


def picture_page(picture: Picture) -> str:
    """The HTML page of a picture, with Vega-Lite in it."""
    picture = printable(picture)
    panels, charts = [], iter(chart_specs(picture, is_page=True))
    for panel in picture.panels:
        content = {"rows": panel.rows, "header": panel.header} if isinstance(panel, Table) else {"spec": next(charts)}
        panels.append({"title": panel.title, "note": panel.note, **content})
    data = {
        "title": picture.title,
        "paragraphs": list(picture.paragraphs),
        "columns": picture.columns,
        "canZoom": any(isinstance(panel, Curves) for panel in picture.panels),
        "themes": {"light": theme("light", font=_PAGE_FONT), "dark": theme("dark", font=_PAGE_FONT)},
        "panels": panels,
    }
    return fill_template(data, scripts=["drawing.js", "page.js"], library=_vega())


def draw_figure(picture: Picture, *, format: Literal["png", "svg"]) -> bytes:
    """Draw the charts of a picture, without its tables, and return the file's content.

    The same picture gives the same bytes, but for the numbers of gradients in SVGs after the first of a process.

    Raises:
        InputError: The picture has more cells than a figure can have, or the extra `pictures` is not installed.
    """
    vl_convert = import_extra("vl_convert", needed_by=f"a picture in .{format}", instead="write an HTML page")
    cells = sum(len(panel.rows) * len(panel.columns) for panel in picture.panels if isinstance(panel, Matrix))
    if cells > _MOST_CELLS:
        raise InputError(
            f"the figure would have {cells:,} cells, and the limit is {_MOST_CELLS:,}: show shorter or fewer sentences,"
            " fewer positions, or one layer or head"
        )
    picture = printable(picture)
    charts = chart_specs(picture, is_page=False)
    panels = [panel for panel in picture.panels if not isinstance(panel, Table)]
    widths = [chart["width"] + 60 for chart in charts]
    together = [sum(widths[first : first + picture.columns]) for first in range(0, len(charts), picture.columns)]
    columns = picture.columns * max(1, _WIDTH // max(together))  # small ones side by side
    width = max(sum(widths[:columns]), 500)
    caption = [line for text in picture.paragraphs for line in textwrap.wrap(text, int(width / 5.6))]
    # Titles have rows of their own, so that they are at one height, whatever labels the charts have at their tops.
    grid: list[dict[str, Any]] = []
    for first in range(0, len(charts), columns):
        row = list(zip(panels, charts, strict=True))[first : first + columns]
        notes = [textwrap.wrap(panel.note, max(40, int(chart["width"] / 5.6))) for panel, chart in row]
        for (panel, chart), note in zip(row, notes, strict=True):
            title = {"text": panel.title, "subtitle": [*note, *[" "] * (max(map(len, notes)) - len(note))], "offset": 0}
            grid.append({"title": title, "width": chart["width"], **_NOTHING})
        grid += [{"width": 1, **_NOTHING}] * (columns - len(row)) + [chart for _, chart in row]
    sheet = {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "title": {"text": picture.title, "subtitle": caption, "fontSize": 17, "subtitlePadding": 6, "offset": 16},
        "concat": grid,
        "columns": columns,
        "align": "each",
        "spacing": {"row": 18, "column": 30},
        "resolve": {"scale": dict.fromkeys(("color", "shape", "strokeDash", "strokeWidth"), "independent")},
        "config": theme("light", font=_FIGURE_FONT),
        "padding": 12,
    }
    # vl-convert's fonts do not have SentencePiece's mark of a space.
    specification = json.dumps(sheet, ensure_ascii=False).replace(SPACE, "_")
    if format == "svg":
        return bytes(vl_convert.vegalite_to_svg(specification, allowed_base_urls=[]).encode())
    area = sum((chart["width"] + 90) * (chart["height"] + 120) for chart in charts)
    dots_per_inch = min(_DOTS_PER_INCH, int(72 * (_MOST_DOTS / area) ** 0.5))
    return bytes(vl_convert.vegalite_to_png(specification, ppi=dots_per_inch, allowed_base_urls=[]))


def _vega() -> str:
    """Script elements with Vega-Lite and `vegaEmbed`: their code, or links to it without the extra `pictures`."""
    try:
        import vl_convert
    except ImportError:
        return "".join(f'<script src="{_CDN}/npm/{package}"></script>\n' for package in _VEGA)
    code = _bundle(vl_convert.javascript_bundle).replace("</script", "<\\/script")
    return f"<script>(() => {{\n{code}\n}})();</script>\n"


@cache  # it takes seconds
def _bundle(make: Callable[[str], str]) -> str:
    return make("window.vegaEmbed = vegaEmbed;")


def fill_template(data: dict[str, Any], *, scripts: list[str], library: str = "") -> str:
    """Fill in the HTML template: title, style, data and scripts.

    Args:
        data: JSON values for the scripts, with the page's title.
        scripts: Names of script files of this package, in their order.
        library: Script elements of a library that they use.
    """
    parts = {
        "title": html.escape(data["title"]),
        "style": _read("page.css"),
        # With < escaped, no text of the data can end the script element or begin a comment in it.
        "data": json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"),
        "library": library,
        "origins": f" {_CDN}" if _CDN in library[:100] else "",
        "script": "\n".join(_read(name) for name in scripts),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], _read("page.html"))


def _read(name: str) -> str:
    return files("translate.visualize").joinpath(name).read_text(encoding="utf-8")
