"""Run the code of pages, and write their output and pictures.

The Python blocks of a page run in order and share their names. What a block
prints stands below it, in a text block.
"""

import contextlib
import io
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
