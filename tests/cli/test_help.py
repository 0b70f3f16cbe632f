"""The command line before a command does anything: help as wide as the terminal, with examples, and versions."""

import re
import sys
import typing
from importlib import metadata
from typing import Any

import pytest
import typer
from harness import run_command as translate

from translate.cli import app
from translate.cli.terminal.help import Command, CommandGroup
from translate.config.data import TokenizerConfig
from translate.decoding.output.formats import OutputFormat
from translate.documents.document import DocumentFormat
from translate.exchange.exporting import Format, Quantization
from translate.visualize.attention import AttentionKind
from translate.visualize.page import PictureFormat

Found = list[tuple[list[str], Command | CommandGroup]]


def walk(command: Any, path: list[str]) -> Found:
    assert isinstance(command, Command | CommandGroup), path
    names = command.commands if isinstance(command, CommandGroup) else ()
    below = (each for name in names for each in walk(command.get_command(None, name), [*path, name]))
    return [(path, command), *below]


COMMANDS = walk(typer.main.get_command(app), [])


@pytest.mark.parametrize(
    "path, command", COMMANDS, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_help_fills_the_width_cuts_nothing_and_has_an_example(
    monkeypatch: pytest.MonkeyPatch, path: list[str], command: Command
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = translate(*path, "--help")
    text = result.stdout
    assert result.exit_code == 0 and "…" not in text and "\x1b" not in text and "\b" not in text
    framed = [line for line in text.splitlines() if line[:1] in "╭│╰" and line]
    assert framed and {len(line) for line in framed} == {80}
    assert max(map(len, text.splitlines())) <= 80  # the examples too
    assert not any("bool" in line for line in framed)  # a flag takes no value
    shown = " ".join(re.sub(r"[│╭╰─╮╯]", " ", text).split())
    for parameter in command.params:
        for name in parameter.opts if parameter.param_type_name == "option" else [parameter.metavar]:
            assert name is None or name.strip() in shown
    if isinstance(command, Command):
        assert f"Usage: translate {' '.join(path)} [OPTIONS]" in text
        lines = [line.strip() for line in text[text.rindex("╯") :].partition("\n Example")[2].splitlines()]
        assert any(f"translate {' '.join(path)} " in f"{line} " for line in lines)
        assert translate(*path, "-h").stdout == text  # a second time in the same process


CHOICES = {  # the options whose choices are known elsewhere: help must not import what knows them
    "decode --document-format": DocumentFormat,
    "decode --format": OutputFormat,
    "export --to": Format,
    "export --quantization": Quantization,
    "show attention --kind": AttentionKind,
    "show attention --format": PictureFormat,
    "tokenizer train --type": TokenizerConfig.model_fields["type"].annotation,
    "tokenizer train --normalization": TokenizerConfig.model_fields["normalization"].annotation,
}


@pytest.mark.parametrize("option", CHOICES)
def test_the_choices_of_an_option_are_those_of_the_code(option: str) -> None:
    result = translate(*option.split(), "xyzzy")
    assert result.exit_code == 2
    assert re.findall("'([^']+)'", result.stderr.partition("'xyzzy'")[2]) == list(typing.get_args(CHOICES[option]))


def test_main_help_has_the_whole_first_paragraph_of_each_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = translate("--help").stdout
    for path, command in COMMANDS:
        if len(path) == 1:
            assert command.help is not None
            assert re.search(rf"│ {path[0]} +{re.escape(command.help.split(chr(10))[0])} +│", text), path
    for arguments in ([], ["config"], ["tokenizer"]):  # no arguments are a request for help
        shown = translate(*arguments)
        assert shown.exit_code in (0, 2)
        assert f" Usage: {' '.join(['translate', *arguments])} [OPTIONS] COMMAND" in shown.output


def test_versions() -> None:
    result = translate("--version")
    assert result.exit_code == 0
    versions = dict(line.split(" ") for line in result.stdout.splitlines())
    for name, package in [("translate", "translate-nmt")] + [(x, x) for x in ("torch", "sentencepiece", "sacrebleu")]:
        assert versions[name] == metadata.version(package)
    assert versions["python"] == ".".join(map(str, sys.version_info[:3]))
