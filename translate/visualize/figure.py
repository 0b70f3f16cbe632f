"""Figures for papers: the panels of a picture on one sheet as PNG or SVG, drawn by Vega-Lite without a browser."""

import json
import re
import struct
import textwrap
import zlib
from typing import Any, Literal

from translate.decoding.output.words import SPACE
from translate.errors import InputError
from translate.visualize.charts import chart_specs, theme
from translate.visualize.panels import Matrix, Picture, printable

DOTS_PER_INCH = 160
MOST_CELLS = 600_000  # of a figure: an SVG of some 30 MB
_FONT = "Liberation Sans, DejaVu Sans, sans-serif"  # the first comes with vl-convert
_WIDTH = 1250  # up to which charts stand side by side
_MOST_DOTS = 60_000_000  # a larger figure is drawn coarser


def draw_figure(picture: Picture, *, format: Literal["png", "svg"], dots_per_inch: int = DOTS_PER_INCH) -> bytes:
    """Draw a picture and return the file's content; the same picture gives the same bytes.

    Raises:
        InputError: The picture has more cells than a figure can have.
    """
    import vl_convert

    cells = sum(len(panel.rows) * len(panel.columns) for panel in picture.panels if isinstance(panel, Matrix))
    if cells > MOST_CELLS:
        raise InputError(
            f"the figure would have {cells:,} cells, and the limit is {MOST_CELLS:,}: show shorter or fewer sentences,"
            " fewer positions, or one layer or head"
        )
    # No font of vl-convert has SentencePiece's mark of a space.
    spec = json.loads(json.dumps(_sheet(printable(picture)), ensure_ascii=False).replace(SPACE, "_"))
    if format == "png":
        area = sum((chart["width"] + 90) * (chart["height"] + 120) for chart in spec["concat"])
        dots = min(dots_per_inch, 72 * (_MOST_DOTS / area) ** 0.5)
        return _packed(vl_convert.vegalite_to_png(spec, ppi=dots, allowed_base_urls=[]))
    svg = vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])
    names: dict[str, str] = {}  # vl-convert counts on from figure to figure
    return re.sub(
        r"\b(clip|gradient_)\d+\b", lambda each: names.setdefault(each[0], f"{each[1]}{len(names)}"), svg
    ).encode()


def _packed(png: bytes) -> bytes:
    """The same PNG in about a third of the bytes: vl-convert packs pixels for speed."""
    start, pixels, chunks = 8, b"", []
    while start < len(png):
        length, kind = struct.unpack(">I4s", png[start : start + 8])
        if kind == b"IDAT":
            pixels += png[start + 8 : start + 8 + length]
        else:
            chunks.append(png[start : start + 12 + length])
        start += 12 + length
    body = b"IDAT" + zlib.compress(zlib.decompress(pixels), 9)
    packed = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    return png[:8] + b"".join([*chunks[:-1], packed, chunks[-1]])


def _sheet(picture: Picture) -> dict[str, Any]:
    charts = chart_specs(picture, is_page=False)
    widths = [chart["width"] + 60 for chart in charts]
    together = [sum(widths[first : first + picture.columns]) for first in range(0, len(charts), picture.columns)]
    columns = picture.columns * max(1, _WIDTH // max(together))  # small ones side by side
    apart = {"scale": {channel: "independent" for channel in ("color", "shape", "strokeDash", "strokeWidth")}}
    width = max(sum(widths[:columns]), 500)
    caption = [line for text in picture.paragraphs for line in textwrap.wrap(text, int(width / 5.6))]
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "title": {"text": picture.title, "subtitle": caption, "fontSize": 17, "subtitlePadding": 6, "offset": 16},
        "params": [{"name": switch.name, "value": switch.options[0][0]} for switch in picture.switches],
        "concat": charts,
        "columns": columns,
        "align": "each",
        "spacing": 30,
        "resolve": apart,
        "config": theme("light", font=_FONT),
        "padding": 12,
    }
