"""Messages go through `logging`: bare on standard error in a command, and as a program likes when it imports us."""

import contextlib
import fcntl
import logging
import os
import re
import signal
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import typer
from tqdm import tqdm
from typer.testing import CliRunner

from translate.cli.console import (
    ConsoleHandler,
    Interrupted,
    ReportingGroup,
    fail,
    has_colour,
    line_bar,
    run_command_line,
)
from translate.cli.lines import write_lines
from translate.errors import InputError, RunError

logger = logging.getLogger("translate.somewhere")


@pytest.fixture
def console() -> Iterator[None]:
    package, handler = logging.getLogger("translate"), ConsoleHandler()
    package.addHandler(handler)
    package.setLevel(logging.INFO)
    yield
    package.removeHandler(handler)
    package.setLevel(logging.NOTSET)


def command(work: Any) -> Any:
    """Runs work as a command does, and returns its result."""
    app = typer.Typer(cls=ReportingGroup)
    app.callback(invoke_without_command=True)(lambda: work())
    return CliRunner().invoke(app, [], catch_exceptions=False)


def test_a_command_prints_bare_messages_on_standard_error() -> None:
    result = command(lambda: (logger.info("Corpus encoded in 0.1 s"), logger.debug("detail"), print("result")))
    assert (result.exit_code, result.stdout, result.stderr) == (0, "result\n", "Corpus encoded in 0.1 s\n")


def test_nothing_is_left_behind_by_a_command() -> None:
    before = list(logging.getLogger("translate").handlers)
    command(lambda: None)
    assert logging.getLogger("translate").handlers == before
    assert logging.getLogger("translate").level == logging.NOTSET


def raises(error: BaseException) -> Any:
    def work() -> None:
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "exit_code", "message"),
    [
        (InputError("no config 'x'"), 2, "translate: no config 'x'\n"),
        (RunError("the disk is full"), 1, "translate: the disk is full\n"),
        (KeyboardInterrupt(), 130, "translate: interrupted\n"),
        (Interrupted(signal.SIGTERM), 143, "translate: stopped by SIGTERM\n"),
        (InputError("a\x1b[2J\u202eb\udcff"), 2, "translate: a\\x1b[2J\\u202eb\\udcff\n"),
        (PermissionError(13, "Permission denied", "secret"), 1, "translate: [Errno 13] Permission denied: 'secret'\n"),
    ],
)
def test_an_error_is_a_paragraph_and_an_exit_code(error: BaseException, exit_code: int, message: str) -> None:
    result = command(raises(error))
    assert (result.exit_code, result.stderr, result.stdout) == (exit_code, message, "")


@pytest.mark.parametrize("error", [KeyError("x"), EOFError("no more"), OSError(5, "Input/output error")])
def test_an_unforeseen_error_is_seen_by_tests(error: Exception) -> None:
    with pytest.raises((KeyError, RuntimeError)) as raised:
        command(raises(error))
    assert error in (raised.value, raised.value.__cause__)


@pytest.fixture
def unforeseen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command line in which a library fails, and returns what is printed."""
    monkeypatch.setattr("translate.cli.console._open_standard_streams", lambda: None)
    monkeypatch.setattr("translate.cli.console._end_by_signals", lambda: None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["translate", "decode", "my run"])

    def run() -> str:
        with pytest.raises(SystemExit) as stopped:
            run_command_line(lambda prog_name: {}["no such \x1b key"])
        assert stopped.value.code == 70
        return capsys.readouterr().err

    return run


def test_an_unforeseen_error_is_a_paragraph_and_a_file(unforeseen: Any, tmp_path: Path) -> None:
    said = unforeseen()
    (saved,) = tmp_path.glob("translate-bug-*.txt")
    assert said.startswith(
        "translate: this is a bug: KeyError: 'no such \\x1b key'. Please report it; its traceback is in"
    )
    assert f"is in {saved}. Command: translate decode 'my run'. Versions: translate " in said and said.count("\n") == 1
    report = saved.read_text(encoding="utf-8")
    assert report.startswith("translate decode 'my run'\ntranslate ") and "Traceback (most recent" in report
    assert "in run_command_line" in report and saved.stat().st_mode & 0o77 == 0


def test_a_traceback_that_cannot_be_saved(unforeseen: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    assert "its traceback could not be saved. Command: translate decode" in unforeseen()


def test_the_first_ten_lines_of_an_error_are_printed() -> None:
    result = command(lambda: fail("\n".join(map(str, range(20_000))), 2))
    assert result.stderr.splitlines() == ["translate: 0", *map(str, range(1, 10)), "… and 19,990 more lines"]
    assert command(lambda: fail("\n".join("abcdefghij"), 2)).stderr == "translate: " + "\n".join("abcdefghij") + "\n"


def test_a_deleted_working_directory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    with monkeypatch.context() as patch:
        patch.chdir(tmp_path / "gone")
        (tmp_path / "gone").rmdir()
        result = command(lambda: None)
    message = "translate: the working directory has been deleted: change to another one\n"
    assert (result.exit_code, result.stderr) == (1, message)


def test_fail_ends_the_command() -> None:
    assert command(lambda: fail("stopped", 143)).exit_code == 143


def shown_on(kind: str, monkeypatch: pytest.MonkeyPatch, **environment: str) -> str:
    """What a command with messages of all kinds and an error shows on a terminal or writes into a pipe."""
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm", **environment}.items():
        monkeypatch.setenv(name, value)
    reader, writer = os.openpty() if kind == "terminal" else os.pipe()
    with os.fdopen(writer, "w", encoding="utf-8") as stream, os.fdopen(reader, "rb", buffering=0) as shown:
        monkeypatch.setattr(sys, "stderr", stream)

        def work() -> None:
            logger.info("plain\x1b[2J")
            logger.info("Step 5: loss 1.2, 3 s left", extra={"dim": ", 3 s left"})
            logger.info("Step 5: BLEU 25, best", extra={"bold": "Step 5: BLEU 25"})
            logger.warning("old: it is")
            logger.error("no pairs")
            fail("wrong input", 2)

        app = typer.Typer(cls=ReportingGroup)
        app.callback(invoke_without_command=True)(work)
        with pytest.raises(SystemExit):
            app([])
        with contextlib.suppress(SystemExit):
            fail("interrupted", 130)
        stream.write(".")
        stream.flush()
        text = ""
        while not text.endswith("."):
            text += shown.read(100_000).decode()
    return text.replace("\r\n", "\n")


@pytest.mark.parametrize(
    "kind, environment",
    [("terminal", {}), ("terminal", {"NO_COLOR": ""}), ("pipe", {"FORCE_COLOR": "1"})],
)
def test_colours(kind: str, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown_on(kind, monkeypatch, **environment) == (
        "plain\\x1b[2J\n"
        "Step 5: loss 1.2\x1b[2m, 3 s left\x1b[0m\n"
        "\x1b[1mStep 5: BLEU 25\x1b[0m, best\n"
        "\x1b[33mWarning:\x1b[0m old: it is\n"
        "\x1b[31mError:\x1b[0m no pairs\n"
        "\x1b[31mtranslate:\x1b[0m wrong input\n"
        "\x1b[33mtranslate:\x1b[0m interrupted\n."
    )


@pytest.mark.parametrize(
    "kind, environment",
    [
        ("pipe", {}),
        ("terminal", {"NO_COLOR": "1"}),
        ("terminal", {"TERM": "dumb"}),
        ("pipe", {"NO_COLOR": "1", "FORCE_COLOR": "1"}),
    ],
)
def test_no_colours(kind: str, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown_on(kind, monkeypatch, **environment) == (
        "plain\\x1b[2J\nStep 5: loss 1.2, 3 s left\nStep 5: BLEU 25, best\nWarning: old: it is\nError: no pairs\n"
        "translate: wrong input\ntranslate: interrupted\n."
    )


def test_a_closed_stream_has_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert not has_colour(None)


@pytest.mark.usefixtures("console")
def test_the_stream_is_looked_up_for_each_message(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("one", "two"):
        stream = StringIO()
        monkeypatch.setattr(sys, "stderr", stream)
        logger.info(text)
        assert stream.getvalue() == f"{text}\n"


@pytest.mark.usefixtures("console")
def test_a_message_never_stands_in_the_line_of_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with tqdm(total=7, file=stream, ncols=40, mininterval=0) as bar:
        bar.update(3)
        logger.info("Validation: BLEU 25.0")
    shown = stream.getvalue().split("\n")
    message = next(line for line in shown if "Validation" in line)
    # The bar was cleared with spaces, the message begins its line, and the bar is drawn again below it.
    assert message.rpartition("\r")[2] == "Validation: BLEU 25.0"
    assert message.rpartition("\r")[0].endswith("\r" + " " * 40) and "3/7" in shown[shown.index(message) + 1]


@contextlib.contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], str]]:
    """Standard output and error as one terminal of 80 columns; yields what reads all that was printed on it."""
    reader, writer = os.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with os.fdopen(reader, "rb", buffering=0) as shown, os.fdopen(writer, "w", encoding="utf-8") as stream:

        def read() -> str:
            print("END", file=stream, flush=True)
            text = ""
            while not text.endswith("END\r\n"):
                text += shown.read(100_000).decode()
            return text.removesuffix("END\r\n")

        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stream)
            patch.setattr(sys, "stderr", stream)
            yield read


def test_a_bar_counts_lines_with_speed_and_time_left_and_clears_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as shown, line_bar(40) as advance:
        time.sleep(0.15)
        advance(30)
        first, *_, last = [part for part in shown().split("\r") if part]
    assert re.fullmatch(r"  0%\| +\| 0/40 lines \[\? lines/s, \? left\]", first)
    assert re.fullmatch(r" 75%\|█+.* +\| 30/40 lines \[ *\d+\.\d\d lines/s, 00:00 left\]", last) and len(last) == 79
    with terminal(monkeypatch) as shown:
        with line_bar(40) as advance:
            time.sleep(0.15)
            advance(40)
        *_, last = [part for part in shown().split("\r") if part]
    assert last == " " * 79, "nothing of it stays"


def test_a_bar_without_a_known_end_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as shown, line_bar(None) as advance:
        time.sleep(0.15)
        advance(7)
        assert re.search(r"\r7 lines \[ *\d+\.\d\d lines/s\]", shown())


def test_no_bar_where_it_is_hidden_or_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as shown:
        with line_bar(40, is_hidden=True) as advance:
            advance(40)
        monkeypatch.setattr(sys, "stderr", stream := StringIO())
        with line_bar(40) as advance:
            advance(40)
        assert shown() == stream.getvalue() == ""


def test_printed_lines_are_never_garbled_by_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["Ein Hund.", "Zwei Hunde laufen."]
    with terminal(monkeypatch) as read, line_bar(3) as advance:
        time.sleep(0.15)
        advance(2)
        write_lines(lines, None)
        shown = read().split("\r\n")
    for line in lines:
        (place,) = [place for place, each in enumerate(shown) if line in each]
        assert shown[place].rpartition("\r")[2] == line, "the bar was cleared before it"
        assert " 67%|" in shown[place + 1], "and drawn again behind it"


def test_a_program_that_imports_the_package_sees_nothing_unless_it_asks(capfd: pytest.CaptureFixture[str]) -> None:
    package = logging.getLogger("translate")
    assert any(isinstance(handler, logging.NullHandler) for handler in package.handlers)
    root = logging.getLogger()
    handlers, root.handlers = root.handlers, []  # pytest's own
    try:
        logger.warning("nobody listens")
        assert capfd.readouterr() == ("", "")
        lines: list[str] = []
        redirected = logging.Handler()
        redirected.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
        package.addHandler(redirected)
        package.setLevel(logging.INFO)
        logger.info("into a list")
        assert lines == ["into a list"] and capfd.readouterr() == ("", "")
    finally:
        root.handlers = handlers
        package.removeHandler(redirected)
        package.setLevel(logging.NOTSET)
