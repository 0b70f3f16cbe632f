"""What bash is offered on TAB."""

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from typer.testing import CliRunner

from translate.cli import app
from translate.config.decoding import DecodingConfig
from translate.config.load import preset_names

Complete = Callable[..., list[str]]


@pytest.fixture
def complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Complete:
    """Completes the last word of a command line; the folder has three runs."""
    monkeypatch.chdir(tmp_path)
    for name in (
        "mine/run.json",
        "runs/demo/run.json",
        "runs/demo/config.yaml",
        "runs/wide/run.json",
        "mine.yaml",
        "folder/other.yaml",
    ):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()

    def run(line: str) -> list[str]:
        words = ["translate", *line.split()] + ([""] if line.endswith(" ") else [])
        monkeypatch.setenv("COMP_WORDS", "\n".join(words))
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        monkeypatch.setenv("_TRANSLATE_COMPLETE", "complete_bash")
        result = CliRunner().invoke(app, [], prog_name="translate", catch_exceptions=False)
        assert (result.exit_code, result.stderr) == (0, "")
        return result.stdout.split()

    return run


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("train ", [*preset_names(), "folder/other.yaml", "mine.yaml", "mine/", "runs/demo", "runs/wide"]),
        ("train nothing", []),  # the shell then offers files
        ("decode ", ["mine", "runs/demo", "runs/wide"]),
        ("export runs/*", []),
        ("decode runs/demo --ensemble ", ["mine", "runs/demo", "runs/wide"]),
        ("decode runs/demo --mbr", ["--mbr", "--mbr-candidates"]),  # not in the short help
        ("show curves runs/demo runs/w", ["runs/wide"]),
        ("decode runs/demo --precision ", list(get_args(DecodingConfig.model_fields["precision"].annotation))),
    ],
)
def test_bash(complete: Complete, line: str, words: list[str]) -> None:
    assert complete(line) == words
