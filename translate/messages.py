"""The text of messages: the same on the console and in a run's log."""

import functools
import logging
import math
import re
import shutil
import textwrap
from collections.abc import Sequence
from pathlib import Path

from translate.errors import InputError

# As `textwrap.wrap`, but only between words, so that a key or a path is never broken.
wrap = functools.partial(textwrap.wrap, break_long_words=False, break_on_hyphens=False)

# Control characters except tabs and line ends; separators and embeddings that reorder a line; lone surrogates.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def escaped(text: str) -> str:
    """Text that is safe on a terminal and encodes as UTF-8: control characters become \\x1b, \\u202e and so on."""
    return _CONTROLS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def fill(text: str, first: str, others: str) -> str:
    """Escaped text that is wrapped at the terminal's width, with the indents of its first and its other lines."""
    width = max(30, min(120, shutil.get_terminal_size(fallback=(120, 24)).columns))  # the nearest that is readable
    return "\n".join(wrap(escaped(text), width, initial_indent=first, subsequent_indent=others))


def distinct_names(paths: Sequence[Path]) -> list[str]:
    """The names of runs or files, or their whole paths if two have the same name.

    Raises:
        InputError: One is given twice.
    """
    for names in ([path.resolve().name for path in paths], [str(path) for path in paths]):
        if len(set(names)) == len(names):
            return names
    raise InputError(f"{', '.join(names)}: one of them is named twice")


def describe_seconds(seconds: float) -> str:
    """A time in at most eight characters: 40 s, 12 min, 3.3 h, 2.2 days."""
    units = (("s", 1, 59.5), ("min", 60, 59.5), ("h", 3600, 23.95), ("days", 86400, math.inf))
    unit, number = next((unit, seconds / length) for unit, length, limit in units if seconds / length < limit)
    return f"{number:.1f} {unit}" if unit in ("h", "days") and number < 9.95 else f"{number:.0f} {unit}"


class MessageFormatter(logging.Formatter):
    """Gives the escaped message of a record, with the level of a warning or an error without a label in `bold`."""

    def format(self, record: logging.LogRecord) -> str:
        """The message, in which only `\\n` ends a line."""
        is_bare = record.levelno < logging.WARNING or hasattr(record, "bold")
        label = "" if is_bare else f"{record.levelname.capitalize()}: "
        return f"{label}{escaped(super().format(record))}"
