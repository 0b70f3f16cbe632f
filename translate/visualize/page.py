"""Pages that need nothing but a browser: one template, with the style, the script and the numbers inside."""

import html
import json
import re
from importlib.resources import files
from typing import Any

from translate.visualize.panels import Picture


def panels_page(picture: Picture) -> str:
    """The page of a picture."""
    data = {
        "title": picture.title,
        "paragraphs": list(picture.paragraphs),
        "columns": picture.columns,
        "panels": [_plain(panel) for panel in picture.panels],
    }
    return fill_template(title=picture.title, data=data, scripts=["drawing.js", "panels.js"])


def fill_template(*, title: str, data: dict[str, Any], scripts: list[str]) -> str:
    """The template with all of it in its place.

    Args:
        data: In JSON's types; the scripts read it.
        scripts: Files of this package, in their order.
    """
    places = {
        "title": html.escape(title),
        "style": _read("page.css"),
        # No text of the data can end the script element or begin a comment in it.
        "data": json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"),
        "script": "\n".join(_read(name) for name in scripts),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda place: places[place[1]], _read("page.html"))


def _read(name: str) -> str:
    return files("translate.visualize").joinpath(name).read_text(encoding="utf-8")


def _plain(value: Any) -> Any:
    """A panel in JSON's types: named tuples by name, numbers with as many digits as a picture can show."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _plain(each) for name, each in value._asdict().items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
