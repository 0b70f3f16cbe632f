"""`log.txt` of a run: all messages of its training, each line with the time; a continued run appends to it."""

import datetime
import io
import logging
import time
from pathlib import Path
from typing import BinaryIO

from translate.atomic import open_append, write_error
from translate.errors import InputError, RunError
from translate.messages import MessageFormatter, escaped

logger = logging.getLogger(__name__)
_PACKAGE = logging.getLogger("translate")


class RunLog(logging.Handler):
    """A context that writes the log messages of the package, from INFO on, and the error that ends the context, if any.

    The text stays in memory until `open` names the file. If the file cannot be written, training continues. Other
    handlers receive the same messages as without this one.
    """

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(MessageFormatter())
        self._file: BinaryIO | None = io.BytesIO()  # None: the file cannot be written

    def open(self, path: Path) -> None:
        """Append to a file what has been logged so far and everything later."""
        assert isinstance(self._file, io.BytesIO), "open is called once"
        waiting = self._file.getvalue()
        try:
            self._file = open_append(path)
            self._file.write(waiting)
        except OSError as error:
            self._give_up(path, error)

    def keep(self, text: str, *, seconds: float | None = None) -> None:
        """Write a text with the time before each line; by default the current time."""
        if self._file is not None:
            moment = datetime.datetime.fromtimestamp(seconds or time.time()).astimezone().isoformat(timespec="seconds")
            try:
                self._file.write("".join(f"{moment} {line}\n" for line in escaped(text).split("\n")).encode())
            except OSError as error:
                self._give_up(Path(self._file.name), error)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        self.keep(self.format(record), seconds=record.created)

    def __enter__(self) -> "RunLog":
        self._level, shown = _PACKAGE.level, _PACKAGE.getEffectiveLevel()
        self._others = [*_PACKAGE.handlers, *logging.getLogger().handlers]
        self._was_shown = lambda record: record.levelno >= shown or not record.name.startswith("translate.")
        for handler in self._others:
            handler.addFilter(self._was_shown)
        _PACKAGE.setLevel(min(shown, logging.INFO))
        _PACKAGE.addHandler(self)
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        _PACKAGE.removeHandler(self)
        _PACKAGE.setLevel(self._level)
        for handler in self._others:
            handler.removeFilter(self._was_shown)
        if error is not None:
            is_expected = isinstance(error, InputError | RunError | KeyboardInterrupt)
            self.keep(f"translate: {(str(error) or 'interrupted') if is_expected else repr(error)}")
        if self._file is not None:
            self._file.close()

    def _give_up(self, path: Path, error: OSError) -> None:
        """Warn that the file cannot be written, and continue without it."""
        if self._file is not None:
            self._file.close()
        self._file = None
        logger.warning(f"{write_error(path, error)}. Training continues without its log")
