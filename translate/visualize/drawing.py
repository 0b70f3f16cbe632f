"""Draws with vl-convert in a process of its own, because a failure of its engine, V8, ends the whole process."""

import json
import os
import sys
from typing import Any, Literal

from translate.children import EndedBySignal, run_program
from translate.errors import RunError


def draw(specification: str, *, format: Literal["png", "svg"], **settings: Any) -> bytes:
    """Draw a Vega-Lite specification in JSON.

    Args:
        settings: Of a PNG: `ppi`.

    Raises:
        RunError: The process fails.
    """
    # The process finds the packages where this one does, and not in the working directory.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, sys.path)), "PYTHONSAFEPATH": "1"}
    command = [sys.executable, "-m", __name__, format, json.dumps(settings)]
    try:
        return run_program(command, content=specification.encode(), environment=environment)
    except RunError as error:
        limit = "raise `ulimit -v` if it is set, or " if isinstance(error, EndedBySignal) else ""
        hint = f"{limit}write an HTML page, which a browser draws"
        raise RunError(f"vl-convert, which draws figures: {error}; {hint}") from error


def _main(format: str, settings: str) -> None:
    import vl_convert

    convert = vl_convert.vegalite_to_png if format == "png" else vl_convert.vegalite_to_svg
    drawn = convert(json.load(sys.stdin.buffer), allowed_base_urls=[], **json.loads(settings))
    sys.stdout.buffer.write(drawn if isinstance(drawn, bytes) else drawn.encode())


if __name__ == "__main__":
    _main(*sys.argv[1:])
