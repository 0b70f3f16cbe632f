"""Counts the lines of code of the package, and fails above the limit in pyproject.toml: `make lint` runs it.

A line of code is one that is not only a docstring, a comment, an import or blank, so that nobody saves on those.
"""

import ast
import sys
import tokenize
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}


def lines_of_code(file: Path) -> int:
    """The number of lines of a Python file with code on them."""
    lines = set[int]()
    with file.open("rb") as source:
        for token in tokenize.tokenize(source.readline):
            if token.type not in _LAYOUT | {tokenize.ENDMARKER}:
                lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(file.read_bytes())):
        is_text = (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        )
        if is_text or isinstance(node, ast.Import | ast.ImportFrom):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def main() -> None:
    """Print the lines of each folder and their sum; exit with 1 if the sum is above the limit."""
    limit = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["translate"]["max_lines_of_code"]
    folders = Counter[str]()
    for file in sorted((ROOT / "translate").rglob("*.py")):
        folder = file.relative_to(ROOT).parent.parts[:2]
        folders["/".join(folder) + "/"] += lines_of_code(file)
    print(", ".join(f"{folder} {lines:,}" for folder, lines in folders.items()))
    print(f"{folders.total():,} lines of code; the limit in pyproject.toml is {limit:,}")
    if folders.total() > limit:
        sys.exit(
            "Too many: simplify something, or raise the limit in the commit that adds a feature, by what it needs."
        )


if __name__ == "__main__":
    main()
