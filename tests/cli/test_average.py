"""`translate average`: its table, what it writes, and what it refuses."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from harness import in_order, succeed
from harness import run_command as translate

from translate.runs.checkpoint import read_tensors, write_checkpoint
from translate.runs.directory import RunDirectory

pytestmark = pytest.mark.usefixtures("no_shape_checks")


@pytest.fixture(scope="module")
def keeping(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has kept three validations, the last two with opposite noise, which their average lacks."""
    settings = ["training.validate_every=1", "training.keep_last=3", "training.best_metric=loss"]
    run = RunDirectory(tmp_path_factory.mktemp("keeping") / "run")
    succeed("train", corpus / "tiny.yaml", *settings, "--run", run.path)
    tensors, metadata, _ = read_tensors(run.checkpoint("best"))
    assert metadata == {"step": "3"}
    noise = {name: torch.randn_like(tensor) for name, tensor in tensors.items()}
    for name, sign in (("step-2", 1), ("step-3", -1), ("best", -1)):
        noisy = {name: tensor + sign * noise[name] for name, tensor in tensors.items()}
        write_checkpoint(run, name, noisy, {"step": "2" if name == "step-2" else "3"})
    return run.path


def test_the_best_average_becomes_the_best_checkpoint(keeping: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(keeping, tmp_path / "run"))
    dry = succeed("average", run, "--dry-run")
    best = run / "checkpoints" / "best.safetensors"
    assert best.read_bytes() == (keeping / "checkpoints" / "best.safetensors").read_bytes()
    assert (run / "metrics.jsonl").read_bytes() == (keeping / "metrics.jsonl").read_bytes()
    result = succeed("average", run)
    lines = result.stdout.splitlines()
    assert lines[:2] == ["validation, 3 lines", "  average of    BLEU    loss  checkpoints"]
    rows = {line[:12].strip(): line[12:].split(maxsplit=2) for line in lines[2:-1]}
    assert list(rows) == ["best", "last 2", "last 3"]
    chosen = min(rows.values(), key=lambda row: float(row[1]))
    assert chosen is rows["last 2"]
    assert lines[-1] == f"Now the best checkpoint of {run}: the average of steps {chosen[2]}"
    assert dry.stdout.splitlines() == [*lines[:-1], f"Best: the average of steps {chosen[2]}"]
    record = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    assert record["kind"] == "average" and f"{record['loss']:.3f}" == chosen[1]
    assert ", ".join(map(str, record["averaged"])) == chosen[2]
    assert (run / "checkpoints" / f"step-{rows['best'][2]}.safetensors").is_file(), "what was there is kept"
    said = translate("eval", run, "--set", "validation", "--beam-size", "1").stdout
    assert said.startswith(f"validation, best checkpoint (the average of steps {chosen[2]}), beam 1: ")
    assert f"BLEU {float(chosen[0]):.2f}" in " ".join(said.split())
    report = json.loads((run / "evaluation" / "validation-2" / "report.json").read_text())
    assert report["averaged"] == record["averaged"]
    succeed("verify", run)
    again = translate("average", run)
    assert again.stdout.splitlines()[-1] == "No average is better than the best checkpoint, which stays as it is"
    average, other = best.read_bytes(), Path(shutil.copytree(keeping, tmp_path / "other"))
    assert "already ended" in succeed("train", run, "--resume").stderr and best.read_bytes() == average
    for each in (run, other):
        succeed("train", each, "--resume", "training.max_steps=4")
    assert best.read_bytes() == (other / "checkpoints" / "best.safetensors").read_bytes(), "the training's own again"


def test_given_checkpoints(keeping: Path, tmp_path: Path) -> None:
    """Of a copy that has no last checkpoint, too, from which the kept ones would be known."""
    copy = Path(shutil.copytree(keeping, tmp_path / "copy", ignore=shutil.ignore_patterns("last.*", "previous.*")))
    succeed("average", copy, "step-1", "step-2")
    assert "name two or more checkpoints" in translate("average", copy).stderr
    result = succeed("average", keeping, "step-1", "last", "--dry-run")
    assert [line.split()[0] for line in result.stdout.splitlines()[2:4]] == ["best", "given"]
    assert result.stdout.splitlines()[3].endswith("  1, 3")
    wrongs = {"step-7": ["step-7.safetensors", "step-1, step-2, step-3"], "middle": ["'middle'"]}
    for name, words in (wrongs | {"step-3 best": ["best.safetensors", "step 3"]}).items():
        wrong = translate("average", keeping, "step-1", *name.split())
        assert wrong.exit_code == 2 and in_order(wrong.stderr, *words)
