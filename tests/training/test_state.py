"""Checkpoints that are damaged, lost or incomplete: passed over if another serves, else refused with the reasons."""

from pathlib import Path
from typing import Any

import pytest
import torch
from harness import cut, flip_a_bit, state_of
from trainings import Digits, progress_of, run_training, stop_training

from translate.errors import RunError
from translate.runs.checkpoint import read_tensors, write_checkpoint
from translate.runs.directory import RunDirectory
from translate.runs.metrics import best_checkpoint_record
from translate.runs.progress import Progress
from translate.training.best_checkpoint import restore_best

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


VALIDATED = [{"kind": "validation", "step": 8, "BLEU": 9.0}, {"kind": "validation", "step": 12, "BLEU": 7.0}]
AVERAGED = {"kind": "average", "step": 12, "BLEU": 8.0, "averaged": [8.0, 12.0]}


@pytest.mark.parametrize(
    ("best", "changes", "record", "expected"),
    [  # the file's metadata, what is not as usual, the file's record; the best step and score, and the file's step
        ({"step": "8"}, {}, VALIDATED[0], (8, 9.0, "8")),
        ({"step": "12"}, {}, VALIDATED[1], (12, 9.0, "12")),
        ({"step": "12", "averaged": "8 12"}, {}, AVERAGED, (8, 9.0, "8")),
        ({"step": "8"}, {"validation_fingerprint": "other"}, VALIDATED[0], (8, None, "8")),
        (None, {}, VALIDATED[0], (None, None, None)),
        ({"step": "12", "averaged": "8 12"}, {"best_step": 4}, AVERAGED, (None, None, "12")),
        ({"step": "0"}, {"best_step": None, "best_score": None}, VALIDATED[0], (None, None, "0")),
    ],
    ids=["current", "newer", "average", "superseded", "lost", "lost under an average", "another run's"],
)
def test_what_the_best_checkpoint_may_be(
    tmp_path: Path,
    best: dict[str, str] | None,
    changes: dict[str, Any],
    record: dict[str, Any],
    expected: tuple[int | None, float | None, str | None],
) -> None:
    """The weights of step 8 are the best of a run that has made 12 steps, and were kept."""
    run = RunDirectory(tmp_path)
    run.checkpoints.mkdir()
    for name, metadata in {"step-8": {"step": "8"}, "best": best}.items():
        if metadata is not None:
            write_checkpoint(run, name, {"model.weight": torch.zeros(2)}, metadata)
    assert best_checkpoint_record(run, [*VALIDATED, AVERAGED], "bleu") == record
    values = {"step": 12, "best_step": 8, "best_score": 9.0, "validation_fingerprint": "now"} | changes
    progress = Progress("data", **values)
    restore_best(run, progress, validation_fingerprint="now")
    file = run.checkpoint("best")
    step = read_tensors(file).metadata["step"] if file.exists() else None
    assert (progress.best_step, progress.best_score, step) == expected


def test_a_lost_best_checkpoint_is_replaced_by_the_next(stateful: Digits, finished: Path) -> None:
    best = RunDirectory(finished).checkpoint("best")
    lost = progress_of(finished)["best_step"]
    flip_a_bit(best)
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


@pytest.mark.parametrize(("keep_last", "stay"), [(0, [1]), (1, [4])])
def test_only_a_training_that_keeps_weights_removes_others(
    digits: Digits, tmp_path: Path, keep_last: int, stay: list[int]
) -> None:
    run, settings = RunDirectory(tmp_path / "run"), ("training.validate_every=2", f"training.keep_last={keep_last}")
    run_training(digits(*settings, "training.max_steps=2"), run.path)
    write_checkpoint(run, "step-1", {"model.weight": torch.zeros(2)}, {"step": "1"})
    run_training(digits(*settings, "training.max_steps=4"), run.path, resume=True)
    assert run.kept_steps() == stay


def test_state_that_is_incomplete_is_refused_by_name(stateful: Digits, finished: Path) -> None:
    run = RunDirectory(finished)
    tensors, metadata, _ = read_tensors(run.checkpoint("last"))

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
