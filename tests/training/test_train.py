"""Whole small trainings: the same code in validation and evaluation, how they stop, what they say if they cannot."""

import hashlib
import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from translate.config import Config
from translate.decoding import Translator
from translate.errors import InputError, RunError
from translate.evaluation.evaluate import evaluate
from translate.lint.check import log_findings
from translate.runs import RunDirectory, load_run, read_tensors
from translate.training import step, train, validation

Digits = Callable[..., Config]
RunTraining = Callable[..., list[str]]


def contents(run: Path, checkpoint: str) -> tuple[dict[str, str], dict[str, str]]:
    """Checksums of a checkpoint's tensors, and its metadata."""
    tensors, metadata, _ = read_tensors(RunDirectory(run).checkpoint(checkpoint))  # type: ignore[arg-type]
    return {name: hashlib.sha256(tensor.numpy().tobytes()).hexdigest() for name, tensor in tensors.items()}, metadata


def metrics(run: Path) -> list[dict[str, Any]]:
    records = [json.loads(line) for line in RunDirectory(run).metrics.read_text(encoding="utf-8").splitlines()]
    timed = {"seconds", "target_tokens_per_second", "waiting"}
    return [{key: value for key, value in record.items() if key not in timed} for record in records]


def test_validation_bleu_is_what_evaluation_gives(run_training: RunTraining, digits: Digits, tmp_path: Path) -> None:
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


def test_stops_after_max_epochs(run_training: RunTraining, digits: Digits, tmp_path: Path) -> None:
    run_training(digits("training.max_epochs=2", "training.max_steps=1000"), tmp_path / "run")
    progress = json.loads(contents(tmp_path / "run", "last")[1]["progress"])
    assert progress["epoch"] == 2 and 2 < progress["step"] < 1000
    assert progress["validated_step"] == progress["step"], "the last step is validated"


def test_stops_early_and_keeps_the_best(run_training: RunTraining, digits: Digits, tmp_path: Path) -> None:
    # At this rate nothing gets better after the first validation.
    unchanging = ("training.learning_rate=1e-9", "training.schedule=constant")
    stopping = ("training.max_steps=100", "training.validate_every=2", "training.patience=3")
    config = digits(*unchanging, *stopping)
    messages = run_training(config, tmp_path / "run")
    validations = [record["step"] for record in metrics(tmp_path / "run") if record["kind"] == "validation"]
    assert validations == [2, 4, 6, 8]
    assert contents(tmp_path / "run", "best")[1]["step"] == "2"
    assert "stopped early: 3 validations without a better bleu" in messages


def test_a_loss_that_is_not_finite_stops_with_the_mend(
    run_training: RunTraining, digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    assert contents(tmp_path / "run", "last")[1]["step"] == "4", "the last good checkpoint is kept"


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


def test_without_validation_the_last_weights_are_the_best(
    run_training: RunTraining, digits: Digits, tmp_path: Path
) -> None:
    run_training(digits("data.validation=null"), tmp_path / "run")
    assert contents(tmp_path / "run", "best")[1]["step"] == "12"


def test_bf16_trains(run_training: RunTraining, digits: Digits, tmp_path: Path) -> None:
    """An untrained model of these 40 tokens has a loss of ln 40 = 3.7; a hundred steps bring it far below."""
    run_training(
        digits("training.precision=bf16", "training.max_steps=100", "training.validate_every=100"), tmp_path / "run"
    )
    losses = [record["loss"] for record in metrics(tmp_path / "run") if record["kind"] == "train"]
    assert losses[0] > 3.7 and losses[-1] < 3.0


def test_the_last_part_of_a_log_window_is_logged(run_training: RunTraining, digits: Digits, tmp_path: Path) -> None:
    run_training(digits("training.max_steps=12", "training.log_every=5"), tmp_path / "run")
    assert [record["step"] for record in metrics(tmp_path / "run") if record["kind"] == "train"] == [5, 10, 12]


CUDA_MESSAGE = "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 139 GiB of which …"


@pytest.mark.parametrize(
    "refusal, reason",
    [
        (torch.OutOfMemoryError(CUDA_MESSAGE), " (CUDA out of memory. Tried to allocate 20.00 MiB)"),
        (MemoryError(), ""),
    ],
)
def test_a_step_without_memory_names_the_batch_and_the_settings(
    run_training: RunTraining,
    digits: Digits,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    refusal: Exception,
    reason: str,
) -> None:
    original, calls = step.label_smoothed_loss, itertools.count(1)

    def refused(*args: Any, **settings: Any) -> Any:
        if next(calls) == 6:
            raise refusal
        return original(*args, **settings)

    monkeypatch.setattr(step, "label_smoothed_loss", refused)
    with pytest.raises(RunError) as caught:
        run_training(digits("training.accumulate_batches=2"), tmp_path / "run")
    sizes = r"\d+ pairs of up to \d+ source and \d+ target tokens"
    told = re.sub(f"{sizes}; {sizes}", "TWO BATCHES", str(caught.value))
    assert told == (
        f"step 4: out of memory on a step with TWO BATCHES{reason}. Lower training.batch_tokens (now 300): with"
        " training.step_tokens=600 a step still sees as many tokens. Or lower data.max_source_tokens and"
        " data.max_target_tokens, or make the model smaller."
        " With other settings it is a new run; with more free memory this one goes on by --resume."
        f" Checkpoints written so far are kept in {tmp_path / 'run' / 'checkpoints'}."
    )


def test_another_error_in_a_step_is_not_taken_for_it(
    run_training: RunTraining, digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr(step, "label_smoothed_loss", broken)
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        run_training(digits(), tmp_path / "run")


def test_a_validation_without_memory_can_be_done_later(
    run_training: RunTraining, digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*args: Any, **kwargs: Any) -> Any:
        raise torch.OutOfMemoryError(CUDA_MESSAGE)

    with monkeypatch.context() as patch, pytest.raises(RunError) as caught:
        patch.setattr(validation, "evaluate", refused)
        run_training(digits("training.save_every=100"), tmp_path / "run")
    message = str(caught.value)
    assert message.startswith("out of memory on the validation (CUDA out of memory. Tried to allocate 20.00 MiB).")
    assert "Lower decoding.batch_tokens (now 8192) or decoding.beam_size (now 2), and go on with --resume." in message
    said = run_training(digits("decoding.beam_size=1"), tmp_path / "run", resume=True)
    assert "going on from step 6" in said


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
