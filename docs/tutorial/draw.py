"""Draws the tutorial's pictures: matrices as coloured cells, and curves.

Vega-Lite draws; `vl-convert` runs it without a browser. A picture is one SVG
file. It has no background and follows the reader's light or dark theme.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
import vl_convert
from torch import Tensor

# Colours by day, and what replaces each of them by night.
INK, FAINT, POSITIVE, NEGATIVE = "#24303c", "#9aa5b1", "#125ea6", "#c25700"
NIGHT = {
    INK: "#f4f6f8",
    FAINT: "#77828e",
    POSITIVE: "#7dbdf2",
    NEGATIVE: "#f0a35e",
}
SERIES = [POSITIVE, NEGATIVE, "#0b7f5e", "#a8497d", INK]
NIGHT |= {"#0b7f5e": "#5fd0ab", "#a8497d": "#e79ac4"}
STRONGEST_BELOW_TEXT = 0.5  # opacity

FOLDER = Path(__file__).parent
Panel = dict[str, Any]


def matrix(
    values: Tensor | Sequence[Sequence[float]],
    *,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    title: str = "",
    row_axis: str = "query",
    column_axis: str = "key",
    scale: Literal["weight", "signed"] = "weight",
    cell: int = 0,
) -> Panel:
    """Numbers as coloured cells; small matrices show the numbers too.

    Args:
        values: (rows, columns). True is drawn as 1, without the number.
        rows: Labels; None: 0, 1, ….
        scale: weight: from 0 to 1; signed: blue above zero, orange below.
        cell: Width of a cell in pixels; 0: by the number of columns.
    """
    table = torch.as_tensor(values)
    is_boolean = table.dtype == torch.bool
    table = table.double()
    top = 1.0 if scale == "weight" else table.abs().max().item() or 1.0
    cell = cell or (26 if is_boolean else 38 if table.shape[1] <= 10 else 14)
    cells = [
        {
            "row": row,
            "column": column,
            "value": round(value, 3),
            "strength": round(min(1.0, abs(value) / top), 2),
        }
        for row, line in enumerate(table.tolist())
        for column, value in enumerate(line)
    ]
    num_rows, num_columns = table.shape
    place = {
        "y": _axis("row", row_axis, rows or range(num_rows), cell),
        "x": _axis("column", column_axis, columns or range(num_columns), cell),
    }
    has_numbers = cell >= 30 and not is_boolean
    border = {"stroke": FAINT, "strokeWidth": 0.4} if cell >= 12 else {}
    colour = {"test": "datum.value < 0", "value": NEGATIVE}
    # Below a number no colour is so strong that the number is hard to read.
    strongest = STRONGEST_BELOW_TEXT if has_numbers else 1
    opacity = {"domain": [0, 1], "range": [0, strongest]}
    fill = {
        "fill": {"condition": colour, "value": POSITIVE},
        "fillOpacity": {
            "field": "strength",
            "type": "quantitative",
            "scale": opacity,
            "legend": None,
        },
    }
    rectangle = {"type": "rect", "aria": False} | border
    layers: list[Panel] = [{"mark": rectangle, "encoding": place | fill}]
    if has_numbers:
        number = {
            "text": {
                "field": "value",
                "type": "quantitative",
                "format": ".2f",
            },
            "color": {"value": INK},
        }
        text = {"type": "text", "aria": False}
        layers.append({"mark": text, "encoding": place | number})
    size = {"width": {"step": cell}, "height": {"step": cell}}
    data = {"values": cells}
    return {"title": title, "data": data, "layer": layers, **size}


def curves(
    series: Mapping[str, Tensor | Sequence[float]],
    *,
    x: Sequence[float] | None = None,
    title: str = "",
    x_axis: str,
    y_axis: str,
) -> Panel:
    """Curves over a common axis.

    Args:
        series: The heights of each curve, by its name.
        x: The position of each height; None: 0, 1, ….
    """
    points = []
    for name, heights in series.items():
        numbers = torch.as_tensor(heights).tolist()
        across = range(len(numbers)) if x is None else x
        points += [
            {"x": at, "y": float(f"{y:.4g}"), "name": name}
            for at, y in zip(across, numbers, strict=True)
        ]
    names = list(series)
    legend = {"title": None, "orient": "bottom", "columns": 3}
    colour: dict[str, Any] = {
        "field": "name",
        "type": "nominal",
        "scale": {"domain": names, "range": SERIES[: len(names)]},
        "legend": {**legend, "labelLimit": 400} if len(names) > 1 else None,
    }
    across_axis = {
        "title": x_axis,
        "axis": {"grid": False, "labelSeparation": 10},
    }
    return {
        "title": title,
        "data": {"values": points},
        "mark": {"type": "line", "strokeWidth": 2, "aria": False},
        "encoding": {
            "x": {"field": "x", "type": "quantitative", **across_axis},
            "y": {"field": "y", "type": "quantitative", "title": y_axis},
            "color": colour,
        },
        "width": 340,
        "height": 200,
    }


class Picture(str):
    """The text of an SVG file; a notebook shows the picture."""

    def _repr_svg_(self) -> str:
        return self


def draw(file: str, *panels: Panel, columns: int = 3) -> Picture:
    """Write a picture of panels, so many side by side, beside the pages."""
    axis = {
        "labelColor": INK,
        "labelFontSize": 12,
        "titleColor": INK,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 10,
        "domainColor": FAINT,
        "tickColor": FAINT,
        "gridColor": FAINT,
        "gridOpacity": 0.35,
    }
    title = {"color": INK, "anchor": "start", "fontSize": 13, "offset": 0}
    # Titles have rows of their own, so that all of a row are at one height.
    nothing = {
        "width": 1,
        "height": 1,
        "data": {"values": []},
        "mark": "point",
    }
    cells: list[Panel] = []
    for first in range(0, len(panels), columns):
        row = panels[first : first + columns]
        cells += [nothing | {"title": panel["title"]} for panel in row]
        cells += [nothing] * (columns - len(row))
        cells += [panel | {"title": ""} for panel in row]
    specification = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "concat": cells,
        "columns": columns,
        "spacing": {"row": 10, "column": 28},
        "resolve": {"scale": {"color": "independent"}},
        "background": None,
        "config": {
            "view": {"stroke": None},
            "axis": axis,
            "title": title,
            "legend": {"labelColor": INK, "labelFontSize": 12},
            "text": {"fontSize": 11},
        },
    }
    svg = vl_convert.vegalite_to_svg(specification)
    rules = "".join(
        f'[fill="{day}"]{{fill:{night}}}[stroke="{day}"]{{stroke:{night}}}'
        for day, night in NIGHT.items()
    )
    style = f"<style>@media (prefers-color-scheme: dark){{{rules}}}</style>"
    svg = re.sub("(<svg[^>]*>)", rf"\1{style}", svg, count=1)
    (FOLDER / file).write_text(svg + "\n", encoding="utf-8")
    return Picture(svg)


def _axis(
    field: str, title: str, labels: Sequence[object], cell: int
) -> dict[str, Any]:
    step = max(1, -(-16 // cell))  # a label has room after so many cells
    while len(labels) > 16 and step < len(labels) / 8:
        step *= 2
    texts = ",".join(repr(str(label)) for label in labels)
    axis: dict[str, Any] = {
        "title": title or None,
        "values": list(range(0, len(labels), step)),
        "labelExpr": f"[{texts}][datum.value]",
        "ticks": False,
        "domain": False,
    }
    if field == "row":
        axis["orient"] = "left"
    else:
        is_long = max(len(str(label)) for label in labels) > 3
        axis |= {"orient": "top", "labelAngle": -45 if is_long else 0}
    return {"field": field, "type": "ordinal", "axis": axis}
