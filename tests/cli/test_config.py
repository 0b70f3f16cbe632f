"""`translate config`."""

import json
from pathlib import Path

import pytest
from harness import in_order
from harness import run_command as translate

from translate.config.load import preset_names


def test_config_show(corpus: Path) -> None:
    result = translate("config", "show", corpus / "tiny.yaml", "model.d_ff=24")
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert any(line.startswith("d_ff: 24 #") and "command line" in line for line in lines)
    assert any(line.startswith("d_model: 8 #") and "tiny.yaml" in line for line in lines)
    assert any(line.startswith("num_heads: 2 #") for line in lines)
    assert any(line.startswith("label_smoothing: 0.1 #") and "default" in line for line in lines)
    result = translate("config", "show", corpus / "tiny.yaml", "--describe")
    assert result.exit_code == 0 and in_order(result.stdout, "\n  # ", "\n  d_ff: 16 ")


@pytest.mark.parametrize("width", [80, 120])
def test_config_describe(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    result = translate("config", "describe", "model.d_ff")
    assert result.stdout.startswith("model.d_ff: whole number ≥ 1, ≤ 1000000; default: 2048\n    ")
    every = translate("config", "describe").stdout.splitlines()
    assert width - 10 < max(map(len, every)) <= width
    wrong = translate("config", "describe", "training.lr")
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert in_order(wrong.stderr, "training.lr", "training.learning_rate")


def test_config_schema_and_presets() -> None:
    result = translate("config", "schema")
    assert result.exit_code == 0
    assert {"data", "tokenizer", "model", "training", "decoding"} <= set(json.loads(result.stdout)["properties"])
    result = translate("config", "presets")
    assert (result.exit_code, result.stdout.split("\n")) == (0, [*preset_names(), ""])
    assert "demo" in preset_names()
