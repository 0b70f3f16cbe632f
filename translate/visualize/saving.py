"""Where a picture is written, in which format."""

import contextlib
import errno
import os
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from translate.errors import InputError, RunError
from translate.visualize.figure import draw_figure
from translate.visualize.page import panels_page
from translate.visualize.panels import Picture
from translate.visualize.plots import DOTS_PER_INCH

Format = Literal["html", "png", "svg"]


class Place(NamedTuple):
    """A file to be, and its format."""

    path: Path
    format: Format
    dots_per_inch: int = DOTS_PER_INCH  # of a PNG


def choose_place(output: Path | None, wanted: Format | None, *, name: str, dots_per_inch: int = DOTS_PER_INCH) -> Place:
    """The file that was asked for; else NAME.html, or another format's ending, in the working directory.

    Raises:
        InputError: The file's ending belongs to another format.
    """
    if output is None:
        chosen: Format = wanted or "html"
        return Place(Path(f"{name}.{chosen}"), chosen, dots_per_inch)
    ending = output.suffix.lower().lstrip(".")
    ending = "html" if ending == "htm" else ending
    for known in get_args(Format):
        if ending == known and wanted in (None, known):
            return Place(output, known, dots_per_inch)
        if ending == known:
            raise InputError(f"--format {wanted} but --output {output}: leave one of them out, or let them agree")
    if wanted is None:
        raise InputError(f"--output {output}: end it in .html, .png or .svg, or give --format too")
    return Place(output, wanted, dots_per_inch)


def save_picture(picture: Picture, place: Place) -> None:
    """Draw a picture into its file.

    Raises:
        InputError: matplotlib is needed and missing.
        RunError: The file cannot be written.
    """
    if place.format == "html":
        save_bytes(panels_page(picture).encode(), place.path)
    else:
        save_bytes(draw_figure(picture, format=place.format, dots_per_inch=place.dots_per_inch), place.path)


def save_bytes(content: bytes, path: Path) -> None:
    """Write a file whole, or leave the old one as it was.

    Raises:
        RunError: It cannot be written.
    """
    temporary = path.with_name(path.name + ".part")
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise RunError(f"{path}: cannot be written: {error.strerror}") from error
