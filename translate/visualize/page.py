"""HTML pages of pictures, and the file that a page or figure is saved in."""

import html
import json
import re
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, NamedTuple

from translate.atomic import open_output
from translate.errors import InputError
from translate.visualize.charts import chart_specs, theme
from translate.visualize.figure import DOTS_PER_INCH, draw_figure
from translate.visualize.panels import Curves, Picture, Points, Table, printable

PictureFormat = Literal["html", "png", "svg"]
_FONT = 'system-ui, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif'
_CDN = "https://cdn.jsdelivr.net"
_VEGA = ("vega@6.2", "vega-lite@6.4", "vega-embed@7.0")  # the versions that vl-convert brings
_FORMATS: dict[str, PictureFormat] = {".html": "html", ".htm": "html", ".png": "png", ".svg": "svg"}


class PictureFile(NamedTuple):
    """The file in which a picture will be saved."""

    path: Path
    format: PictureFormat
    dots_per_inch: int = DOTS_PER_INCH  # of a PNG


def choose_picture_file(
    output: Path | None, wanted: PictureFormat | None, *, name: str, dots_per_inch: int | None = None
) -> PictureFile:
    """The file and format that the user asked for.

    Args:
        output: The file; None: NAME with the format's ending, in the working directory.
        wanted: The format; None: by the file's ending, or html.

    Raises:
        InputError: The file's ending is of another format or unknown, or `dots_per_inch` is given without a PNG.
    """
    output = output or Path(f"{name}.{wanted or 'html'}")
    ending = _FORMATS.get(output.suffix.lower())
    if wanted and ending not in (None, wanted):
        raise InputError(f"--format {wanted} but --output {output}: leave one of them out, or let them agree")
    chosen = wanted or ending
    if chosen is None:
        raise InputError(f"--output {output}: end it in .html, .png or .svg, or give --format too")
    if dots_per_inch and chosen != "png":
        raise InputError(f"--dpi {dots_per_inch} is for PNGs, and {output} is {chosen}: leave it out, or write a PNG")
    return PictureFile(output, chosen, dots_per_inch or DOTS_PER_INCH)


def save_picture(picture: Picture | str, file: PictureFile) -> None:
    """Draw a picture, unless it is a page that is already drawn, and save it.

    Raises:
        InputError: The picture is too large for a figure.
        RunError: The file cannot be written.
    """
    picture = printable(picture)
    if isinstance(picture, str):
        content = picture.encode()
    elif file.format == "html":
        content = picture_page(picture).encode()
    else:
        content = draw_figure(picture, format=file.format, dots_per_inch=file.dots_per_inch)
    with open_output(file.path) as written:
        written.write(content)


def picture_page(picture: Picture) -> str:
    """The HTML page of a picture, with Vega-Lite in it."""
    picture = printable(picture)
    panels = []
    for panel, spec in zip(picture.panels, chart_specs(picture, is_page=True), strict=True):
        content = {"rows": panel.rows, "header": panel.header} if isinstance(panel, Table) else {"spec": spec}
        panels.append({"title": panel.title, "note": panel.note, **content})
    data = {
        "title": picture.title,
        "paragraphs": list(picture.paragraphs),
        "columns": picture.columns,
        "canZoom": any(isinstance(panel, Curves | Points) for panel in picture.panels),
        "switches": [switch._asdict() for switch in picture.switches],
        "themes": {"light": theme("light", font=_FONT), "dark": theme("dark", font=_FONT)},
        "panels": panels,
    }
    return fill_template(title=picture.title, data=data, scripts=["drawing.js", "page.js"], library=_vega())


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


def fill_template(*, title: str, data: dict[str, Any], scripts: list[str], library: str = "") -> str:
    """The HTML template with title, style, data and scripts filled in.

    Args:
        data: JSON values for the scripts.
        scripts: Names of script files of this package, in their order.
        library: Script elements of a library that they use.
    """
    parts = {
        "title": html.escape(title),
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
