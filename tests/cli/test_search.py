"""`translate search`: a table of trials, and what it says before it begins."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from translate.config.load import load_config
from translate.search import Search
from translate.training import StoppedBySignal

Translate = Callable[..., Result]


@pytest.fixture
def space(tmp_path: Path) -> Path:
    (tmp_path / "space.yaml").write_text("model.dropout: [0.1, 0.2]")
    return tmp_path / "space.yaml"


def test_a_search_prints_its_table_and_little_else(
    translate: Translate, corpus: Path, space: Path, tmp_path: Path
) -> None:
    where = tmp_path / "found"
    result = translate("search", corpus / "tiny.yaml", space, "training.max_steps=2", "--dir", where)
    assert result.exit_code == 0, result.stderr
    header, *rows = result.stdout.splitlines()
    assert header.split() == ["trial", "BLEU", "step", "minutes", "model.dropout", "state"]
    assert sorted(row.split()[0] for row in rows) == ["trial-001", "trial-002"]
    assert all(row.split()[2] == "2" and row.split()[-1] == "ended" for row in rows)
    said = result.stderr.splitlines()
    assert said[0] == "16 trials were asked for, and the space has 2" and said[1].startswith(
        "trial-001: model.dropout="
    )
    assert len(said) == 6 and said[-1] == f"The best config is {where / 'best.yaml'}"
    assert "Next: translate eval" in (where / "trial-001" / "log.txt").read_text()
    best = load_config(str(where / "best.yaml"), require_files=True).config
    assert best.name == "tiny-best" and str(best.model.dropout) == rows[0].split()[4]
    assert (
        translate("show", "curves", where / "trial-001", where / "trial-002", "-o", tmp_path / "a.html").exit_code == 0
    )


def test_without_time_there_is_no_best_config(translate: Translate, corpus: Path, space: Path, tmp_path: Path) -> None:
    result = translate("search", corpus / "tiny.yaml", space, "--dir", tmp_path / "found", "--minutes", "0")
    assert result.exit_code == 0 and "The budget of 0 minutes is used up, with 2 of 2 trials" in result.stderr
    assert "best" not in result.stderr and not (tmp_path / "found" / "best.yaml").exists()


def test_a_stopped_search_says_how_it_goes_on(
    translate: Translate, corpus: Path, space: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(self: Search, **options: object) -> None:
        raise StoppedBySignal(signal.SIGINT, step=3)

    monkeypatch.setattr(Search, "run", run)
    monkeypatch.setattr("sys.argv", ["translate", "search", "tiny.yaml", "my space.yaml"])
    result = translate("search", corpus / "tiny.yaml", space, "--dir", tmp_path / "found")
    assert result.exit_code == 130 and result.stdout.splitlines()[1].split()[-1] == "waiting"
    assert result.stderr.endswith(". Go on with: translate search tiny.yaml 'my space.yaml'\n")


def test_wrong_input_ends_it_before_anything_is_written(
    translate: Translate, corpus: Path, space: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def error(*arguments: str | Path) -> str:
        result = translate("search", *arguments, "--dir", tmp_path / "found")
        assert result.exit_code == 2 and result.stdout == "" and not (tmp_path / "found").exists()
        return result.stderr

    assert "none.yaml: cannot be read: No such file" in error(corpus / "tiny.yaml", tmp_path / "none.yaml")
    assert "did you mean model.d_model?" in error(corpus / "tiny.yaml", space, "model.d_modle=8")
    space.write_text("model.dropuot: [0.1]")
    assert f"unknown key model.dropuot ({space}); did you mean model.dropout?" in error(corpus / "tiny.yaml", space)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "a search trains in one process: start it without torchrun" in error(corpus / "tiny.yaml", space)
