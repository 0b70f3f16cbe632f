"""Messages go through `logging`: bare on standard error in a command, and as a program likes when it imports us."""

import contextlib
import logging.handlers
import re
import sys
import time

import pytest
import typer
from harness import terminal

from translate.bars import show_progress
from translate.cli.terminal.console import fail
from translate.cli.terminal.lines import write_lines
from translate.cli.terminal.process import ReportingGroup

logger = logging.getLogger("translate.somewhere")


def shown_on(kind: str, monkeypatch: pytest.MonkeyPatch, **environment: str) -> str:
    """What a command with messages of all kinds and an error shows on a terminal or writes into a pipe."""
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm", **environment}.items():
        monkeypatch.setenv(name, value)
    with terminal(is_pipe=kind == "pipe") as (stream, read):
        monkeypatch.setattr(sys, "stderr", stream)

        def work() -> None:
            logger.info("plain\x1b[2J")
            logger.info("Step 5: loss 1.2, 3 s left", extra={"dim": ", 3 s left"})
            logger.info("Step 5: BLEU 25, best", extra={"bold": "Step 5: BLEU 25"})
            logger.warning("old: it is")
            logger.error("no pairs")
            logger.error("  error  swapped", extra={"bold": "  error"})
            fail("wrong input", 2)

        app = typer.Typer(cls=ReportingGroup)
        app.callback(invoke_without_command=True)(work)
        with pytest.raises(SystemExit):
            app([])
        with contextlib.suppress(SystemExit):
            fail("interrupted", 130)
        return read().replace("\r\n", "\n")


COLOURED = [("terminal", {}), ("terminal", {"NO_COLOR": ""}), ("pipe", {"FORCE_COLOR": "1"})]
PLAIN = [("pipe", {}), ("terminal", {"NO_COLOR": "1"}), ("terminal", {"TERM": "dumb"})]


@pytest.mark.parametrize(
    ("kind", "environment", "is_coloured"), [(*each, each in COLOURED) for each in (*COLOURED, *PLAIN)]
)
def test_colours(kind: str, environment: dict[str, str], is_coloured: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    coloured = (
        "plain\\x1b[2J\n"
        "Step 5: loss 1.2\x1b[2m, 3 s left\x1b[0m\n"
        "\x1b[1mStep 5: BLEU 25\x1b[0m, best\n"
        "\x1b[33mWarning:\x1b[0m old: it is\n"
        "\x1b[31mError:\x1b[0m no pairs\n"
        "\x1b[31m\x1b[1m  error\x1b[0m  swapped\n"
        "\x1b[31mtranslate:\x1b[0m wrong input\n"
        "\x1b[33mtranslate:\x1b[0m interrupted\n"
    )
    shown = shown_on(kind, monkeypatch, **environment)
    assert shown == (coloured if is_coloured else re.sub("\x1b\\[[0-9]+m", "", coloured))


def test_printed_lines_are_never_garbled_by_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("translate"), "level", logging.INFO)
    lines = ["Ein Hund.", "Zwei Hunde laufen."]
    with terminal() as (stream, read):
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setattr(sys, "stderr", stream)
        with show_progress("Scoring", 3, unit="lines", is_hidden=True) as advance:
            advance(3)
        with show_progress("Loading runs/mine"):
            write_lines(["above"], None)
        with show_progress("Scoring", 3, unit="lines") as advance:
            time.sleep(0.15)
            advance(2)
            write_lines(lines, None)
            text = read()
    printed = text.split("\r\n")
    assert "3/3" not in text
    assert re.search(r"\rLoading runs/mine …\r +\rabove\r\n\rLoading runs/mine …\r +\r", text), (
        "cleared, and shown below"
    )
    for line in lines:
        (place,) = [place for place, each in enumerate(printed) if line in each]
        assert printed[place].rpartition("\r")[2] == line, "the bar was cleared before it"
        assert " 67%|" in printed[place + 1], "and drawn again below it"


def test_a_program_that_imports_the_package_sees_nothing_unless_it_asks(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # pytest's own
    logger.warning("nobody listens")
    redirected = logging.handlers.BufferingHandler(9)
    package = logging.getLogger("translate")
    monkeypatch.setattr(package, "handlers", [*package.handlers, redirected])
    logger.warning("into a list")
    assert [record.getMessage() for record in redirected.buffer] == ["into a list"]
    assert capfd.readouterr() == ("", "")
