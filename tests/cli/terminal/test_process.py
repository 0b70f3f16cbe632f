"""A command as a process: its messages, its one paragraph about an error, its exit codes, and bugs."""

from typing import Any

import pytest
import typer
from harness import in_order
from typer.testing import CliRunner

from translate.cli.terminal.process import ReportingGroup, run_command_line
from translate.errors import InputError, RunError


def command(work: Any) -> Any:
    """Runs work as a command does, and returns its result."""
    app = typer.Typer(cls=ReportingGroup)
    app.callback(invoke_without_command=True)(lambda: work())
    return CliRunner().invoke(app, [], catch_exceptions=False)


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
        (InputError("a\x1b[2J\u202eb\udcff"), 2, "translate: a\\x1b[2J\\u202eb\\udcff\n"),
        (OSError(5, "Input/output error"), 1, "translate: a file or a stream: cannot be used (Input/output error)\n"),
        (PermissionError(13, "Denied", "secret"), 1, "translate: secret: cannot be used (Denied)\n"),
        (ImportError("a.so: no shared object"), 1, "translate: a library cannot be loaded: a.so: no shared object\n"),
    ],
)
def test_an_error_is_a_paragraph_and_an_exit_code(error: BaseException, exit_code: int, message: str) -> None:
    result = command(raises(error))
    assert (result.exit_code, result.stderr, result.stdout) == (exit_code, message, "")


def test_an_unforeseen_error_is_seen_by_tests() -> None:
    with pytest.raises(KeyError):
        command(raises(KeyError("x")))


def test_a_report_of_an_unforeseen_error_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("_open_standard_streams", "_end_by_signals"):
        monkeypatch.setattr(f"translate.cli.terminal.process.{name}", lambda: None)
    with pytest.raises(SystemExit, match="70"):
        run_command_line(lambda prog_name: {}["no such \x1b key"])
    said = capsys.readouterr().err
    assert in_order(said, "Traceback", "in run_command_line", "translate: ", "KeyError: 'no such \\x1b key'")
    assert "\x1b" not in said
