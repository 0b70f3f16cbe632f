"""The newcomer's demo keeps its promise: the embedded corpus is learnt, agreement and word order too."""

import importlib
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from translate.cli import app


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_demo_reaches_90_bleu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "runs" / "demo"
    trained = CliRunner().invoke(app, ["train", "demo", "--run", str(run)])
    assert trained.exit_code == 0, trained.output
    evaluated = CliRunner().invoke(app, ["eval", str(run), "--samples", "10"])
    assert evaluated.exit_code == 0, evaluated.output
    report = json.loads((run / "evaluation" / "test" / "report.json").read_text(encoding="utf-8"))
    scores = {metric["name"]: metric["score"] for metric in report["metrics"]}
    assert scores["BLEU"] >= 90.0, evaluated.output
    assert evaluated.output.count("translation: ") == 10

    # The last page of the tutorial looks into this run.
    tutorial = Path(__file__).resolve().parents[2] / "docs" / "tutorial"
    monkeypatch.syspath_prepend(tutorial)
    monkeypatch.setattr(importlib.import_module("draw"), "FOLDER", tmp_path)
    monkeypatch.chdir(tmp_path)
    page = importlib.import_module("run").run_page((tutorial / "demo.md").read_text(encoding="utf-8"))
    assert page.count("The parents thanked the slow artists yesterday evening.\n") == 2
