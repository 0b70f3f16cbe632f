"""The text of log messages: the same on the console and in a run's log."""

import logging
import re

# Control characters except tabs and line ends; separators and embeddings that reorder a line; lone surrogates.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def escaped(text: str) -> str:
    """Text that is safe on a terminal and encodes as UTF-8: control characters become \\x1b, \\u202e and so on."""
    return _CONTROLS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


class MessageFormatter(logging.Formatter):
    """Gives the escaped message of a record, with the level of a warning or an error without a label in `bold`."""

    def format(self, record: logging.LogRecord) -> str:
        """The message, in which only `\\n` ends a line."""
        label = (
            f"{record.levelname.capitalize()}: "
            if record.levelno >= logging.WARNING and not hasattr(record, "bold")
            else ""
        )
        return f"{label}{escaped(super().format(record))}"
