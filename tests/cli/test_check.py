"""`translate check` as it is typed: what it prints, its exit codes, and that it leaves nothing behind."""

import json
import os
import re
from pathlib import Path

import pytest
from harness import in_order, succeed
from harness import run_command as translate
from typer.testing import Result

pytestmark = pytest.mark.usefixtures("no_shape_checks")


@pytest.fixture
def folder(clean_config: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a clean corpus of 1,200 pairs and its config."""
    monkeypatch.chdir(clean_config.parent)
    monkeypatch.setenv("COLUMNS", "120")
    return clean_config.parent


def spoil(path: Path, line: int, text: str) -> None:
    lines = path.read_text(encoding="utf-8").split("\n")
    lines[line - 1] = text
    path.write_text("\n".join(lines), encoding="utf-8", newline="\n")


def unwrapped(result: Result) -> str:
    return " ".join(result.stdout.split())


def test_clean(folder: Path) -> None:
    before = sorted(os.listdir(folder))
    result = succeed("check", "mine.yaml", "--strict")
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    assert in_order(lines[0], "data.train.0", "1,200 pairs", "1,200 kept", "train.de", "train.en")
    assert in_order(lines[1], "data.validation", "250 pairs") and "none" in lines[-3]
    for name in ("tokens", "vocabulary", "model", "memory", "speed", "training", "time"):
        assert any(line.startswith(f"{name:<11} ") for line in lines), result.stdout
    assert in_order(result.stdout, "\ntokens ", "source: ", "on average", "target: ", "longest")
    assert in_order(result.stdout, "\nexport ", "ctranslate2", "onnx", "huggingface", "model.norm = 'pre'")
    assert max(map(len, lines)) <= 120
    assert sorted(os.listdir(folder)) == before  # no run directory


def test_an_export_that_would_be_refused_is_not_listed(folder: Path, quick: None) -> None:
    result = succeed("check", "mine.yaml", "model.norm_kind=rms")
    assert in_order(result.stdout, "\nexport ", "ctranslate2, onnx; MarianMT lacks ", "model.norm_kind = 'rms'")
    assert "huggingface" not in result.stdout


def test_notes_and_warnings(folder: Path, quick: None) -> None:
    spoil(folder / "train.en", 17, "The lazy dog \x1b[31mplayed with &amp; for the sad boy, because it was young.")
    result = succeed("check", "mine.yaml", "training.warmup_steps=100")
    warning = ["\n  warning  training.warmup_steps = 100", "training.max_steps = 100"]
    note = ["\n  note     data.train.0: 1 of 1,200 pairs", "control or private-use characters", "→ ", "line 17: "]
    assert in_order(result.stdout, *warning, *note)
    assert "The lazy dog <U+001B>[31mplayed with &amp; fo" in unwrapped(result)
    assert "\x1b" not in result.stdout  # a corpus does not write to the terminal
    assert in_order(result.stdout, "\nfindings ", "1 warning, 2 notes\n")
    strict = translate("check", "mine.yaml", "training.warmup_steps=100", "--strict")
    assert strict.exit_code == 1
    # Notes alone are no failure.
    succeed("check", "mine.yaml", "--strict")


def test_a_narrow_terminal_breaks_no_word(folder: Path, quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "48")
    result = translate("check", "mine.yaml", "training.warmup_steps=100", "training.max_steps=100")
    assert max(len(line) for line in result.stdout.splitlines() if " " in line.strip()) <= 48
    keys = re.findall(r"\b(?:training|data|decoding)\.[a-z_.]+", unwrapped(result))
    assert {"training.warmup_steps", "training.max_steps", "data.validation"} <= {*keys}


def test_frozen_parts_are_counted(folder: Path) -> None:
    result = translate("check", "mine.yaml", "training.freeze=[encoder]")
    assert re.search(r"\nmodel +[\d,]+ of [\d,]+ parameters are trained; cpu", result.stdout)
    assert "training.freeze = [encoder]: " in unwrapped(result)


def test_errors(folder: Path, quick: None) -> None:
    lines = (folder / "train.en").read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "train.en").write_text("".join(["Title\n", *lines[:-1]]), encoding="utf-8")
    result = translate("check", "mine.yaml")
    assert result.exit_code == 1
    assert in_order(unwrapped(result), "error data.train.0: 1,200 of 1,200 pairs", "lines 1 to 1,200 (", "1 line later")
    assert max(map(len, result.stdout.splitlines())) <= 120


@pytest.mark.parametrize("is_dirty", [False, True])
def test_json(folder: Path, quick: None, is_dirty: bool) -> None:
    if is_dirty:
        spoil(folder / "valid.de", 3, "Der Hund hat mit dem traurigen \U0001f40c &amp; gespielt.")
    result = succeed("check", "mine.yaml", "--json")
    assert result.stderr == ""
    document = json.loads(result.stdout)
    assert document["format"] == 2 and document["name"] == "mine"
    assert document["marian_lacks"] == ["model.norm = 'pre' (it has 'post')"]
    assert [corpus["key"] for corpus in document["corpora"]] == ["data.train.0", "data.validation"]
    assert {finding["name"] for finding in document["findings"]} == {*["characters_in_bytes", "markup"] * is_dirty}
    strict = translate("check", "mine.yaml", "--json", "--strict", "training.warmup_steps=100")
    assert strict.exit_code == 1 and json.loads(strict.stdout)["findings"][0]["severity"] == "warning"
