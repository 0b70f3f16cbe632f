"""What a shell is offered on TAB, by the protocols of bash, zsh and fish."""

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from typer.testing import CliRunner

from translate.cli import app
from translate.cli.terminal.options import split_after_equals
from translate.config.decoding import DecodingConfig
from translate.config.load import preset_names
from translate.config.schema import TrainingConfig

Complete = Callable[..., list[str]]

SCHEDULES = list(get_args(TrainingConfig.model_fields["schedule"].annotation))


def test_the_languages_of_a_run(complete: Complete, both: Path) -> None:
    assert complete(f"decode {both} --to ") == ["en", "de"]
    assert complete(f"decode {both} --from d") == ["de"]
    assert complete(f"score {both} a.de a.en --to e") == ["en"]
    assert complete("decode runs/demo --to ") == complete("decode nothing --to ") == []  # no run, or a damaged one


@pytest.fixture
def complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Complete:
    """Completes the last word of a command line, which bash has split at each `=`; the folder has two runs."""
    monkeypatch.chdir(tmp_path)
    for name in ("runs/demo/run.json", "runs/demo/config.yaml", "runs/wide/run.json", "mine.yaml", "folder/other.yaml"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()

    def run(line: str) -> list[str]:
        words = ["translate", *line.replace("=", " = ").split()] + ([""] if line.endswith(" ") else [])
        monkeypatch.setenv("COMP_WORDS", "\n".join(words))
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        monkeypatch.setenv("_TRANSLATE_COMPLETE", "complete_bash")
        split_after_equals()
        result = CliRunner().invoke(app, [], prog_name="translate", catch_exceptions=False)
        assert (result.exit_code, result.stderr) == (0, "")
        return result.stdout.split()

    return run


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("train ", [*preset_names(), "folder/other.yaml", "mine.yaml", "runs/demo", "runs/wide"]),
        ("train nothing", []),  # the shell then offers files
        ("decode ", ["runs/demo", "runs/wide"]),
        ("export runs/*", []),
        ("decode runs/demo --ensemble ", ["runs/demo", "runs/wide"]),
        ("decode runs/demo --diversity", ["--diversity-groups", "--diversity-strength"]),  # not in the short help
        ("show curves runs/demo runs/w", ["runs/wide"]),
        ("decode runs/demo --precision ", list(get_args(DecodingConfig.model_fields["precision"].annotation))),
        ("train demo training.le", ["training.learning_rate=1.0", "training.learning_rate="]),
        ("train demo training.sc", [f"training.schedule={each}" for each in SCHEDULES]),
        ("train demo training.schedule=", SCHEDULES),
        ("train demo training.schedule=co", [name for name in SCHEDULES if name.startswith("co")]),
        ("train mine.yaml training.initialize_from=ru", ["runs/demo", "runs/wide"]),
        ("train demo training.seed=3 training.compile=", ["true", "false"]),
        ("train demo training.nothing=", []),
        (
            "train demo evaluation",
            ["evaluation.bleu_tokenizer=", "evaluation.programs=", "evaluation.bootstrap_samples="],
        ),
        ("config describe tr", [f"training.{name}" for name in TrainingConfig.model_fields]),
        ("config describe t", ["tokenizer.", "training."]),
    ],
)
def test_bash(complete: Complete, line: str, words: list[str]) -> None:
    assert complete(line) == words


def test_fish_does_not_split_at_equals(complete: Complete, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_TRANSLATE_COMPLETE", "complete_fish")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    for typed, words in [
        ("training.schedule=", [f"training.schedule={name}" for name in SCHEDULES]),
        ("training.initialize_from=runs/w", ["training.initialize_from=runs/wide"]),
    ]:
        monkeypatch.setenv("_TYPER_COMPLETE_ARGS", f"translate train demo {typed}")
        output = CliRunner().invoke(app, [], prog_name="translate", catch_exceptions=False).stdout
        assert output.split() == words
