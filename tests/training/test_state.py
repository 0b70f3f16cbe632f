"""Checkpoints that are damaged, lost or incomplete: passed over if another serves, else refused with the reasons."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import cut, flip_a_bit, state_of
from trainings import Digits, progress_of, run_training, stop_training

from translate.errors import RunError
from translate.runs.checkpoint import read_tensors, write_checkpoint
from translate.runs.directory import RunDirectory

pytestmark = pytest.mark.usefixtures("no_shape_checks")


@pytest.mark.parametrize("damage", [flip_a_bit, cut])
def test_a_damaged_checkpoint_is_passed_over(
    stateful: Digits, tmp_path: Path, straight: Path, damage: Any, caplog: pytest.LogCaptureFixture
) -> None:
    config, run = stateful(), tmp_path / "run"
    stop_training(config, run, in_step=11)
    last, previous = RunDirectory(run).checkpoint("last"), RunDirectory(run).previous
    intact = previous.read_bytes()
    damage(last)
    # Dying before the next checkpoint leaves the intact one where it is.
    stop_training(config, run, in_step=10, what=KeyboardInterrupt)
    (damaged,) = [line for line in caplog.messages if str(last) in line]
    assert "damaged" in damaged
    assert "So the run continues from previous.safetensors, of step 9" in caplog.messages
    assert previous.read_bytes() == intact and not last.exists()
    said = run_training(config, run, resume=True)
    assert "Continuing from step 9" in said
    assert state_of(run) == state_of(straight)


@pytest.mark.parametrize("damage", [flip_a_bit, Path.unlink])
def test_a_lost_best_checkpoint_is_replaced_by_the_next(stateful: Digits, finished: Path, damage: Any) -> None:
    best = RunDirectory(finished).checkpoint("best")
    lost = progress_of(finished)["best_step"]
    damage(best)
    said = run_training(stateful("training.max_steps=16"), finished, resume=True)
    (remark,) = [line for line in said if str(best) in line]
    assert f"The best weights so far, from step {lost}, are lost" in remark
    assert read_tensors(best).metadata["step"] == "16"
    assert progress_of(finished)["best_step"] == 16


def test_a_best_checkpoint_that_cannot_be_read_at_the_moment_is_not_lost(stateful: Digits, finished: Path) -> None:
    best = RunDirectory(finished).checkpoint("best")
    before = best.rename(best.with_name("elsewhere"))
    best.mkdir()  # root may read any file, whatever its permissions
    with pytest.raises(RunError, match=f"{best}: is a folder"):
        run_training(stateful("training.max_steps=16"), finished, resume=True)
    best.rmdir()
    before.rename(best)
    said = run_training(stateful("training.max_steps=16"), finished, resume=True)
    assert not [line for line in said if "lost" in line]


def test_a_best_checkpoint_newer_than_the_last_stays(stateful: Digits, finished: Path) -> None:
    """As of a process that was killed between the two; a lower score in the repeated validation replaces nothing."""
    best, last = map(RunDirectory(finished).checkpoint, ("best", "last"))
    tensors, metadata = read_tensors(last)
    metadata["progress"] = json.dumps(json.loads(metadata["progress"]) | {"best_step": 1, "best_score": 1e6})
    write_checkpoint(RunDirectory(finished), "last", tensors, metadata)
    write_checkpoint(RunDirectory(finished), "best", read_tensors(best).tensors, {"step": "16"})
    intact = best.read_bytes()
    run_training(stateful("training.max_steps=16"), finished, resume=True)
    assert progress_of(finished)["best_step"] == 16 and best.read_bytes() == intact


def test_files_named_like_kept_checkpoints_stay(stateful: Digits, finished: Path) -> None:
    """In a training that keeps none, whatever step they are of."""
    run = RunDirectory(finished)
    best = run.checkpoint("best").read_bytes()
    for step in (progress_of(finished)["best_step"], 15):
        run.checkpoint(f"step-{step}").write_bytes(best)
    said = run_training(stateful("training.max_steps=16"), finished, resume=True)
    for step in run.kept_steps():
        assert run.checkpoint(f"step-{step}").read_bytes() == best
        assert f"{run.checkpoint(f'step-{step}')}: stays, because this training run did not write it" in said
    assert len(run.kept_steps()) == 2


def test_state_that_is_incomplete_is_refused_by_name(stateful: Digits, finished: Path) -> None:
    run = RunDirectory(finished)
    tensors, metadata = read_tensors(run.checkpoint("last"))

    def refused(**changes: Any) -> str:
        changed = {name: changes.get(name, tensor) for name, tensor in tensors.items()}
        write_checkpoint(run, "last", {name: x for name, x in changed.items() if x is not None}, metadata)
        with pytest.raises(RunError) as caught:
            run_training(stateful(), finished, resume=True)
        return str(caught.value)

    norm = next(name.removeprefix("average.") for name in tensors if name.startswith("average.") and "norm" in name)
    assert f"missing: average.{norm}" in refused(**{f"average.{norm}": None})
    assert f"{norm} is (1,) float32, the model's (16,) float32" in refused(**{f"average.{norm}": torch.zeros(1)})
    assert f"missing: optimizer.{norm}/step" in refused(**{f"optimizer.{norm}/step": None})
    assert f"missing: model.{norm}" in refused(**{f"model.{norm}": None})
