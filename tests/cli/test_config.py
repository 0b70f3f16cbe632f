"""`translate config`."""

import json
from pathlib import Path

from harness import in_order
from harness import run_command as translate

from translate.config.load import preset_names


def test_config_show(corpus: Path) -> None:
    result = translate("config", "show", corpus / "tiny.yaml", "model.d_ff=24", "--describe")
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    for start, place in (("d_ff: 24 #", "command line"), ("d_model: 8 #", "tiny.yaml"), ("norm: post #", "default")):
        assert any(line.startswith(start) and place in line for line in lines)
    assert in_order(result.stdout, "\n  # ", "\n  d_ff: 24 ")


def test_config_describe_schema_and_presets() -> None:
    assert translate("config", "describe", "model.d_ff").stdout.startswith("model.d_ff: whole number ≥ 1, ")
    result = translate("config", "schema")
    assert result.exit_code == 0
    assert {"data", "tokenizer", "model", "training", "decoding"} <= set(json.loads(result.stdout)["properties"])
    result = translate("config", "presets")
    assert (result.exit_code, result.stdout.split("\n")) == (0, [*preset_names(), ""])
    assert "demo" in preset_names()
