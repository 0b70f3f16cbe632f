"""The command line before a command does anything: commands, help, versions, wrong usage."""

import sys
from collections.abc import Callable
from importlib import metadata

import pytest
import typer
from typer.testing import Result

from translate.cli import app

Translate = Callable[..., Result]


def all_commands() -> list[list[str]]:
    def walk(command: object, path: list[str]) -> list[list[str]]:
        children = getattr(command, "commands", {})
        return [path] * (not children) + [each for name in children for each in walk(children[name], [*path, name])]

    return walk(typer.main.get_command(app), [])


COMMANDS = all_commands()


def test_all_commands_are_known() -> None:
    assert sorted(map(" ".join, COMMANDS)) == [
        "average",
        "backtranslate",
        "check",
        "compare",
        "config describe",
        "config presets",
        "config schema",
        "config show",
        "decode",
        "distill",
        "eval",
        "export",
        "import",
        "score",
        "search",
        "serve",
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
        "tune-decode",
        "verify",
    ]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_has_an_example(translate: Translate, command: list[str]) -> None:
    result = translate(*command, "--help")
    assert result.exit_code == 0
    assert f"Usage: translate {' '.join(command)} [OPTIONS]" in result.stdout
    _, _, examples = result.stdout.partition("\n Example")
    # The example stands on a line of its own, and is of this command.
    lines = [line.strip() for line in examples.splitlines()]
    assert any(f"translate {' '.join(command)} " in f"{line} " for line in lines)
    assert translate(*command, "-h").stdout == result.stdout


def test_versions(translate: Translate) -> None:
    result = translate("--version")
    assert result.exit_code == 0
    versions = dict(line.split(" ") for line in result.stdout.splitlines())
    for name, package in [("translate", "translate-nmt")] + [(x, x) for x in ("torch", "sentencepiece", "sacrebleu")]:
        assert versions[name] == metadata.version(package)
    assert versions["python"] == ".".join(map(str, sys.version_info[:3]))


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["tranlate"], "no such command 'tranlate'"),
        (["decode"], "missing argument 'run'"),
        (["decode", "run", "--beam", "3"], "no such option: --beam; did you mean --beam-size?"),
        (["decode", "run", "--beam-size", "many"], "invalid value for '--beam-size'"),
        (
            ["decode", "run", "--search", "middle"],
            "invalid value for '--search': 'middle' is not one of 'beam', 'sample'",
        ),
        (
            ["export", "run", "out", "--to", "ctrnslate2"],
            "invalid value for '--to': 'ctrnslate2' is not one of 'ctranslate2', 'huggingface', 'onnx'; did you mean"
            " ctranslate2?",
        ),
        (["--versoin"], "no such option: --versoin; did you mean --version?"),
        (["trian"], "no such command 'trian'; did you mean 'train'?"),
        (["train", "demo", "--lr", "1"], "no such option: --lr; did you mean training.learning_rate=…?"),
        (["check", "demo", "--max-steps=9"], "no such option: --max-steps; did you mean training.max_steps=…?"),
        (["decode", "run", "--alpha", "1"], "no such option: --alpha; did you mean --length-penalty?"),
        (["decode", "run", "--xyzzy"], "no such option: --xyzzy\n"),
        (["tokenizer", "train", "a.txt"], "missing option '--output' / '-o'"),
    ],
)
def test_wrong_usage_is_exit_code_2(translate: Translate, arguments: list[str], message: str) -> None:
    result = translate(*arguments)
    assert result.exit_code == 2
    assert f"translate: {message}" in result.stderr.lower() and result.stderr.startswith("Usage: translate")
    assert result.stdout == ""


def test_no_arguments_is_help(translate: Translate) -> None:
    for arguments in ([], ["config"], ["tokenizer"]):
        result = translate(*arguments)
        assert result.output.split("\n")[1].startswith(
            f" Usage: {' '.join(['translate', *arguments])} [OPTIONS] COMMAND"
        )
        assert result.exit_code in (0, 2)
