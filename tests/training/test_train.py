"""Whole small trainings: exact resume, the same code in validation and evaluation, and how they stop."""

import hashlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open

from translate.config import Config
from translate.decoding import Translator
from translate.errors import InputError, RunError
from translate.evaluation import evaluate
from translate.run import RunDirectory, load_run, read_tensors
from translate.training import loop, step, train

Digits = Callable[..., Config]

# Everything that has a state, and a log entry every few steps in the middle of others' intervals.
ALL_STATEFUL = (
    "training.max_steps=14",
    "training.accumulate_batches=2",
    "training.ema_decay=0.9",
    "training.log_every=3",
    "training.patience=50",
    "tokenizer.subword_sampling=0.1",
    "model.attention_dropout=0.1",
    "model.activation_dropout=0.1",
)


def run_training(config: Config, directory: Path, *, resume: bool = False) -> list[str]:
    said: list[str] = []
    train(config, directory, resume=resume, command=["test"], say=said.append)
    return said


def contents(run: Path, checkpoint: str) -> tuple[dict[str, str], dict[str, str]]:
    """Checksums of a checkpoint's tensors, and its metadata."""
    with safe_open(RunDirectory(run).checkpoint(checkpoint), framework="pt") as file:  # type: ignore[arg-type]
        tensors = {name: file.get_tensor(name).numpy().tobytes() for name in file.keys()}  # noqa: SIM118
        return {name: hashlib.sha256(data).hexdigest() for name, data in tensors.items()}, file.metadata()


def metrics(run: Path) -> list[dict[str, Any]]:
    records = [json.loads(line) for line in RunDirectory(run).metrics.read_text(encoding="utf-8").splitlines()]
    timed = {"seconds", "target_tokens_per_second"}
    return [{key: value for key, value in record.items() if key not in timed} for record in records]


def assert_same_run(one: Path, other: Path) -> None:
    assert contents(one, "last") == contents(other, "last")
    assert contents(one, "best") == contents(other, "best")
    assert metrics(one) == metrics(other)


@pytest.mark.parametrize("stop_at", [2, 5, 9, 13])
def test_stopped_and_continued_is_never_stopped(
    digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_at: int
) -> None:
    config = digits(*ALL_STATEFUL)
    run_training(config, tmp_path / "straight")
    original = loop.Trainer._train_step

    def interrupted(self: loop.Trainer, group: Any) -> Any:
        if self.progress.step == stop_at:
            raise KeyboardInterrupt
        return original(self, group)

    monkeypatch.setattr(loop.Trainer, "_train_step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_training(config, tmp_path / "stopped")
    monkeypatch.setattr(loop.Trainer, "_train_step", original)
    torch.manual_seed(99)  # whatever happened in between
    said = run_training(config, tmp_path / "stopped", resume=True)
    assert stop_at < 4 or any(line.startswith("going on from step") for line in said)
    assert_same_run(tmp_path / "straight", tmp_path / "stopped")


def test_the_comparison_sees_a_difference(digits: Digits, tmp_path: Path) -> None:
    run_training(digits(*ALL_STATEFUL), tmp_path / "one")
    run_training(digits(*ALL_STATEFUL, "training.seed=2"), tmp_path / "two")
    with pytest.raises(AssertionError):
        assert_same_run(tmp_path / "one", tmp_path / "two")


def test_killed_process_goes_on_exactly(digits: Digits, tmp_path: Path) -> None:
    overrides = (*ALL_STATEFUL, "training.max_steps=40", "training.threads=1", "training.save_every=2")
    digits()

    def command(run: str, *more: str) -> list[str]:
        config = str(tmp_path / "digits.yaml")
        return [sys.executable, "-m", "translate", "train", config, *overrides, "--run", str(tmp_path / run), *more]

    def start(run: str, *more: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(command(run, *more), stderr=subprocess.DEVNULL)

    assert start("straight").wait() == 0
    process = start("killed")
    last = RunDirectory(tmp_path / "killed").checkpoint("last")
    while not last.exists():
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.005)
    time.sleep(0.1)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert start("killed", "--resume").wait() == 0
    assert_same_run(tmp_path / "straight", tmp_path / "killed")


def test_validation_bleu_is_what_evaluation_gives(digits: Digits, tmp_path: Path) -> None:
    config = digits("training.max_steps=60", "training.validate_every=60", "training.ema_decay=0.9")
    run_training(config, tmp_path / "run")
    logged = next(record for record in metrics(tmp_path / "run") if record["kind"] == "validation")
    loaded = load_run(tmp_path / "run")
    corpus = config.data.validation
    assert corpus is not None and corpus.kind == "text"
    sources, references = (path.read_text(encoding="utf-8").splitlines() for path in (corpus.source, corpus.target))
    translator = Translator(loaded.model, loaded.tokenizers, loaded.config.decoding)
    evaluation = evaluate(translator, sources, references, loaded.config.evaluation)
    for name in ("BLEU", "BLEU-lc", "chrF"):
        assert logged[name] == evaluation.score(name)
    assert loaded.step == logged["step"] == 60


def test_accumulated_gradient_is_the_gradient_of_the_whole_batch(digits: Digits, tmp_path: Path) -> None:
    """The same pairs in many batches or in one: Adam's first moment after a step, a tenth of the gradient, agrees."""
    moments = {}
    for name, overrides in {
        "whole": ("training.batch_tokens=100000", "training.accumulate_batches=1"),
        "parts": ("training.batch_tokens=60", "training.accumulate_batches=1000"),
    }.items():
        run_training(digits("model.dropout=0", "training.max_steps=1", *overrides), tmp_path / name)
        tensors, _ = read_tensors(RunDirectory(tmp_path / name).checkpoint("last"))
        moments[name] = {key: tensor for key, tensor in tensors.items() if key.endswith("exp_avg")}
    assert len(moments["whole"]) > 20
    assert any(float(tensor.abs().max()) > 1e-3 for tensor in moments["whole"].values())
    for key, tensor in moments["whole"].items():
        torch.testing.assert_close(tensor, moments["parts"][key], atol=1e-7, rtol=1e-4)


def test_stops_after_max_epochs(digits: Digits, tmp_path: Path) -> None:
    run_training(digits("training.max_epochs=2", "training.max_steps=1000"), tmp_path / "run")
    progress = json.loads(contents(tmp_path / "run", "last")[1]["progress"])
    assert progress["epoch"] == 2 and 2 < progress["step"] < 1000
    assert progress["validated_step"] == progress["step"], "the last step is validated"


def test_stops_early_and_keeps_the_best(digits: Digits, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # At this rate nothing gets better after the first validation.
    unchanging = ("training.learning_rate=1e-9", "training.schedule=constant")
    stopping = ("training.max_steps=100", "training.validate_every=2", "training.patience=3")
    config = digits(*unchanging, *stopping)
    run_training(config, tmp_path / "run")
    validations = [record["step"] for record in metrics(tmp_path / "run") if record["kind"] == "validation"]
    assert validations == [2, 4, 6, 8]
    assert contents(tmp_path / "run", "best")[1]["step"] == "2"
    assert "stopped early: 3 validations without a better bleu" in capsys.readouterr().err


def test_a_loss_that_is_not_finite_stops_with_the_mend(
    digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = step.batch_loss
    calls = itertools.count(1)

    def poisoned(*args: Any, **kwargs: Any) -> Any:
        loss = original(*args, **kwargs)
        return loss._replace(nats=loss.nats * float("nan")) if next(calls) == 6 else loss

    monkeypatch.setattr(step, "batch_loss", poisoned)
    with pytest.raises(RunError) as caught:
        run_training(digits(), tmp_path / "run")
    message = str(caught.value)
    assert "step 6: the loss is nan" in message
    assert "pairs of up to" in message and "source and" in message
    assert "Lower training.learning_rate (the rate was 0.005)" in message
    assert contents(tmp_path / "run", "last")[1]["step"] == "4", "the last good checkpoint is kept"


def test_refuses_to_overwrite_a_run(digits: Digits, tmp_path: Path) -> None:
    run_training(digits("training.max_steps=1"), tmp_path / "run")
    with pytest.raises(InputError, match="already holds a run: continue it with --resume"):
        run_training(digits(), tmp_path / "run")


def test_refuses_to_resume_with_other_settings_or_data(digits: Digits, tmp_path: Path) -> None:
    run_training(digits("training.max_steps=2"), tmp_path / "run")
    with pytest.raises(InputError, match=r"model\.d_model = 32 \(the run has 16\)"):
        run_training(digits("model.d_model=32"), tmp_path / "run", resume=True)
    (tmp_path / "train.out").write_text("1 2 3\n" * 211, encoding="utf-8")
    with pytest.raises(InputError, match=r"data\.train is not what this run was trained on"):
        run_training(digits("training.max_steps=4"), tmp_path / "run", resume=True)


def test_resume_can_go_further(digits: Digits, tmp_path: Path) -> None:
    run_training(digits("training.max_steps=6"), tmp_path / "short")
    run_training(digits("training.max_steps=12"), tmp_path / "short", resume=True)
    run_training(digits("training.max_steps=12"), tmp_path / "long")
    assert contents(tmp_path / "short", "last")[0] == contents(tmp_path / "long", "last")[0]
    kept = RunDirectory(tmp_path / "short").config.read_text(encoding="utf-8")
    assert kept == RunDirectory(tmp_path / "long").config.read_text(encoding="utf-8")


def test_going_further_says_that_the_schedule_stretches(digits: Digits, tmp_path: Path) -> None:
    run_training(digits("training.schedule=cosine", "training.max_steps=4"), tmp_path / "run")
    said = run_training(digits("training.schedule=cosine", "training.max_steps=8"), tmp_path / "run", resume=True)
    assert "training.max_steps is now 8, and the cosine schedule ends there" in said


def test_resuming_a_finished_run_changes_nothing(digits: Digits, tmp_path: Path) -> None:
    run_training(digits(), tmp_path / "run")
    before = contents(tmp_path / "run", "last")
    run_training(digits(), tmp_path / "run", resume=True)
    assert contents(tmp_path / "run", "last") == before


def test_bad_data_is_told_before_any_work(digits: Digits, tmp_path: Path) -> None:
    with (tmp_path / "validation.out").open("a", encoding="utf-8") as file:
        file.write("one line too many\n")
    with pytest.raises(InputError, match=r"data\.validation: .*has 23 lines and .*has 24"):
        run_training(digits(), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_run_says_what_it_is(digits: Digits, tmp_path: Path) -> None:
    said = run_training(digits("training.max_steps=1"), tmp_path / "run")
    assert any("211 of 211 pairs kept" in line for line in said)
    description = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))
    assert description["command"] == ["test"]
    assert {"translate", "python", "torch", "sentencepiece", "sacrebleu"} == set(description["versions"])


def test_tensorboard_events_are_written(digits: Digits, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    run_training(digits("training.tensorboard=true", "training.max_steps=5"), tmp_path / "run")
    assert list((tmp_path / "run" / "tensorboard").glob("events.out.tfevents.*"))


def test_without_validation_the_last_weights_are_the_best(digits: Digits, tmp_path: Path) -> None:
    run_training(digits("data.validation=null"), tmp_path / "run")
    assert contents(tmp_path / "run", "best")[1]["step"] == "12"


def test_bf16_trains_and_resumes_exactly(digits: Digits, tmp_path: Path) -> None:
    bf16 = ("training.precision=bf16", "training.max_steps=8")
    run_training(digits(*bf16), tmp_path / "straight")
    run_training(digits(*bf16, "training.max_steps=4"), tmp_path / "stopped")
    run_training(digits(*bf16), tmp_path / "stopped", resume=True)
    assert contents(tmp_path / "straight", "last")[0] == contents(tmp_path / "stopped", "last")[0]
    first = next(record for record in metrics(tmp_path / "straight") if record["kind"] == "train")
    assert first["loss"] < 6.0
