"""Run the code of pages, and write their output and pictures.

The Python blocks of a page run in order and share their names. What a block
prints is below it, in a text block. A page can also become a notebook.
"""

import contextlib
import io
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import torch

FOLDER = Path(__file__).parent
CODE_AND_OUTPUT = re.compile(
    r"^```python\n(.*?)^```\n(\n```text\n.*?^```\n)?", re.MULTILINE | re.DOTALL
)
INSTALLATION = """\
This notebook needs the package `translate-nmt` with its extra `pictures`. The
next cell writes `draw.py`, which draws the pictures.
"""
NOTEBOOK_SYNTAX = {
    r"^!\[.+\]\(\S+\.svg\)\n": "",  # running a cell draws its picture
    r"^```math\n([^`]*)^```": r"$$\n\1$$",
    r"^<details.*\n<summary>(.*)</summary>$": r"**\1**",
    r"^</details>\n": "",
    r"\]\(([\w-]+)\.md\)": r"](\1.ipynb)",
}


def run_page(text: str) -> str:
    """Run the code of a page, in order.

    Returns:
        The page with what the code printed.
    """
    names: dict[str, Any] = {"__name__": "__main__"}

    def run_block(block: re.Match[str]) -> str:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block[1], "page", "exec"), names)
        output = (
            f"\n```text\n{printed.getvalue()}```\n"
            if printed.getvalue()
            else ""
        )
        return f"```python\n{block[1]}```\n{output}"

    try:
        return CODE_AND_OUTPUT.sub(run_block, text)
    finally:
        torch.set_printoptions(profile="default")


def has_code(text: str) -> bool:
    """Whether a page has Python blocks."""
    return CODE_AND_OUTPUT.search(text) is not None


def to_notebook(text: str) -> str:
    """A page as a Jupyter notebook without output, which needs no other file.

    Returns:
        The notebook, as JSON. Its first cells explain what to install, and
        write the module that draws.
    """
    for pattern, replacement in NOTEBOOK_SYNTAX.items():
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    parts = CODE_AND_OUTPUT.split(text)  # prose, code, output, prose, …
    drawing = (FOLDER / "draw.py").read_text(encoding="utf-8")
    code = ["%%writefile draw.py\n" + drawing, *parts[1::3]]
    prose = [INSTALLATION, *parts[::3]]
    cells: list[dict[str, Any]] = []
    for words, block in zip(prose, [*code, ""], strict=True):
        for kind, source in (("markdown", words), ("code", block)):
            if source.strip():
                cell = {"cell_type": kind, "metadata": {}}
                is_code = kind == "code"
                run = {"execution_count": None, "outputs": []}
                cells.append(
                    cell
                    | {"id": f"cell-{len(cells)}", "source": source.strip()}
                    | (run if is_code else {})
                )
    kernel = {"name": "python3", "display_name": "Python 3"}
    notebook = {"nbformat": 4, "nbformat_minor": 5, "cells": cells}
    return json.dumps(
        notebook | {"metadata": {"kernelspec": kernel}}, indent=1
    )


def main() -> None:
    """Write the named pages, or all. Code runs in the repository's root."""
    names = sys.argv[1:] or sorted(page.name for page in FOLDER.glob("*.md"))
    os.chdir(FOLDER.parents[1])
    for page in [FOLDER / name for name in names]:
        page.write_text(
            run_page(page.read_text(encoding="utf-8")), encoding="utf-8"
        )
        print(page.name)


if __name__ == "__main__":
    main()
