"""`translate runs` and `translate info`: what they say of runs in every state."""

import json
import re
import shutil
from pathlib import Path

import pytest
from filelock import FileLock
from harness import run_command as translate
from harness import succeed

from translate.runs.checkpoint import read_tensors, write_tensors
from translate.runs.run import open_run


def states(folder: Path) -> dict[str, str]:
    """The state of each run, by name."""
    return {
        Path(each["run"]).name: each.get("state", each.get("error", ""))
        for each in json.loads(translate("runs", folder, "--json").stdout)["runs"]
    }


def test_a_run_in_each_state(copied: Path) -> None:
    folder, weights = copied.parent, copied / "checkpoints"
    assert states(folder) == {"copy": "finished"}
    with FileLock(copied / "lock"):
        assert states(folder) == {"copy": "in training"}
    config = copied / "config.yaml"
    config.write_text(config.read_text().replace("max_steps: 3", "max_steps: 9"))
    assert states(folder) == {"copy": "can be resumed"}
    text = config.read_text()
    config.write_text(text.replace("max_epochs: null", "max_epochs: 1"))
    assert states(folder) == {"copy": "finished"}
    config.write_text(text)
    assert "translate train" in translate("info", copied).stdout.splitlines()[-1]
    (weights / "last.safetensors").write_bytes(b"junk")
    (weights / "best.safetensors").rename(weights / "other.safetensors")
    assert "last.safetensors" in states(folder)["copy"]  # damaged
    (weights / "last.safetensors").unlink()
    (weights / "previous.safetensors").unlink()
    assert states(folder) == {"copy": "without a checkpoint to resume"}
    (copied / "run.json").write_text("{")
    assert "run.json" in states(folder)["copy"] and translate("info", copied).exit_code != 0


def test_the_facts(run: Path) -> None:
    found = json.loads(translate("info", run, "--json").stdout)
    assert (found["languages"], found["data"]) == (["de-en"], ["train.de, train.en"])
    assert found["num_parameters"] == open_run(run).load_model().model.num_parameters
    assert (found["step"], found["max_steps"], found["checkpoints"]) == (3, 3, ["best", "last", "previous"])
    lines = translate("info", run).stdout.splitlines()
    assert lines[0] == str(run) and f"{found['num_parameters']:,} parameters" in lines[3]
    header, row = translate("runs", run.parent).stdout.splitlines()
    assert header.split()[:4] == ["run", "languages", "parameters", "steps"]
    assert row.split()[:6] == [str(run), "de-en", f"{found['num_parameters']:,}", "3", "of", "3"]


def test_the_best_checkpoint_may_be_an_average(copied: Path) -> None:
    best = copied / "checkpoints" / "best.safetensors"
    write_tensors(best, read_tensors(best).tensors, {"step": "3", "averaged": "2 3"})
    with (copied / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "average", "step": 3, "BLEU": 12.5, "averaged": [2, 3]}\n')
    found = json.loads(translate("info", copied, "--json").stdout)
    assert (found["best_bleu"], found["best_step"], found["best_averaged"]) == (12.5, 3, [2, 3])
    (line,) = [line for line in translate("info", copied).stdout.splitlines() if "12.50" in line]
    assert "average of steps 2, 3" in line


def test_scores_of_the_best_checkpoint_on_test_sets(copied: Path, corpus: Path) -> None:
    def tested() -> list[str]:
        return [*json.loads(translate("info", copied, "--json").stdout)["test_bleu"]]

    shutil.rmtree(copied / "evaluation", ignore_errors=True)
    succeed("eval", copied)
    succeed("eval", copied, "--set", "validation")
    succeed("eval", copied, "--source", corpus / "one.de", "--reference", corpus / "one.en")
    assert tested() == ["first", "one.de", "second"]
    report = copied / "evaluation" / "one.de" / "report.json"
    for settings, is_own in (({"beam_size": 1}, False), ({"batch_tokens": 999}, True)):  # as older versions wrote it
        content = json.loads(report.read_text())
        report.write_text(json.dumps(content | {"decoding": content["decoding"] | settings}))
        assert ("one.de" in tested()) == is_own
        report.write_text(json.dumps(content))
    for name, key, other in (("first", "step", 2), ("second", "averaged", [2, 3])):
        report = copied / "evaluation" / name / "report.json"
        report.write_text(json.dumps(json.loads(report.read_text()) | {key: other}))
    assert tested() == ["one.de"]
    report = copied / "evaluation" / "one.de" / "report.json"
    report.write_text(re.sub('"score": [^,]*', '"score": "x"', report.read_text()))
    assert tested() == [] and str(copied) in translate("info", copied).stdout


def test_where_runs_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert translate("runs").stdout == ".: no runs here or in its folders\n"
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "mine").symlink_to(run)
    assert [each.split()[0] for each in translate("runs").stdout.splitlines()[1:]] == ["runs/mine"]
    assert [each.split()[0] for each in translate("runs", "runs/mine").stdout.splitlines()[1:]] == ["runs/mine"]
