"""The command line before a command does anything: help as wide as the terminal, with examples, and versions."""

import re
import sys
import typing
from importlib import metadata

import pytest
from harness import commands, succeed
from harness import run_command as translate

from translate.cli.terminal.help import Command, CommandGroup
from translate.config.schema import EvaluationConfig, TokenizerConfig
from translate.decoding.output.formats import OutputFormat
from translate.documents.document import DocumentFormat
from translate.exchange.exporting import Format, Quantization
from translate.visualize.attention import AttentionKind

COMMANDS = commands()


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_as_wide_as_the_terminal_and_has_an_example(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert isinstance(COMMANDS[name], Command | CommandGroup)
    monkeypatch.setenv("COLUMNS", "80")
    result = translate(*name.split(), "--help")
    text = result.stdout
    assert result.exit_code == 0 and "…" not in text and "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80  # the examples too
    assert not any("bool" in line for line in text.splitlines() if line[:1] == "│")  # a flag takes no value
    if isinstance(COMMANDS[name], Command):
        lines = [line.strip() for line in text[text.rindex("╯") :].partition("\n Example")[2].splitlines()]
        assert any(f"translate {name} " in f"{line} " for line in lines)
        assert translate(*name.split(), "-h").stdout == text  # a second time in the same process


CHOICES = {  # the options whose choices are known elsewhere: help must not import what knows them
    "decode --document-format": DocumentFormat,
    "decode --format": OutputFormat,
    "eval --tokenize": EvaluationConfig.model_fields["bleu_tokenizer"].annotation,
    "export --to": Format,
    "export --quantization": Quantization,
    "show attention --kind": AttentionKind,
    "tokenizer train --type": TokenizerConfig.model_fields["type"].annotation,
    "tokenizer train --normalization": TokenizerConfig.model_fields["normalization"].annotation,
}


@pytest.mark.parametrize("option", CHOICES)
def test_the_choices_of_an_option_are_those_of_the_code(option: str) -> None:
    result = translate(*option.split(), "xyzzy")
    assert result.exit_code == 2
    assert re.findall("'([^']+)'", result.stderr.partition("'xyzzy'")[2]) == list(typing.get_args(CHOICES[option]))


def test_no_arguments_are_a_request_for_help() -> None:
    for arguments in ([], ["config"]):
        assert f" Usage: {' '.join(['translate', *arguments])} [OPTIONS] COMMAND" in translate(*arguments).output


def test_versions() -> None:
    result = succeed("--version")
    versions = dict(line.split(" ") for line in result.stdout.splitlines())
    for name, package in [("translate", "translate-nmt")] + [(x, x) for x in ("torch", "sentencepiece", "sacrebleu")]:
        assert versions[name] == metadata.version(package)
    assert versions["python"] == ".".join(map(str, sys.version_info[:3]))
