"""The text of what the package logs: the same on the console and in a run's log."""

import logging
import re

# Control characters but for tabs and line ends; separators and embeddings that reorder a line; lone surrogates.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def escaped(text: str) -> str:
    """Text that steers no terminal and encodes as UTF-8: control characters are written as \\x1b, \\u202e and so on."""
    return _CONTROLS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


class MessageFormatter(logging.Formatter):
    """Gives the escaped message of a record; a warning or an error says that it is one."""

    def format(self, record: logging.LogRecord) -> str:
        """The message, of which only `\\n` ends a line."""
        label = f"{record.levelname.capitalize()}: " if record.levelno >= logging.WARNING else ""
        return f"{label}{escaped(super().format(record))}"
