"""How a command starts: the same in every way, importing nothing heavy, and with a help that comes at once."""

import os
import subprocess
import sys
from importlib import metadata

import pytest

from translate.cli import main

pytestmark = pytest.mark.system

ENVIRONMENT = {**os.environ, "COLUMNS": "100"}


def start(*arguments: str, code: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *(["-m", "translate"] if code is None else ["-c", code]), *arguments]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", env=ENVIRONMENT)


def test_both_ways_of_starting() -> None:
    (script,) = metadata.distribution("translate-nmt").entry_points.select(group="console_scripts")
    assert script.load() is main
    as_module = start("--help")
    assert (as_module.returncode, as_module.stderr) == (0, "") and "\n│ train " in as_module.stdout


def modules_of(command: str, *, code: int = 0) -> set[str]:
    """The modules that a command has loaded when it ends with this exit code."""
    program = (
        "import sys, atexit\nfrom translate.cli import main\n"
        "atexit.register(lambda: print('MODULES', *sys.modules, file=sys.stderr))\n"
        "main()"
    )
    result = start(*command.split(), code=program)
    assert result.returncode == code, result.stderr
    return set(result.stderr.rpartition("MODULES ")[2].split())


@pytest.mark.parametrize(
    "command",
    ["--help", "--version", "config presets", "decode --help", "decode runs/none --help-all", "export --help"],
)
def test_start_up_imports_nothing_heavy(command: str) -> None:
    modules = modules_of(command)
    assert "translate" in modules
    assert not modules & {"torch", "datasets", "sentencepiece", "sacrebleu", "pandas", "pyarrow", "numpy"}
    if command.endswith(" --help"):  # pydantic's sections are not built for it, though typer may load pydantic
        assert not modules & {"translate.config", "translate.decoding", "translate.exchange"}


def test_decode_loads_nothing_of_other_commands() -> None:
    program = "import sys, translate.cli.decode, translate.decoding.loading; print(*sys.modules)"
    parts = [name.split(".") for name in start(code=program).stdout.split() if name.startswith("translate.")]
    assert ["translate", "decoding", "loading"] in parts
    assert {part[2] for part in parts if part[1] == "cli" and len(part) == 3} == {"decode", "terminal"}
    assert not {part[1] for part in parts} & {"exchange", "lint", "server", "training", "visualize"}


def test_help_comes_at_once() -> None:
    """In 0.5 s of a slow processor's time, the best of several; importing torch alone takes longer."""
    times: list[float] = []
    while min(times, default=1.0) >= 0.5 and len(times) <= 10:
        before = os.times()
        start("decode", "--help")
        after = os.times()
        times.append(sum(after[2:4]) - sum(before[2:4]))  # the child's
    assert min(times) < 0.5, times
