"""The loop of a training: when it stops, what it logs and saves, and how it fails."""

import itertools
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from harness import state_of
from trainings import Digits, progress_of, records_of, run_training, stop_training

from translate.config.schema import TrainingConfig
from translate.errors import RunError
from translate.runs.directory import RunDirectory
from translate.runs.progress import Progress
from translate.runs.summary import summarize_run
from translate.training import best_checkpoint, step, trainer
from translate.training import step as step_module

CUDA_MESSAGE = "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 139 GiB of which …"


@pytest.mark.parametrize(
    ("progress", "changes", "expected"),
    [  # every second step is logged, every third saved, every sixth validated
        ({"step": 0}, {}, "log save"),  # not asked for: no step was made
        ({"step": 0}, {"initialize_from": Path("base")}, "log validate"),
        ({"step": 0, "validated_step": 0}, {"initialize_from": Path("base")}, "log save"),
        ({"step": 1}, {}, ""),
        ({"step": 2}, {}, "log"),
        ({"step": 3}, {}, "save"),
        ({"step": 6}, {}, "log validate"),
        ({"step": 6, "validated_step": 6}, {}, "log save"),
        ({"step": 12}, {}, "log stop"),  # the last validation comes whether it is due or not
        ({"step": 6, "epoch": 2}, {"max_epochs": 2}, "log stop"),
        ({"step": 9, "validated_step": 6, "validations_without_better": 2}, {"patience": 2}, "stop"),
    ],
)
def test_what_is_due(progress: dict[str, Any], changes: dict[str, Any], expected: str) -> None:
    settings = TrainingConfig(log_every=2, save_every=3, validate_every=6, max_steps=12, **changes)
    found = trainer.due(Progress("data", **progress), settings)
    assert " ".join(name for name, is_due in found._asdict().items() if is_due) == expected


def test_a_loss_that_is_not_finite_stops_with_a_remedy(
    digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = step.label_smoothed_loss
    calls = itertools.count(1)

    def poisoned(*args: Any, **kwargs: Any) -> Any:
        loss = original(*args, **kwargs)
        return loss._replace(loss=loss.loss * float("nan")) if next(calls) == 6 else loss

    monkeypatch.setattr(step, "label_smoothed_loss", poisoned)
    with pytest.raises(RunError) as caught:
        run_training(digits(), tmp_path / "run")
    message = str(caught.value)
    assert "step 6: the loss is nan" in message
    assert "pairs of up to" in message and "source and" in message
    assert "Lower training.learning_rate (the rate was 0.005)" in message
    assert progress_of(tmp_path / "run")["step"] == 4, "the last good checkpoint is kept"


def test_without_validation_the_last_weights_are_the_best(digits: Digits, tmp_path: Path) -> None:
    run_training(digits("data.validation=null"), tmp_path / "run")
    assert state_of(tmp_path / "run").best_step == "12"


def test_the_last_part_of_a_log_window_is_logged_before_its_validation(digits: Digits, tmp_path: Path) -> None:
    said = run_training(digits("training.max_steps=12", "training.log_every=5"), tmp_path / "run")
    assert [record["step"] for record in records_of(tmp_path / "run", "train")] == [5, 10, 12]
    lines = [line.split(",")[0] for line in said if line.startswith("Step ")]
    kinds = [re.sub(r"[\d.]+$", "N", line) for line in lines]
    validations = ["Step 6: validation BLEU N", "Step 12: validation BLEU N"]
    steps = ["Step 1: loss N", "Step 5: loss N"]
    assert kinds == [*steps, validations[0], "Step 10: loss N", "Step 12: loss N", validations[1]]


class Clock:
    """The trainer's clock, which each step advances, and each checkpoint, from a moment on by other times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, step: float, save: float = 0.0) -> None:
        self.now, original, save_last = 5000.0, step_module.TrainStep.__call__, trainer.save_last
        self.saved = list[int]()
        monkeypatch.setattr(trainer, "time", SimpleNamespace(monotonic=lambda: self.now))

        def make_step(*args: Any, **kwargs: Any) -> Any:
            self.now += step
            return original(*args, **kwargs)

        def note(training: Any) -> None:
            self.now += save
            self.saved.append(training.progress.step)
            save_last(training)

        monkeypatch.setattr(step_module.TrainStep, "__call__", make_step)
        monkeypatch.setattr(trainer, "save_last", note)


RARELY = ("training.log_every=1000", "training.save_every=1000", "training.validate_every=1000")


@pytest.mark.parametrize(
    "minutes, expected",
    [
        # 30 s after the last line, but 5 minutes from step 15 on; the last line is due anyway.
        ("5", [1, 3, 5, 7, 9, 11, 13, 28, 40]),
        ("null", [40]),
    ],
)
def test_a_line_is_due_by_time_and_leaves_no_record(
    digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minutes: str, expected: list[int]
) -> None:
    Clock(monkeypatch, step=20.1)
    settings = (*RARELY, "training.max_steps=40", f"training.log_every_minutes={minutes}")
    said = run_training(digits(*settings), tmp_path / "run")
    assert [int(step) for line in said for step in re.findall(r"Step (\d+): loss", line)] == expected
    assert [record["step"] for record in records_of(tmp_path / "run", "train")] == [40]


@pytest.mark.parametrize(
    "every, took, expected",
    [
        ("1000 10", 0.0, [3, 6, 9, 12, 14]),
        ("4 10", 0.0, [3, 4, 7, 8, 11, 12, 14]),
        ("1000 20", 0.0, [5, 10, 14]),
        ("7 null", 0.0, [7, 14]),
        ("1000 10", 60.0, [3, 8, 13, 14]),  # as a checkpoint takes a minute, each is 20 minutes after the last one
    ],
)
def test_a_checkpoint_is_due_by_time(
    digits: Digits,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    every: str,
    took: float,
    expected: list[int],
) -> None:
    """It is none of those that training.keep_last keeps. Each step takes four minutes."""
    clock, (steps, minutes) = Clock(monkeypatch, step=240.1, save=took), every.split()
    settings = [
        f"training.save_every={steps}",
        f"training.save_every_minutes={minutes}",
        "training.validate_every=1000",
    ]
    run_training(digits(*settings, "training.max_steps=14", "training.keep_last=2"), tmp_path / "run")
    assert clock.saved == expected
    assert RunDirectory(tmp_path / "run").kept_steps() == [14]


def test_whatever_is_due_by_time_changes_nothing(
    stateful: Digits, tmp_path: Path, straight: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after a step that only time has saved; checkpoints and lines at other steps than in the straight run."""
    config, run = stateful("training.log_every_minutes=1"), tmp_path / "run"
    clock = Clock(monkeypatch, step=310.0)
    stop_training(config, run, in_step=3, what=KeyboardInterrupt)
    assert clock.saved == [2]
    assert summarize_run(run).minutes > 0.0, "these steps have no log entry yet"
    run_training(config, run, resume=True)
    assert {8, 11} < {*clock.saved}
    assert state_of(run) == state_of(straight)


@pytest.mark.parametrize(
    "refusal, reason",
    [(torch.OutOfMemoryError(CUDA_MESSAGE), " (CUDA out of memory. Tried to allocate 20.00 MiB)"), (MemoryError(), "")],
)
def test_a_step_without_memory_names_the_batch_and_the_settings(
    digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: Exception, reason: str
) -> None:
    original, calls = step.label_smoothed_loss, itertools.count(1)

    def refused(*args: Any, **settings: Any) -> Any:
        if next(calls) == 6:
            raise refusal
        return original(*args, **settings)

    monkeypatch.setattr(step, "label_smoothed_loss", refused)
    with pytest.raises(RunError) as caught:
        run_training(digits("training.accumulate_batches=2"), tmp_path / "run")
    message = str(caught.value)
    sizes = r"\d+ pairs of up to \d+ source and \d+ target tokens"
    assert re.match(rf"step 4: out of memory on a step with {sizes}; {sizes}{re.escape(reason)}\. ", message)
    for named in ("training.batch_tokens (now 300)", "training.step_tokens=600", "data.max_source_tokens", "--resume"):
        assert named in message
    assert str(tmp_path / "run" / "checkpoints") in message


DIVERGING = ("training.schedule=noam", "training.learning_rate=100")


@pytest.mark.parametrize(
    "overrides, steps",
    [((), []), (DIVERGING, [6, 12]), ((*DIVERGING, "training.warmup_steps=10"), [12])],
    ids=["learns", "diverges", "in the warm-up it does not count"],
)
def test_whoever_is_worse_than_guessing_is_told(
    digits: Digits, tmp_path: Path, overrides: tuple[str, ...], steps: list[int]
) -> None:
    said = run_training(digits("training.max_steps=12", *overrides), tmp_path / "run")
    told = [line for line in said if "worse than guessing" in line]
    assert [re.findall(r"at step (\d+) is [\d,.]+, above 3.689", line) for line in told] == [
        [str(step)] for step in steps
    ]
    assert all("training.learning_rate (now 100)" in line and "max_gradient_norm" in line for line in told)
    assert said[-1].startswith("Next: translate eval")


@pytest.mark.parametrize(
    "metric, worst, words",
    [("loss", "nan", "not a number"), ("bleu", "nan", "not a number"), ("loss", "inf", "inf, above")],
)
def test_a_loss_that_is_not_finite_is_the_worst(
    digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metric: str, worst: str, words: str
) -> None:
    """The best checkpoint is a later one, also if the run is continued in between."""
    original = best_checkpoint.validate
    settings, loss = (f"training.best_metric={metric}", "training.warmup_steps=9"), float(worst)
    monkeypatch.setattr(best_checkpoint, "validate", lambda *args, **kw: original(*args, **kw)._replace(loss=loss))
    said = run_training(digits(*settings, "training.max_steps=6"), tmp_path / "run")
    assert sum(f"at step 6 is {words}" in line for line in said) == 1, "in the warm-up too"
    assert any(f"loss {worst}, ppl {'nan' if worst == 'nan' else '1e+304'}" in line for line in said)
    monkeypatch.setattr(best_checkpoint, "validate", original)
    said = run_training(digits(*settings), tmp_path / "run", resume=True)
    assert state_of(tmp_path / "run").best_step == "12"
    assert not any("worse than guessing" in line for line in said)
