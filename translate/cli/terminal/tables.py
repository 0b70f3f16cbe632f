"""Tables as text."""

import re
from collections.abc import Sequence

_NUMBER = re.compile(r"[+-]?[0-9][0-9.,e+-]*|")  # or nothing


def aligned_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table whose first row is the header; columns of numbers, except the first, are right-aligned."""
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    is_right = [number > 0 and all(map(_NUMBER.fullmatch, column[1:])) for number, column in enumerate(columns)]
    return [
        "".join(
            f"  {cell.rjust(width) if right else cell.ljust(width)}"
            for cell, width, right in zip(row, widths, is_right, strict=True)
        ).rstrip()
        for row in rows
    ]
