"""Suggestions for misspelt names, parts of names, and missing paths."""

from pathlib import Path

import pytest

from translate.nearest import nearest, nearest_paths

OPTIONS = ["--beam-size", "--batch-tokens", "--length-penalty", "--no-repeat-ngram", "--precision"]


@pytest.mark.parametrize(
    "name, found",
    [
        ("--beam", ["--beam-size"]),  # a part of the name
        ("--beam_size", ["--beam-size"]),
        ("--Beam-Sise", ["--beam-size"]),  # a slip
        ("--presicion", ["--precision"]),
        ("--xyzzy", []),
        ("--", []),
        ("", []),
    ],
)
def test_names(name: str, found: list[str]) -> None:
    assert nearest(name, OPTIONS) == found


def test_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("mine.yaml", "other.txt", "runs/demo/run.json", "runs/wide/run.json"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    assert nearest_paths(Path("mine.yml")) == ["mine.yaml"]
    assert nearest_paths(Path("mine")) == ["mine.yaml"]
    assert nearest_paths(Path("othr.txt")) == ["other.txt"]
    assert nearest_paths(Path("runs/dmo")) == ["runs/demo"]
    assert nearest_paths(Path("demo"), Path("runs")) == ["runs/demo"]
    assert nearest_paths(tmp_path / "mine.yml") == [str(tmp_path / "mine.yaml")]
    assert nearest_paths(Path("nowhere/mine.yaml")) == nearest_paths(Path("a\0b/c")) == nearest_paths(Path("zzz")) == []
