"""Panels as Vega-Lite specifications, which serve pages as well as PNG and SVG.

https://vega.github.io/vega-lite/docs/
"""

import json
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

from translate.visualize.panels import Curves, Links, Matrix, Picture, Table

Spec = dict[str, Any]

_LINE = 18  # the height of a line in pixels
_MOST_IN_SVG = 4000  # cells; a browser draws more of them on a canvas
COLOURS = {
    # Lightness rises or falls evenly along each scale, and no scale relies on telling red from green. The series have
    # Okabe and Ito's colours, which colour-blind people can tell apart.
    "light": {
        "paper": "#ffffff", "ink": "#16202b", "faint": "#4d5a68", "line": "#e3e7ec", "masked": "#d4dae1",
        "weight": ["#ffffff", "#d6e6f4", "#8fc1de", "#3d8dc3", "#125ea6", "#08306b"],
        "signed": ["#08306b", "#2f79b5", "#9cc7e0", "#f7f7f7", "#f3b670", "#c96a12", "#7f3b08"],
        "visible": ["#125ea6", "#eef1f4"],
        "series": ["#0072b2", "#c25700", "#007a5a", "#a8497d", "#7a5f00", "#333333"],
    },
    "dark": {
        "paper": "#12161c", "ink": "#e8edf3", "faint": "#aab6c3", "line": "#2a333d", "masked": "#39434e",
        "weight": ["#12161c", "#14324f", "#1a5c8e", "#3592cf", "#7cc4ef", "#dff2ff"],
        "signed": ["#bfe3ff", "#57a9e0", "#22587f", "#181c22", "#8a4d12", "#e08a2c", "#ffdca8"],
        "visible": ["#3592cf", "#20272f"],
        "series": ["#56b4e9", "#e69f00", "#3fc79a", "#e08fc0", "#f0e442", "#e8edf3"],
    },
}  # fmt: skip
_STROKES = {"title": None, "symbolType": "stroke", "symbolSize": 400, "symbolStrokeWidth": 2}
# Curves differ in colour by their names, in width once all colours are taken, and in dashes by their kinds.
_LINE_WIDTHS = [1.8, 3.6, 0.9, 5.4]
_DASHES = [[1, 0], [6, 4], [2, 3], [8, 3, 2, 3], [14, 4], [8, 3, 2, 3, 2, 3], [2, 7], [14, 4, 6, 4]]
_GREY = {"symbolStrokeColor": "#808a96"}  # on white and on black


def theme(name: Literal["light", "dark"], *, font: str) -> Spec:
    """Vega's configuration with all colours, so one specification serves light and dark pages."""
    colours: dict[str, Any] = COLOURS[name]
    ink, faint, line, series = (colours[key] for key in ("ink", "faint", "line", "series"))
    texts = {"labelColor": ink, "labelLimit": 300, "labelFontSize": 12}
    texts |= {"titleColor": faint, "titleLimit": 600, "titleFontSize": 12, "titleFontWeight": "normal"}
    ramps = {"heatmap": colours["weight"], "diverging": colours["signed"], "ordinal": colours["visible"]}
    return {
        "aria": False,  # the page describes its charts, and has their numbers as tables
        "background": colours["paper"],
        "font": font,
        "axis": {**texts, "gridColor": line, "domainColor": faint, "tickColor": faint},
        "legend": {**texts, "orient": "bottom", "direction": "horizontal", "titleOrient": "left"},
        "title": {"color": ink, "subtitleColor": faint, "anchor": "start", "fontSize": 14, "subtitleFontSize": 12},
        "view": {"stroke": None},
        "text": {"color": ink, "fontSize": 12},
        "rule": {"color": series[0]},
        "style": {
            "halo": {"stroke": colours["paper"], "strokeWidth": 4},
            "masked": {"fill": colours["masked"], "stroke": line},
        },
        "range": {"category": series, **ramps},
    }


def chart_specs(picture: Picture, *, is_page: bool) -> list[Spec]:
    """A specification for each panel that is not a table; equal legends are shown once, in the first chart.

    `usermeta` is for the page: the header and fields of the data as a table, whether the chart grows with the window,
    and how it is drawn.

    Args:
        is_page: For a page, with tooltips and zoom.
    """
    series = [curve for panel in picture.panels if isinstance(panel, Curves) for curve in panel.series]
    names, kinds = (list(dict.fromkeys(getattr(curve, field) for curve in series)) for field in ("name", "kind"))
    curves = partial(_curves, is_page=is_page, names=names, kinds=kinds)
    draw: dict[type, Callable[..., Spec]] = {Matrix: _matrix, Curves: curves, Links: _links}
    specs: list[Spec] = []
    legends: set[str] = set()
    for panel in picture.panels:
        if isinstance(panel, Table):
            continue
        spec = draw[type(panel)](panel)
        layers = [layer.get("encoding", {}) for layer in (spec, *spec.get("layer", []))]
        channels = [channel for layer in layers for channel in layer.items() if "legend" in channel[1]]
        keys = [json.dumps(channel) for channel in channels]
        for key, (_, channel) in zip(keys, channels, strict=True):
            if key in legends:
                channel["legend"] = None
        legends.update(keys)
        specs.append(spec)
    return specs


def _number(field: str, **settings: Any) -> Spec:
    return {"field": field, "type": "quantitative", **settings}


def _tooltip(titles: dict[str, str]) -> list[Spec]:
    return [{"field": field, "title": title} for field, title in titles.items()]


def _numbers(titles: dict[str, str], *, grows: bool) -> Spec:
    """What a page reads to show the data of a chart as a table, and whether the chart grows with the window."""
    return {"header": list(titles.values()), "fields": list(titles), "grows": grows}


def _rounded(value: float | int | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


def _json(labels: Sequence[str]) -> str:
    return json.dumps(list(labels), ensure_ascii=False)


def _is_numbered(labels: Sequence[str]) -> bool:
    return len(labels) > 1 and list(labels) == list(map(str, range(len(labels))))


def _axis(labels: Sequence[str], title: str, **settings: Any) -> Spec:
    """An axis with a label for each row or column; numbers are labelled as far as there is room."""
    is_numbered = _is_numbered(labels)
    axis = {"title": title or None, "labelOverlap": is_numbered, "labelSeparation": 4, "ticks": False, "domain": False}
    return {**axis, "labelExpr": f"{_json(labels)}[datum.value]", "labelAngle": 0 if is_numbered else -90, **settings}


def _matrix(panel: Matrix) -> Spec:
    num_rows, num_columns = len(panel.rows), len(panel.columns)
    row_numbers, column_numbers = _is_numbered(panel.rows), _is_numbered(panel.columns)
    width = min(max(14 * num_columns, 160), 640) if column_numbers else max(_LINE * num_columns, 60)
    height = min(max(14 * num_rows, 30), 420) if row_numbers else _LINE * num_rows
    values, colour = _cells(panel)
    # Numbered cells overlap, so that no light shines between small ones.
    bands = 1 + 1.5 * num_columns / width, 1 + 1.5 * num_rows / height
    across, down = bands[0] if column_numbers else 0.95, bands[1] if row_numbers else 0.95
    titles = {"query": panel.row_axis, "key": panel.column_axis, "value": colour["legend"]["title"] or "value"}
    rows = enumerate(zip(panel.rows, values, strict=True))
    return {
        "width": width,
        "height": height,
        "view": {"style": "masked"},
        "data": {"values": [{"row": number, "query": label, "value": row} for number, (label, row) in rows]},
        "transform": [
            {"calculate": f"sequence({num_columns})", "as": "column"},
            {"calculate": _json(panel.columns), "as": "key"},
            {"flatten": ["value", "column", "key"]},
            {"filter": "datum.value !== null"},
        ],
        "mark": {"type": "rect", "width": {"band": across}, "height": {"band": down}},
        "encoding": {
            "x": {"field": "column", "type": "ordinal", "axis": _axis(panel.columns, panel.column_axis, orient="top")},
            "y": {"field": "row", "type": "ordinal", "axis": _axis(panel.rows, panel.row_axis, labelAngle=0)},
            "color": colour,
            "tooltip": _tooltip(titles),
        },
        "usermeta": {
            "header": [panel.row_axis, *panel.columns],
            "fields": ["query", "value"],
            "grows": column_numbers,
            "embedOptions": {"renderer": "canvas" if num_rows * num_columns > _MOST_IN_SVG else "svg"},
        },
    }


def _cells(panel: Matrix) -> tuple[list[list[Any]], Spec]:
    """The values of a matrix as they are shown, and the channel of their colours."""
    values: list[list[Any]] = [[_rounded(value) for value in row] for row in panel.values]
    if panel.scale == "visible":
        values = [["visible" if value else "not visible" for value in row] for row in values]
        scale: Spec = {"domain": ["visible", "not visible"], "range": "ordinal"}
        legend: Spec = {"title": None, "symbolType": "square"}
        return values, {"field": "value", "type": "nominal", "scale": scale, "legend": legend}
    if panel.scale == "weight":
        scale = {"type": "sqrt", "domain": [0, 1], "range": "heatmap", "interpolate": "rgb"}
        legend = {"title": "weight", "values": [0, 0.1, 0.5, 1], "gradientLength": 200}
    else:
        largest = max((abs(value) for row in values for value in row if value is not None), default=0.0)
        limit = float(f"{largest:.2g}") or 1.0
        scale = {"domain": [-limit, limit], "range": "diverging", "interpolate": "rgb", "clamp": True}
        legend = {"title": None, "gradientLength": 200}
    return values, _number("value", scale=scale, legend=legend)


def _curves(panel: Curves, *, is_page: bool, names: Sequence[str], kinds: Sequence[str]) -> Spec:
    """Curves whose looks depend on their places among the names and the kinds of the whole picture."""
    rows = _curve_rows(panel)
    has_marks = any(series.marked for series in panel.series)
    shown_names, shown_kinds = (list(dict.fromkeys(row[field] for row in rows)) for field in ("name", "kind"))
    scale = {"nice": False, "zero": False, "padding": 8}
    height: Spec = scale | {"zero": panel.begins_at_zero, "padding": 26 if has_marks else 8}
    heights = [row["y"] for row in rows if row["y"]]
    if panel.is_log and heights and max(heights) > 3 * min(heights):  # a log scale with a smaller range has no numbers
        height = {"type": "log", "nice": False, "padding": height["padding"]}
    legend = _STROKES | {"values": shown_names}
    colour = {"color": {"field": "name", "scale": {"domain": names}, "legend": legend}}
    num_colours = len(COLOURS["light"]["series"])
    widths = [_LINE_WIDTHS[place // num_colours % len(_LINE_WIDTHS)] for place in range(len(names))]
    # Vega-Lite uses a list of widths as it is only in an ordinal scale.
    of_names: Spec = {"type": "ordinal", "domain": names, "range": widths}
    looks: Spec = colour | {"strokeWidth": {"field": "name", "type": "ordinal", "scale": of_names, "legend": legend}}
    if len(kinds) > 1:
        legend = _STROKES | _GREY | {"values": shown_kinds}
        looks["strokeDash"] = {"field": "kind", "scale": {"domain": kinds, "range": _DASHES}, "legend": legend}
    line: Spec = {"mark": {"type": "line", "clip": is_page}, "encoding": looks}
    dots = {"type": "point", "filled": True, "opacity": 1, "clip": is_page}
    layers = [line]
    if max(len(series.x) for series in panel.series) <= 40:
        layers.append({"mark": {**dots, "size": 16}, "encoding": colour})
    transform: list[Spec] = []
    if has_marks:  # in the left half of the panel their text begins at the point, in the right half it ends there
        transform.append({"joinaggregate": [{"op": op, "field": "x", "as": op} for op in ("min", "max")]})
        is_right = "datum.x > (datum.min + datum.max) / 2"
        sides = {"align": {"expr": f"{is_right} ? 'right' : 'left'"}, "dx": {"expr": f"{is_right} ? 6 : -6"}}
        text = {"type": "text", "clip": is_page, **sides, "dy": {"expr": "datum.down"}}
        marks: Spec = {"transform": [{"filter": "isValid(datum.mark)"}]}
        layers.append({**marks, "mark": {**dots, "size": 70}, "encoding": colour})
        for style in ("halo", "text"):
            layers.append({**marks, "mark": {**text, "style": style}, "encoding": {"text": {"field": "mark"}}})
    titles = {"name": "curve", "kind": "of", "x": panel.x_axis, "y": panel.y_axis}
    titles = {field: title for field, title in titles.items() if any(row[field] not in ("", None) for row in rows)}
    if is_page:  # Points under the mouse. (With "nearest", Vega-Lite 6.4's tooltips omit the numbers.)
        # Drag to move, Ctrl and wheel to zoom: the wheel alone scrolls the page.
        move = {"type": "interval", "encodings": ["x"], "zoom": "wheel![event.ctrlKey || event.metaKey]"}
        line["params"] = [{"name": "zoom", "select": move, "bind": "scales"}]
        hover = {"name": "pointed", "select": {"type": "point", "on": "pointerover", "clear": "pointerout"}}
        shown = {"condition": {"param": "pointed", "empty": False, "value": 0.5}, "value": 0}
        encoding = {**colour, "opacity": shown, "tooltip": _tooltip(titles)}
        layers.append({"name": "hover", "params": [hover], "mark": {**dots, "size": 160}, "encoding": encoding})
    along = {"title": panel.x_axis, "scale": scale, "axis": {"tickCount": 6}}
    up = {"title": panel.y_axis, "scale": height, "axis": {"tickCount": 5}}
    return {
        "width": 380,
        "height": 230,
        "data": {"values": rows},
        "transform": transform,
        "encoding": {"x": _number("x", **along), "y": _number("y", **up)},
        "layer": layers,
        "usermeta": _numbers(titles, grows=True),
    }


def _curve_rows(panel: Curves) -> list[Spec]:
    """The points of all curves; a marked one has the text of its mark."""
    rows: list[Spec] = []
    for series in panel.series:
        for x, y in zip(series.x, series.y, strict=True):
            height = None if panel.is_log and not (y or 0) > 0 else _rounded(y)
            rows.append({"name": series.name, "kind": series.kind, "x": x, "y": height})
        if series.marked:  # its text is on the side away from the curve
            place, mark = series.marked
            is_low = (series.y[place] or 0) < statistics.mean([y for y in series.y if y is not None] or [0.0])
            rows[place - len(series.x)] |= {"mark": mark, "down": 14 if is_low else -14}
    return rows


def _links(panel: Links) -> Spec:
    rows: list[Spec] = [
        {"source": source, "target": target, "weight": _rounded(weight), "from": panel.source[source],
         "to": panel.target[target]}
        for source, target, weight in panel.links
    ]  # fmt: skip
    longest = max(len(panel.source), len(panel.target), 1)
    scale = {"domain": [-0.5, longest - 0.5], "reverse": True, "nice": False}

    def side(name: Literal["source", "target"], **settings: Any) -> Spec:
        linked = sorted({row[name] for row in rows})
        grey = {"labelOpacity": {"expr": f"indexof({linked}, datum.value) < 0 ? 0.45 : 1"}, "labelFontSize": 13}
        words: Sequence[str] = getattr(panel, name)
        axis = _axis(words, "", labelAngle=0, grid=False, labelPadding=6, **grey, **settings)
        axis |= {"values": list(range(len(words))), "labelOverlap": False}
        return _number(name, title=None, scale=scale, axis=axis)

    thickness = {"symbolType": "stroke", "symbolSize": 400, **_GREY, "title": "weight", "values": [0.1, 0.5, 1]}
    titles = {"from": "source word", "to": "target word", "weight": "weight"}
    lines = {
        "mark": {"type": "rule", "strokeCap": "round", "opacity": 0.75},
        "encoding": {
            "x": {"datum": 0, "type": "quantitative", "axis": None, "scale": {"domain": [0, 1], "nice": False}},
            "x2": {"datum": 1},
            "y": side("source", orient="left"),
            "y2": {"field": "target"},
            "strokeWidth": _number("weight", scale={"domain": [0, 1], "range": [0.4, 6]}, legend=thickness),
            "tooltip": _tooltip(titles),
        },
    }
    return {
        "width": 150,
        "height": 22 * longest,
        "data": {"values": rows},
        "layer": [lines, {"mark": {"type": "rule", "opacity": 0}, "encoding": {"y": side("target", orient="right")}}],
        "resolve": {"axis": {"y": "independent"}},
        "usermeta": _numbers(titles, grows=False),
    }
