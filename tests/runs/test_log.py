"""The log of a run: all messages with their time, also with other handlers and on a full disk."""

import logging
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import files_up_to

from translate.errors import RunError
from translate.runs.log import RunLog

logger = logging.getLogger("translate.somewhere")


@pytest.fixture(autouse=True)
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


def without_times(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    time = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\+0[12]:00 ")
    assert all(time.match(line) for line in lines), lines
    return [time.sub("", line) for line in lines]


def test_each_line_has_its_time_and_a_second_log_is_appended(tmp_path: Path) -> None:
    file = tmp_path / "log.txt"
    with RunLog() as log:
        logger.info("before the run has\na directory")
        log.open(file)
        logger.warning("Größe\x1b[2J")
        logger.debug("a detail")
    logger.warning("not of the run")
    assert without_times(file) == ["before the run has", "a directory", "Warning: Größe\\x1b[2J"]
    with RunLog() as log:
        log.keep("translate 1.2.3", seconds=1_000_000_000.0)
        log.open(file)
    assert file.read_text(encoding="utf-8").endswith("\n2001-09-09T03:46:40+02:00 translate 1.2.3\n")


@pytest.mark.parametrize(
    "error, line",
    [
        (RunError("the loss is nan\x1b"), "translate: the loss is nan\\x1b"),
        (KeyboardInterrupt(), "translate: interrupted"),
        (KeyError("x"), "translate: KeyError('x')"),
    ],
)
def test_the_error_that_ends_a_training_is_its_last_line(tmp_path: Path, error: BaseException, line: str) -> None:
    file = tmp_path / "log.txt"
    with pytest.raises(type(error)), RunLog() as log:
        log.open(file)
        raise error
    assert without_times(file) == [line]


def test_a_program_sees_what_it_saw_before(tmp_path: Path) -> None:
    root, seen = logging.getLogger(), list[str]()
    handler = logging.Handler()
    handler.emit = lambda record: seen.append(record.getMessage())  # type: ignore[method-assign]
    root.addHandler(handler)
    try:
        with RunLog() as log:
            log.open(tmp_path / "log.txt")
            logger.info("quiet")
            logger.warning("loud")
            logging.getLogger("other").warning("another library's")
            logging.getLogger("other").setLevel(logging.INFO)
            logging.getLogger("other").info("that it wants to see")
    finally:
        root.removeHandler(handler)
        logging.getLogger("other").setLevel(logging.NOTSET)
    assert seen == ["loud", "another library's", "that it wants to see"]
    assert without_times(tmp_path / "log.txt") == ["quiet", "Warning: loud"]
    assert logging.getLogger("translate").level == logging.NOTSET and handler.filters == []


def test_a_full_disk_is_told_once_and_ends_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "log.txt"
    with RunLog() as log:
        log.open(file)
        logger.info("fits")
        with files_up_to(file.stat().st_size):
            logger.warning("does not fit")
            logger.warning("nor does this")
    assert without_times(file) == ["fits"]
    (told,) = set(caplog.messages) - {"does not fit", "nor does this"}
    assert f"{file}: cannot be written: File too large" in told and len(caplog.messages) == 3
