"""Figures for papers: the panels of a picture on one sheet, as PNG or SVG, drawn by Vega-Lite without a browser."""

import json
import re
import textwrap
from typing import Literal

from translate.decoding.output.words import SPACE
from translate.errors import InputError, install_hint
from translate.visualize.charts import chart_specs, theme
from translate.visualize.panels import Matrix, Picture, printable

DOTS_PER_INCH = 160
MOST_CELLS = 600_000  # per figure: an SVG of some 30 MB
_FONT = "Liberation Sans, DejaVu Sans, sans-serif"  # the first comes with vl-convert
_WIDTH = 1250  # up to which charts are placed side by side
_MOST_DOTS = 60_000_000  # a larger figure gets a lower resolution


def draw_figure(picture: Picture, *, format: Literal["png", "svg"], dots_per_inch: int = DOTS_PER_INCH) -> bytes:
    """Draw a picture and return the file's content; the same picture gives the same bytes.

    Raises:
        InputError: The picture has more cells than a figure can have, or the extra `pictures` is not installed.
    """
    try:
        import vl_convert
    except ImportError as error:
        hint = f"{install_hint('pictures')}, or write an HTML page"
        raise InputError(f"--format {format} needs vl-convert-python ({error}): {hint}") from error
    cells = sum(len(panel.rows) * len(panel.columns) for panel in picture.panels if isinstance(panel, Matrix))
    if cells > MOST_CELLS:
        raise InputError(
            f"the figure would have {cells:,} cells, and the limit is {MOST_CELLS:,}: show shorter or fewer sentences,"
            " fewer positions, or one layer or head"
        )
    picture = printable(picture)
    charts = chart_specs(picture, is_page=False)
    widths = [chart["width"] + 60 for chart in charts]
    together = [sum(widths[first : first + picture.columns]) for first in range(0, len(charts), picture.columns)]
    columns = picture.columns * max(1, _WIDTH // max(together))  # small ones side by side
    width = max(sum(widths[:columns]), 500)
    caption = [line for text in picture.paragraphs for line in textwrap.wrap(text, int(width / 5.6))]
    sheet = {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "title": {"text": picture.title, "subtitle": caption, "fontSize": 17, "subtitlePadding": 6, "offset": 16},
        "params": [{"name": switch.name, "value": switch.options[0][0]} for switch in picture.switches],
        "concat": charts,
        "columns": columns,
        "align": "each",
        "spacing": 30,
        "resolve": {"scale": dict.fromkeys(("color", "shape", "strokeDash", "strokeWidth"), "independent")},
        "config": theme("light", font=_FONT),
        "padding": 12,
    }
    # vl-convert's fonts do not have SentencePiece's mark of a space.
    spec = json.loads(json.dumps(sheet, ensure_ascii=False).replace(SPACE, "_"))
    if format == "png":
        area = sum((chart["width"] + 90) * (chart["height"] + 120) for chart in spec["concat"])
        dots = min(dots_per_inch, 72 * (_MOST_DOTS / area) ** 0.5)
        return bytes(vl_convert.vegalite_to_png(spec, ppi=dots, allowed_base_urls=[]))
    svg = vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])
    names: dict[str, str] = {}  # vl-convert numbers them across figures
    return re.sub(
        r"\b(clip|gradient_)\d+\b", lambda each: names.setdefault(each[0], f"{each[1]}{len(names)}"), svg
    ).encode()
