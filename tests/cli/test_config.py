"""`translate config`, and how errors of configs and overrides end a command."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from translate.config.load import preset_names

Translate = Callable[..., Result]


def test_config_show(translate: Translate, corpus: Path) -> None:
    result = translate("config", "show", corpus / "tiny.yaml", "model.d_ff=24")
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert any(line.startswith("d_ff: 24 #") and "command line" in line for line in lines)
    assert any(line.startswith("d_model: 8 #") and "tiny.yaml" in line for line in lines)
    assert any(line.startswith("num_heads: 2 #") for line in lines)
    assert any(line.startswith("label_smoothing: 0.1 #") and "default" in line for line in lines)


def test_config_show_describe(translate: Translate, corpus: Path) -> None:
    result = translate("config", "show", corpus / "tiny.yaml", "--describe")
    assert result.exit_code == 0 and "\n  # Inner width of the feed-forward layer.\n  d_ff: 16 " in result.stdout


@pytest.mark.parametrize("width", [80, 120])
def test_config_describe(translate: Translate, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    result = translate("config", "describe", "model.d_ff")
    assert result.stdout == (
        "model.d_ff: whole number ≥ 1, ≤ 1000000; default: 2048\n    Inner width of the feed-forward layer.\n"
    )
    every = translate("config", "describe").stdout.splitlines()
    assert width - 10 < max(map(len, every)) <= width
    wrong = translate("config", "describe", "training.lr")
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert wrong.stderr == "translate: unknown key training.lr; did you mean training.learning_rate?\n"


def test_config_schema(translate: Translate) -> None:
    result = translate("config", "schema")
    assert result.exit_code == 0
    schema = json.loads(result.stdout)
    assert {"data", "tokenizer", "model", "training", "decoding", "evaluation"} <= set(schema["properties"])


def test_config_presets(translate: Translate) -> None:
    result = translate("config", "presets")
    assert (result.exit_code, result.stdout.split("\n")) == (0, [*preset_names(), ""])
    assert "demo" in preset_names()


@pytest.mark.parametrize("command", [["config", "show"], ["train"]])
@pytest.mark.parametrize(
    "override, messages",
    [
        ("model.d_modle=8", ["unknown key model.d_modle", "d_model"]),
        ("model.d_model=many", ["model.d_model", "many", "whole number"]),
        ("training.label_smoothing=2", ["training.label_smoothing", "2"]),
        ("model.num_heads=3", ["model.num_heads = 3 must divide model.d_model = 8"]),
        ("model.d_model", ["model.d_model", "key=value"]),
    ],
)
def test_wrong_overrides(
    translate: Translate, corpus: Path, command: list[str], override: str, messages: list[str]
) -> None:
    result = translate(*command, corpus / "tiny.yaml", override)
    assert result.exit_code == 2
    assert result.stderr.startswith("translate: ") and "Traceback" not in result.stderr
    assert all(message in result.stderr for message in messages), result.stderr


@pytest.mark.parametrize("command", [["config", "show"], ["train"]])
def test_an_unknown_preset(
    translate: Translate, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where no run has a name like that
    result = translate(*command, "dmeo")
    assert result.exit_code == 2
    assert "no config 'dmeo'" in result.stderr
    assert f"the presets are {', '.join(preset_names())}; did you mean demo?" in result.stderr
