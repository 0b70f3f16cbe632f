"""Whole small trainings: the same code in validation and evaluation, how they stop, what they say if they cannot."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from translate.config import Config
from translate.errors import InputError
from translate.lint.check import log_findings
from translate.runs import RunDirectory, read_tensors
from translate.training import train

Digits = Callable[..., Config]
RunTraining = Callable[..., list[str]]
StateOf = Callable[[Path], Any]


def test_accumulated_gradient_is_the_gradient_of_the_whole_batch(
    run_training: RunTraining, digits: Digits, tmp_path: Path
) -> None:
    """The same pairs in many batches or in one: Adam's first moment after a step, a tenth of the gradient, agrees."""
    moments = {}
    for name, overrides in {
        "whole": ("training.batch_tokens=100000", "training.accumulate_batches=1"),
        "parts": ("training.batch_tokens=60", "training.accumulate_batches=1000"),
    }.items():
        run_training(digits("model.dropout=0", "training.max_steps=1", *overrides), tmp_path / name)
        tensors = read_tensors(RunDirectory(tmp_path / name).checkpoint("last")).tensors
        moments[name] = {key: tensor for key, tensor in tensors.items() if key.endswith("exp_avg")}
    assert len(moments["whole"]) > 20
    assert any(float(tensor.abs().max()) > 1e-3 for tensor in moments["whole"].values())
    for key, tensor in moments["whole"].items():
        torch.testing.assert_close(tensor, moments["parts"][key], atol=1e-7, rtol=1e-4)


def test_refuses_to_overwrite_a_run(run_training: RunTraining, digits: Digits, tmp_path: Path) -> None:
    run_training(digits("training.max_steps=1"), tmp_path / "run")
    with pytest.raises(InputError, match="already holds a run: continue it with --resume"):
        run_training(digits(), tmp_path / "run")


def test_refuses_to_resume_with_other_settings_or_data(
    run_training: RunTraining, digits: Digits, tmp_path: Path
) -> None:
    run_training(digits("training.max_steps=2"), tmp_path / "run")
    with pytest.raises(InputError, match=r"model\.d_model = 32 \(the run has 16\)"):
        run_training(digits("model.d_model=32"), tmp_path / "run", resume=True)
    (tmp_path / "train.out").write_text("1 2 3\n" * 211, encoding="utf-8")
    with pytest.raises(InputError, match=r"data\.train is not what this run was trained on"):
        run_training(digits("training.max_steps=4"), tmp_path / "run", resume=True)


def test_going_further_says_that_the_schedule_stretches(
    run_training: RunTraining, digits: Digits, tmp_path: Path
) -> None:
    run_training(digits("training.schedule=cosine", "training.max_steps=4"), tmp_path / "run")
    said = run_training(digits("training.schedule=cosine", "training.max_steps=8"), tmp_path / "run", resume=True)
    assert "training.max_steps is now 8, and the cosine schedule ends there" in said


def test_bad_data_is_told_before_any_work(run_training: RunTraining, digits: Digits, tmp_path: Path) -> None:
    with (tmp_path / "validation.out").open("a", encoding="utf-8") as file:
        file.write("one line too many\n")
    with pytest.raises(InputError, match=r"data\.validation: .*has 23 lines and .*has 24"):
        run_training(digits(), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_run_says_what_it_is(run_training: RunTraining, digits: Digits, tmp_path: Path) -> None:
    said = run_training(digits("training.max_steps=1"), tmp_path / "run")
    assert any("211 of 211 pairs kept" in line for line in said)
    description = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))
    assert description["command"] == ["test"]
    assert {"translate", "python", "torch", "sentencepiece", "sacrebleu"} == set(description["versions"])


def test_tensorboard_events_are_written(run_training: RunTraining, digits: Digits, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    run_training(digits("training.tensorboard=true", "training.max_steps=5"), tmp_path / "run")
    assert list((tmp_path / "run" / "tensorboard").glob("events.out.tfevents.*"))


def test_bf16_trains(run_training: RunTraining, digits: Digits, tmp_path: Path, state_of: StateOf) -> None:
    """An untrained model of these 40 tokens has a loss of ln 40 = 3.7; a hundred steps bring it far below."""
    run_training(
        digits("training.precision=bf16", "training.max_steps=100", "training.validate_every=100"), tmp_path / "run"
    )
    losses = [record["loss"] for record in state_of(tmp_path / "run").metrics if record["kind"] == "train"]
    assert losses[0] > 3.7 and losses[-1] < 3.0


def test_logs_findings_before_the_first_step(digits: Digits, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def run(*, resume: bool = False) -> list[str]:
        caplog.clear()
        config = digits("training.max_steps=4", "training.warmup_steps=9")
        train(config, tmp_path / "run", resume=resume, command=["test"], inspect=log_findings)
        return caplog.messages

    caplog.set_level("INFO", "translate")
    messages = run()
    (warning,) = [line for line in messages if line.startswith("warning: training.warmup_steps")]
    assert "training.warmup_steps = 9 is not less than training.max_steps = 4" in warning
    assert any("note" in line and "run `translate check`" in line for line in messages)
    assert not any(line.startswith("warning: ") for line in run(resume=True)), "it was logged at the run's beginning"
