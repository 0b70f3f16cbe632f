"""`translate search`: its table, what it reports, and errors before anything is written."""

import signal
from pathlib import Path
from typing import Any

import pytest
from harness import run_command as translate
from harness import succeed

from translate.training import StoppedBySignal

pytestmark = pytest.mark.usefixtures("no_shape_checks")


@pytest.fixture
def space(tmp_path: Path) -> Path:
    (tmp_path / "space.yaml").write_text("model.dropout: [0.1, 0.2]")
    return tmp_path / "space.yaml"


def test_a_search_prints_its_table(corpus: Path, space: Path, tmp_path: Path) -> None:
    pytest.importorskip("optuna", reason="the extra `search` is not installed")
    found = tmp_path / "found"
    result = succeed("search", corpus / "tiny.yaml", space, "training.max_steps=2", "--dir", found)
    header, *rows = result.stdout.splitlines()
    assert header.split() == ["trial", "BLEU", "loss", "step", "minutes", "model.dropout", "state"]
    assert sorted(row.split()[0] for row in rows) == ["trial-001", "trial-002"]
    assert all(row.split()[3] == "2" and row.split()[-1] == "ended" for row in rows)
    assert {row.split()[1] for row in rows} == {"0.00"} and "no trial has a BLEU above 0.00" in result.stderr
    assert not (found / "best.yaml").exists()
    assert "Epoch" not in result.stderr and "Epoch" in (found / "trial-001" / "log.txt").read_text()
    result = succeed("search", corpus / "tiny.yaml", space, "training.max_steps=2", "--dir", found, "--minutes", "0")
    assert "budget" in result.stderr and result.stdout.splitlines()[1:] == rows


def test_a_stopped_search_says_how_it_goes_on(
    corpus: Path, space: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("optuna", reason="the extra `search` is not installed")

    def stop(*args: Any, **options: Any) -> None:
        raise StoppedBySignal(signal.SIGINT, step=3)

    monkeypatch.setattr("translate.training.search.train", stop)
    monkeypatch.setattr("sys.argv", ["translate", "search", "tiny.yaml", "my space.yaml"])
    result = translate("search", corpus / "tiny.yaml", space, "--dir", tmp_path / "found")
    assert result.exit_code == 130 and result.stdout.splitlines()[1].split()[-1] == "paused"
    assert "translate search tiny.yaml 'my space.yaml'" in result.stderr


def test_wrong_input_ends_it_before_anything_is_written(
    corpus: Path, space: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("optuna", reason="the extra `search` is not installed")

    def error(*arguments: str | Path) -> str:
        result = translate("search", *arguments, "--dir", tmp_path / "found")
        assert result.exit_code == 2 and result.stdout == "" and not (tmp_path / "found").exists()
        return result.stderr

    space.write_text("model.dropuot: [0.1]")
    assert f"model.dropuot ({space}); did you mean model.dropout?" in error(corpus / "tiny.yaml", space)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "torchrun" in error(corpus / "tiny.yaml", space)
