"""`translate train`: a run from a config, continued, and profiled."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from typer.testing import Result

Translate = Callable[..., Result]


def test_train(trained: Result, corpus: Path) -> None:
    assert trained.exit_code == 0 and trained.stdout == ""
    assert f"Next: translate eval {corpus / 'run'}" in trained.stderr and "ended after 3 steps" in trained.stderr
    assert json.loads((corpus / "run" / "run.json").read_text())["command"][0] == "translate"


def test_train_refuses_an_existing_run(translate: Translate, corpus: Path, run: Path) -> None:
    result = translate("train", corpus / "tiny.yaml", "--run", run)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"translate: {run} already holds a run: continue it with --resume")


def test_train_and_resume(translate: Translate, corpus: Path, run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    result = translate("train", corpus / "tiny.yaml", "training.max_steps=4", "--run", copy, "--resume")
    assert result.exit_code == 0, result.stderr
    assert "going on from step 3" in result.stderr and "ended after 4 steps" in result.stderr


def test_train_without_its_data(translate: Translate, corpus: Path, tmp_path: Path) -> None:
    result = translate("train", corpus / "tiny.yaml", "data.train.0.source=nowhere.de", "--run", tmp_path / "run")
    assert result.exit_code == 2 and not (tmp_path / "run").exists()
    assert "data.train.0.source = nowhere.de: no such file" in result.stderr


def test_profile(translate: Translate, corpus: Path) -> None:
    run = corpus / "profiled"
    result = translate(
        "train", corpus / "tiny.yaml", "training.max_steps=21", "data.validation=null", "--run", run, "--profile"
    )
    assert result.exit_code == 0, result.output
    assert "Profiling steps 11 to 20 after" in result.output
    assert (
        f"Profile of steps 11 to 20: {run / 'profile' / 'time.txt'}; {run / 'profile' / 'trace.json.gz'} is for"
        in result.output
    )
    assert "ended after 21 steps" in result.output
    assert {path.name for path in (run / "profile").iterdir()} == {"time.txt", "trace.json.gz"}
