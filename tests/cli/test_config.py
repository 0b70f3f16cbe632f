"""`translate config`."""

import re
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


def test_config_show_changed(corpus: Path, tmp_path: Path) -> None:
    shown = translate("config", "show", corpus / "tiny.yaml", "model.norm=post", "model.d_ff=24", "--changed").stdout
    assert in_order(shown, "\nmodel:", "\n  d_ff: 24 ", "command line") and "norm" not in shown
    (tmp_path / "run.yaml").write_text("{}")
    assert translate("config", "show", tmp_path / "run.yaml", "--changed").stdout == "name: run  # default\n"


def test_config_presets() -> None:
    result = translate("config", "presets")
    header, *rows = [re.split("  +", line.strip()) for line in result.stdout.splitlines()]
    assert header == ["preset", "data", "model", "minutes", "BLEU"] and [row[0] for row in rows] == preset_names()
    demo, big = rows[0], rows[-1]
    assert demo[0] == "demo" and demo[2] == "2+2 layers, d_model 192" and big[3:] == ["–", "–"]
