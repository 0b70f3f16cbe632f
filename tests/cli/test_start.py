"""The command before it does anything: help, versions, start-up, exit codes; in processes of its own."""

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
import typer
from typer.testing import Result

from translate.cli import app, main
from translate.config import preset_names

Translate = Callable[..., Result]
ENVIRONMENT = {**os.environ, "COLUMNS": "100"}


def start(*arguments: str, code: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *(["-m", "translate"] if code is None else ["-c", code]), *arguments]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", env=ENVIRONMENT)


def all_commands() -> list[list[str]]:
    def walk(command: object, path: list[str]) -> list[list[str]]:
        children = getattr(command, "commands", {})
        return [path] * (not children) + [each for name in children for each in walk(children[name], [*path, name])]

    return walk(typer.main.get_command(app), [])


COMMANDS = all_commands()


def test_all_commands_are_known() -> None:
    assert sorted(map(" ".join, COMMANDS)) == [
        "check",
        "config presets",
        "config schema",
        "config show",
        "decode",
        "eval",
        "export",
        "score",
        "shortlist",
        "show alignments",
        "show attention",
        "show curves",
        "show embeddings",
        "show masks",
        "show positions",
        "tokenizer decode",
        "tokenizer encode",
        "tokenizer train",
        "train",
        "verify",
    ]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_has_an_example(translate: Translate, command: list[str]) -> None:
    result = translate(*command, "--help")
    assert result.exit_code == 0
    assert f"Usage: translate {' '.join(command)} [OPTIONS]" in result.stdout
    _, _, examples = result.stdout.partition("Example")
    # The example stands on a line of its own, and is of this command.
    lines = [line.strip() for line in examples.splitlines()]
    assert any(f"translate {' '.join(command)} " in f"{line} " for line in lines)


def test_help_is_the_same_in_every_way_of_starting(translate: Translate) -> None:
    (script,) = metadata.distribution("translate-nmt").entry_points.select(group="console_scripts")
    assert script.load() is main
    as_module = start("--help")
    assert as_module.returncode == 0 and as_module.stderr == ""
    assert as_module.stdout == start("--help", code="from translate.cli import main; main()").stdout
    assert as_module.stdout.startswith("Usage: translate [OPTIONS] COMMAND")
    for name in ("train", "decode", "eval", "tokenizer", "config"):
        assert f"\n  {name} " in as_module.stdout


def test_versions(translate: Translate) -> None:
    result = translate("--version")
    assert result.exit_code == 0
    versions = dict(line.split(" ") for line in result.stdout.splitlines())
    for name, package in [("translate", "translate-nmt")] + [(x, x) for x in ("torch", "sentencepiece", "sacrebleu")]:
        assert versions[name] == metadata.version(package)
    assert versions["python"] == ".".join(map(str, sys.version_info[:3]))


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["config", "presets"],
        *([name, "--help"] for name in ("decode", "eval", "score", "shortlist", "export")),
    ],
    ids=" ".join,
)
def test_start_up_imports_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys, json, atexit\nfrom translate.cli import main\n"
        "atexit.register(lambda: print(json.dumps(list(sys.modules)), file=sys.stderr))\n"
        "main()"
    )
    result = start(*arguments, code=code)
    assert result.returncode == 0
    modules = set(json.loads(result.stderr))
    assert "translate" in modules
    assert not modules & {"torch", "datasets", "sentencepiece", "sacrebleu", "pandas", "pyarrow", "numpy"}
    if arguments[-1] == "--help":  # pydantic's sections are not built for it, though typer may load pydantic
        assert not modules & {"translate.config", "translate.decoding", "translate.export"}


def test_help_comes_at_once() -> None:
    times = [math.inf]
    while min(times) >= 0.5 and len(times) <= 10:  # the best of several: other processes can only make it slower
        started = time.perf_counter()
        start("--help")
        times.append(time.perf_counter() - started)
    assert min(times) < 0.5, times


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["tranlate"], "no such command 'tranlate'"),
        (["decode"], "missing argument 'run'"),
        (["decode", "run", "--beam", "3"], "no such option: --beam"),
        (["decode", "run", "--beam-size", "many"], "invalid value for '--beam-size'"),
        (["decode", "run", "--checkpoint", "middle"], "'middle' is not one of 'best', 'last'"),
        (["tokenizer", "train", "a.txt"], "missing option '--output' / '-o'"),
    ],
)
def test_wrong_usage_is_exit_code_2(translate: Translate, arguments: list[str], message: str) -> None:
    result = translate(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr.lower() and "Usage: translate" in result.stderr
    assert result.stdout == ""


def test_no_arguments_is_help(translate: Translate) -> None:
    for arguments in ([], ["config"], ["tokenizer"]):
        result = translate(*arguments)
        assert result.output.startswith(f"Usage: {' '.join(['translate', *arguments])} ")
        assert result.exit_code in (0, 2)


# Configs


def test_config_show(translate: Translate, corpus: Path) -> None:
    result = translate("config", "show", corpus / "tiny.yaml", "model.d_ff=24")
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert any(line.startswith("d_ff: 24 #") and "command line" in line for line in lines)
    assert any(line.startswith("d_model: 8 #") and "tiny.yaml" in line for line in lines)
    assert any(line.startswith("num_heads: 2 #") for line in lines)
    assert any(line.startswith("label_smoothing: 0.1 #") and "default" in line for line in lines)


def test_config_schema(translate: Translate) -> None:
    result = translate("config", "schema")
    assert result.exit_code == 0
    schema = json.loads(result.stdout)
    assert {"data", "tokenizer", "model", "training", "decoding", "evaluation"} <= set(schema["properties"])


def test_config_presets(translate: Translate) -> None:
    result = translate("config", "presets")
    assert (result.exit_code, result.stdout.split("\n")) == (0, [*preset_names(), ""])
    assert "demo" in preset_names()


@pytest.mark.parametrize("command", [["config", "show"], ["train"]])
@pytest.mark.parametrize(
    "override, messages",
    [
        ("model.d_modle=8", ["unknown key model.d_modle", "d_model"]),
        ("model.d_model=many", ["model.d_model", "many", "whole number"]),
        ("training.label_smoothing=2", ["training.label_smoothing", "2"]),
        ("model.num_heads=3", ["model.num_heads = 3 must divide model.d_model = 8"]),
        ("model.d_model", ["model.d_model", "key=value"]),
    ],
)
def test_wrong_overrides(
    translate: Translate, corpus: Path, command: list[str], override: str, messages: list[str]
) -> None:
    result = translate(*command, corpus / "tiny.yaml", override)
    assert result.exit_code == 2
    assert result.stderr.startswith("translate: ") and "Traceback" not in result.stderr
    assert all(message in result.stderr for message in messages), result.stderr


@pytest.mark.parametrize("command", [["config", "show"], ["train"]])
def test_an_unknown_preset(translate: Translate, command: list[str]) -> None:
    result = translate(*command, "dmeo")
    assert result.exit_code == 2
    assert "no config 'dmeo'" in result.stderr
    assert f"the presets are {', '.join(preset_names())}" in result.stderr
