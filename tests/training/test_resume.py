"""A training that was stopped anywhere, or whose files were damaged, ends as if nothing had happened."""

import contextlib
import itertools
import json
import os
import resource
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from translate.config import Config
from translate.errors import InputError, RunError
from translate.run import RunDirectory, read_tensors, write_checkpoint
from translate.training import StoppedBySignal, loop, train, validation
from translate.training.circumstances import describe_changes
from translate.training.metrics_log import MetricsLog, MetricsMark

Digits = Callable[..., Config]
StateOf = Callable[[Path], Any]

# Everything that has a state; and saving, logging, validating and epochs (of 3 steps) all out of step with each other.
ALL_STATEFUL = (
    "training.max_steps=14",
    "training.accumulate_batches=2",
    "training.ema_decay=0.9",
    "training.log_every=5",
    "training.validate_every=4",
    "training.save_every=3",
    "training.patience=50",
    "training.sample_translations=0",
    "tokenizer.subword_sampling=0.1",
    "model.attention_dropout=0.1",
    "model.activation_dropout=0.1",
)


def run_training(config: Config, directory: Path, *, resume: bool = False) -> list[str]:
    said: list[str] = []
    train(config, directory, resume=resume, command=["test"], say=said.append)
    return said


def progress_of(run: Path, which: Any = "last") -> dict[str, Any]:
    progress: dict[str, Any] = json.loads(read_tensors(RunDirectory(run).checkpoint(which)).metadata["progress"])
    return progress


@contextlib.contextmanager
def happening(
    monkeypatch: pytest.MonkeyPatch,
    *,
    in_step: int | None = None,
    in_validation: int | None = None,
    what: Callable[[], Any],
) -> Iterator[None]:
    """Within the context something happens in the step with that number, or in the validation after it."""
    original_step, original_validate = loop.train_step, loop.validate
    trainers: list[loop.Trainer] = []
    original_init = loop.Trainer.__init__

    def init(self: loop.Trainer, *args: Any, **kwargs: Any) -> None:
        original_init(self, *args, **kwargs)
        trainers.append(self)

    def step(*args: Any, **kwargs: Any) -> Any:
        result = original_step(*args, **kwargs)
        if trainers[-1].progress.step + 1 == in_step:
            what()
        return result

    def validate(*args: Any, **kwargs: Any) -> Any:
        if trainers[-1].progress.step == in_validation:
            what()
        return original_validate(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(loop.Trainer, "__init__", init)
        patch.setattr(loop, "train_step", step)
        patch.setattr(loop, "validate", validate)
        yield


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def terminate() -> None:
    signal.raise_signal(signal.SIGTERM)


def die() -> None:
    raise KeyboardInterrupt  # past the training's own handling: nothing is saved


@pytest.fixture
def straight(digits: Digits, tmp_path: Path) -> Path:
    run_training(digits(*ALL_STATEFUL), tmp_path / "straight")
    return tmp_path / "straight"


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_stopped_after_each_step_and_continued_is_never_stopped(
    digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state_of: StateOf, precision: str
) -> None:
    config = digits(*ALL_STATEFUL, f"training.precision={precision}")
    run_training(config, tmp_path / "straight")
    run = tmp_path / "stopped"
    for number in range(1, 15):
        torch.manual_seed(99)  # whatever happened in between
        with happening(monkeypatch, in_step=number, what=interrupt), pytest.raises(StoppedBySignal) as stop:
            run_training(config, run, resume=True)
        assert (stop.value.step, stop.value.exit_code) == (number, 130)
        progress = progress_of(run)
        assert progress["step"] == number
        assert progress["validated_step"] != number, "a stop does not wait for a validation"
    run_training(config, run, resume=True)
    assert state_of(run) == state_of(tmp_path / "straight")
    assert [record["step"] for record in state_of(run).metrics] == [4, 5, 8, 10, 12, 14, 14]


def test_the_comparison_sees_a_difference(digits: Digits, tmp_path: Path, straight: Path, state_of: StateOf) -> None:
    run_training(digits(*ALL_STATEFUL, "training.seed=2"), tmp_path / "other")
    one, other = state_of(straight), state_of(tmp_path / "other")
    for name in ("last", "best", "metrics"):
        assert getattr(one, name) != getattr(other, name)


def test_dying_between_checkpoints_computes_the_same_again(
    digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, straight: Path, state_of: StateOf
) -> None:
    config, run = digits(*ALL_STATEFUL), tmp_path / "died"
    for where, number in (("step", 2), ("step", 5), ("step", 6), ("validation", 8), ("step", 14), ("validation", 14)):
        torch.manual_seed(99)
        moment: dict[str, Any] = {f"in_{where}": number}
        with happening(monkeypatch, **moment, what=die), pytest.raises(KeyboardInterrupt):
            run_training(config, run, resume=True)
        if where == "validation":
            assert progress_of(run)["step"] == number, "all is saved before a validation"
    run_training(config, run, resume=True)
    assert state_of(run) == state_of(straight)


def test_a_stopped_validation_comes_first_when_the_run_goes_on(
    digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, straight: Path, state_of: StateOf
) -> None:
    config, run = digits(*ALL_STATEFUL), tmp_path / "stopped"
    for number, stopping, code in (
        (4, terminate, 143),
        (4, interrupt, 130),
        (12, interrupt, 130),
        (14, terminate, 143),
    ):
        with happening(monkeypatch, in_validation=number, what=stopping), pytest.raises(StoppedBySignal) as stop:
            run_training(config, run, resume=True)
        assert (stop.value.step, stop.value.exit_code) == (number, code)
        progress = progress_of(run)
        assert progress["step"] == number and progress["validated_step"] != number
        records = [json.loads(line) for line in RunDirectory(run).metrics.read_text(encoding="utf-8").splitlines()]
        assert number not in [record["step"] for record in records if record["kind"] == "validation"]
    run_training(config, run, resume=True)
    assert state_of(run) == state_of(straight)


def test_a_validation_by_several_threads_is_left_at_once(
    digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, straight: Path, state_of: StateOf
) -> None:
    original = validation.evaluate
    rounds = itertools.count()

    def endless(*args: Any, **kwargs: Any) -> Any:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
        for _ in rounds:
            original(*args, **kwargs)

    config = digits(*ALL_STATEFUL, "decoding.workers=2")
    threads = threading.active_count()
    with monkeypatch.context() as patch, pytest.raises(StoppedBySignal) as stop:
        patch.setattr(validation, "evaluate", endless)
        run_training(config, tmp_path / "run")
    assert (stop.value.step, stop.value.exit_code) == (4, 143)
    assert next(rounds) > 0 and threading.active_count() == threads, "no worker is left behind"
    run_training(config, tmp_path / "run", resume=True)
    assert state_of(tmp_path / "run") == state_of(straight)


def test_handlers_are_only_there_while_it_trains(
    digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look() -> None:
        during.extend(signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM))

    during: list[Any] = []
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with happening(monkeypatch, in_step=1, what=look):
        run_training(digits("training.max_steps=1"), tmp_path / "run")
    assert not set(during) & set(before)
    with happening(monkeypatch, in_step=1, what=interrupt), pytest.raises(StoppedBySignal):
        run_training(digits(), tmp_path / "stopped")
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_trains_in_another_thread(digits: Digits, tmp_path: Path) -> None:
    config = digits("training.max_steps=2")
    thread = threading.Thread(target=run_training, args=(config, tmp_path / "run"))
    thread.start()
    thread.join()
    assert progress_of(tmp_path / "run")["step"] == 2


# What --resume finds


def test_resume_begins_where_nothing_is_begun(
    digits: Digits, tmp_path: Path, straight: Path, state_of: StateOf
) -> None:
    config = digits(*ALL_STATEFUL)
    (tmp_path / "empty").mkdir()
    # Killed while it wrote the run's first files.
    shutil.copytree(straight, tmp_path / "half", ignore=shutil.ignore_patterns("checkpoints", "run.json", "*.jsonl"))
    (tmp_path / "half" / "checkpoints").mkdir()
    (tmp_path / "half" / "run.json.123456.tmp").write_text("{", encoding="utf-8")
    for name in ("nothing", "empty", "half"):
        said = run_training(config, tmp_path / name, resume=True)
        assert f"{tmp_path / name} holds no run to go on with: beginning one" in said
        assert state_of(tmp_path / name) == state_of(straight)


def test_resume_before_the_first_checkpoint(
    digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, straight: Path, state_of: StateOf
) -> None:
    config, run = digits(*ALL_STATEFUL), tmp_path / "run"
    with happening(monkeypatch, in_step=1, what=die), pytest.raises(KeyboardInterrupt):
        run_training(config, run)
    assert not any(RunDirectory(run).checkpoints.iterdir())
    said = run_training(config, run, resume=True)
    assert f"{run} has no checkpoint yet: its training begins at the first step" in said
    assert state_of(run) == state_of(straight)


def test_checkpoints_without_a_run_are_not_overwritten(digits: Digits, tmp_path: Path, straight: Path) -> None:
    (straight / "run.json").unlink()
    with pytest.raises(InputError) as caught:
        run_training(digits(*ALL_STATEFUL), straight, resume=True)
    assert str(caught.value) == (
        f"{straight} is an incomplete run: it has checkpoints/best.safetensors but no run.json. Copy the whole run, or"
        " choose another directory with --run"
    )


def test_a_moved_run_goes_on(
    digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, straight: Path, state_of: StateOf
) -> None:
    config = digits(*ALL_STATEFUL)
    with happening(monkeypatch, in_step=9, what=interrupt), pytest.raises(StoppedBySignal):
        run_training(config, tmp_path / "here")
    (tmp_path / "far").mkdir()
    (tmp_path / "here").rename(tmp_path / "far" / "away")
    said = run_training(config, tmp_path / "far" / "away", resume=True)
    assert "going on from step 9" in said
    assert state_of(tmp_path / "far" / "away") == state_of(straight)
    assert not (tmp_path / "here").exists()


def flip_a_bit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(content)


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size * 2 // 3)


@pytest.mark.parametrize("damage", [flip_a_bit, cut])
def test_a_damaged_checkpoint_is_passed_over(
    digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, straight: Path, state_of: StateOf, damage: Any
) -> None:
    config, run = digits(*ALL_STATEFUL), tmp_path / "run"
    with happening(monkeypatch, in_step=11, what=interrupt), pytest.raises(StoppedBySignal):
        run_training(config, run)
    last, previous = RunDirectory(run).checkpoint("last"), RunDirectory(run).previous
    sound = previous.read_bytes()
    damage(last)
    # Dying before the next checkpoint leaves the sound one where it is.
    with happening(monkeypatch, in_step=10, what=die), pytest.raises(KeyboardInterrupt):
        run_training(config, run, resume=True)
    assert previous.read_bytes() == sound
    said = run_training(config, run, resume=True)
    (damaged,) = [line for line in said if str(last) in line]
    assert "damaged" in damaged or "checksum" in damaged, damaged
    assert "so the run goes on from previous.safetensors, of step 9" in said
    assert "going on from step 9" in said
    assert state_of(run) == state_of(straight)


def test_damage_everywhere_is_refused_with_each_reason(digits: Digits, straight: Path) -> None:
    run = RunDirectory(straight)
    flip_a_bit(run.checkpoint("last"))
    cut(run.previous)
    before = run.config.read_bytes(), run.metrics.read_bytes()
    with pytest.raises(RunError) as caught:
        run_training(digits(*ALL_STATEFUL, "training.max_steps=20"), straight, resume=True)
    message = str(caught.value)
    assert "no sound checkpoint to go on from" in message
    assert str(run.checkpoint("last")) in message and str(run.previous) in message
    assert (run.config.read_bytes(), run.metrics.read_bytes()) == before


@pytest.mark.parametrize("damage", [flip_a_bit, Path.unlink])
def test_a_lost_best_checkpoint_is_replaced_by_the_next(digits: Digits, straight: Path, damage: Any) -> None:
    best = RunDirectory(straight).checkpoint("best")
    lost = progress_of(straight)["best_step"]
    damage(best)
    said = run_training(digits(*ALL_STATEFUL, "training.max_steps=16"), straight, resume=True)
    (remark,) = [line for line in said if str(best) in line]
    assert f"The best weights so far, of step {lost}, are lost: those of the next validation take their place" in remark
    assert read_tensors(best).metadata["step"] == "16"
    assert progress_of(straight)["best_step"] == 16


def test_state_that_is_incomplete_is_refused_by_name(digits: Digits, straight: Path) -> None:
    run = RunDirectory(straight)
    tensors, metadata = read_tensors(run.checkpoint("last"))

    def refused(**changes: Any) -> str:
        changed = {name: changes.get(name, tensor) for name, tensor in tensors.items()}
        write_checkpoint(run, "last", {name: x for name, x in changed.items() if x is not None}, metadata)
        with pytest.raises(RunError) as caught:
            run_training(digits(*ALL_STATEFUL), straight, resume=True)
        return str(caught.value)

    norm = next(name.removeprefix("average.") for name in tensors if name.startswith("average.") and "norm" in name)
    assert f"missing: {norm}" in refused(**{f"average.{norm}": None})
    assert f"{norm} is (1,), the model's (16,)" in refused(**{f"average.{norm}": torch.zeros(1)})
    assert f"missing: {norm}/step" in refused(**{f"optimizer.{norm}/step": None})
    assert f"missing: {norm}" in refused(**{f"model.{norm}": None})
    assert "has no state of the random generator" in refused(**{"random.cpu": None})


# Metrics


def test_metrics_are_cut_to_what_the_checkpoint_vouches_for(
    digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, straight: Path, state_of: StateOf
) -> None:
    config, run = digits(*ALL_STATEFUL), tmp_path / "run"
    with happening(monkeypatch, in_step=9, what=interrupt), pytest.raises(StoppedBySignal):
        run_training(config, run)
    file = RunDirectory(run).metrics
    vouched = file.read_bytes()
    assert progress_of(run)["metrics_bytes"] == len(vouched)
    # Lines of the very step of the checkpoint, which a look at steps would keep; and half a line.
    file.write_bytes(vouched + b'{"kind": "train", "step": 9}\n{"kind": "valida')
    said = run_training(config, run, resume=True)
    assert file.read_bytes().startswith(vouched) and not any(str(file) in line for line in said)
    assert state_of(run) == state_of(straight)


def test_changed_metrics_are_kept_by_step_and_said(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    lines = [json.dumps({"kind": "train", "step": step}) + "\n" for step in (5, 10, 15)]
    said: list[str] = []
    for text in ("".join(lines), "".join(lines) + '{"kind": "tr'):
        file.write_text(text, encoding="utf-8")
        # Of a checkpoint of version 0.1.0, which has no mark, by step too, and nothing is to be said.
        MetricsLog(file, first_step=10, mark=None, say=said.append).close()
        assert file.read_text(encoding="utf-8") == lines[0] + lines[1] and not said
    file.write_text("".join(lines), encoding="utf-8")
    MetricsLog(file, first_step=10, mark=MetricsMark(30, "0" * 64), say=said.append).close()
    assert file.read_text(encoding="utf-8") == lines[0] + lines[1]
    assert said == [f"{file} is not as it was when the checkpoint was written: its lines up to step 10 stay"]


def test_metrics_that_cannot_be_written_are_told_once(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    log = MetricsLog(file, first_step=0, mark=None)
    log.append({"kind": "train", "step": 1})
    before, mark = file.read_bytes(), log.sync()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 5, hard))  # for this one write alone
    try:
        with pytest.raises(RunError) as caught:
            log.append({"kind": "train", "step": 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    log.close()
    assert str(caught.value) == f"{file}: cannot be written: File too large; free some space on that disk"
    assert file.read_bytes() != before, "a part of the line was written"
    continued = MetricsLog(file, first_step=1, mark=mark)
    assert file.read_bytes() == before and continued.sync() == mark
    continued.close()


def test_a_finished_run_is_not_changed_by_resuming_it(digits: Digits, straight: Path, state_of: StateOf) -> None:
    before = state_of(straight)
    said = run_training(digits(*ALL_STATEFUL), straight, resume=True)
    assert "going on from step 14" in said
    assert state_of(straight) == before


def test_a_run_that_goes_further_is_one_that_was_never_shorter(
    digits: Digits, tmp_path: Path, state_of: StateOf
) -> None:
    """At step 8 both validate; at step 9 one had ended, with a log entry of half a window that is taken back."""
    run_training(digits(*ALL_STATEFUL, "training.max_steps=8"), tmp_path / "run")
    assert [record["step"] for record in state_of(tmp_path / "run").metrics] == [4, 5, 8, 8]
    run_training(digits(*ALL_STATEFUL), tmp_path / "run", resume=True)
    run_training(digits(*ALL_STATEFUL), tmp_path / "straight")
    assert state_of(tmp_path / "run") == state_of(tmp_path / "straight")


# Patience and epochs


def test_patience_that_ran_out_at_the_stop(
    digits: Digits,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    state_of: StateOf,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # At this rate nothing gets better after the first validation.
    unchanging = ("training.learning_rate=1e-9", "training.validate_every=2", "training.patience=2")
    config = digits(*ALL_STATEFUL, *unchanging)
    run_training(config, tmp_path / "straight")
    assert progress_of(tmp_path / "straight")["step"] == 6
    for stop in ({"in_step": 6}, {"in_validation": 6}):
        with happening(monkeypatch, **stop, what=interrupt), pytest.raises(StoppedBySignal):  # type: ignore[arg-type]
            run_training(config, tmp_path / "run", resume=True)
    capsys.readouterr()
    run_training(config, tmp_path / "run", resume=True)
    run_training(config, tmp_path / "run", resume=True)  # and now it is at its end
    assert capsys.readouterr().err.count("stopped early: 2 validations without a better bleu") == 2
    assert state_of(tmp_path / "run") == state_of(tmp_path / "straight")


def test_stopped_at_the_end_of_the_last_epoch(
    digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state_of: StateOf
) -> None:
    config = digits(*ALL_STATEFUL, "training.max_epochs=2")
    run_training(config, tmp_path / "straight")
    assert progress_of(tmp_path / "straight")["step"] == 6
    for number in (3, 6):
        with happening(monkeypatch, in_step=number, what=interrupt), pytest.raises(StoppedBySignal):
            run_training(config, tmp_path / "run", resume=True)
    run_training(config, tmp_path / "run", resume=True)
    assert state_of(tmp_path / "run") == state_of(tmp_path / "straight")


# What is not as it was


def test_other_circumstances_are_said(digits: Digits, straight: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    said = run_training(digits(*ALL_STATEFUL, "training.max_steps=15"), straight, resume=True)
    (line,) = [line for line in said if "continued under other circumstances" in line]
    assert line.startswith("continued under other circumstances: CPU threads 7 (it was ")
    assert line.endswith("its numbers are not bit for bit those of a run that was never stopped")
    assert progress_of(straight)["circumstances"]["CPU threads"] == "7"


def test_changes_are_described() -> None:
    before = {"torch": "2.8.0", "device": "cpu (AVX2)", "CPU threads": "2"}
    assert describe_changes(before, before) is None
    assert describe_changes({}, before) is None, "a checkpoint of version 0.1.0 does not say them"
    described = describe_changes(before, {"torch": "2.9.0", "device": "cuda (H200)"})
    assert described is not None
    assert "torch 2.9.0 (it was 2.8.0), device cuda (H200) (it was cpu (AVX2))" in described


# Locks and lost directories


def test_a_second_training_in_the_directory_is_refused(
    digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train_there_too() -> None:
        for resume in (True, False):
            with pytest.raises(InputError) as caught:
                run_training(digits(), tmp_path / "run", resume=resume)
            messages.append(str(caught.value))

    messages: list[str] = []
    with happening(monkeypatch, in_step=2, what=train_there_too):
        run_training(digits("training.max_steps=3"), tmp_path / "run")
    assert f"process {os.getpid()}" in messages[0] and "is training in this run directory" in messages[0]
    assert "already holds a run" in messages[1]
    run_training(digits("training.max_steps=4"), tmp_path / "run", resume=True)  # the lock is free again


def test_a_run_directory_that_vanishes(digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    with happening(monkeypatch, in_step=2, what=lambda: shutil.rmtree(run)), pytest.raises(RunError) as caught:
        run_training(digits(), run)
    message = str(caught.value)
    assert str(RunDirectory(run).checkpoint("last")) in message and "its directory is gone" in message
    assert not run.exists()
