"""`translate compare` of runs and files."""

import json
from pathlib import Path

import pytest
from harness import run_command as translate
from harness import succeed


@pytest.fixture
def other(corpus: Path, tmp_path: Path) -> Path:
    """A file of translations of the set `first` that are the references, but for one."""
    lines = (corpus / "valid.en").read_text(encoding="utf-8").splitlines()
    file = tmp_path / "other.en"
    file.write_text("\n".join(["Nothing.", *lines[1:]]) + "\n", encoding="utf-8")
    return file


def test_a_run_and_a_file_on_a_test_set(run: Path, corpus: Path, other: Path) -> None:
    page = other.parent / "page.html"
    result = succeed("compare", run, other, "--set", "first", "--changes", "1", "--output", page)
    lines = result.stdout.splitlines()
    assert lines[0] == "first: 3 lines" and lines[2] == "Scores" and "so few lines (3)" in result.stderr
    assert lines[3].split() == ["System", "Score", "Δ", "p", "bootstrap", "p", "randomisation"]
    evaluated = translate("eval", run, "--set", "first").stdout.splitlines()
    name, system, score, *_ = lines[4].split()
    assert [name, score] == evaluated[1].split()[:2] and system == run.name
    assert "  Source:" in result.stdout.replace("    Source:", "  Source:")
    assert max(map(len, (line for line in lines if line.startswith(("±: ", "prob", "pair"))))) <= 80
    assert "Sentences in which other.en differs most" in page.read_text(encoding="utf-8")


def test_json(run: Path, corpus: Path, other: Path) -> None:
    text = "--source", corpus / "valid.de", "--reference", corpus / "valid.en"
    result = translate("compare", other, corpus / "valid.en", *text, "--json")
    found = json.loads(result.stdout)
    assert found["systems"] == ["other.en", "valid.en"] and found["metrics"]["BLEU"][1]["value"] == pytest.approx(100)
    assert [change["other"] for change in found["changes"]] == ["A dog runs through the snow."]
