"""Several processes train as one does: the same losses, scores and weights, whatever their number and engine."""

import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from harness import state_of
from trainings import assert_same_tensors

from translate.config.load import read_resolved_config


def assert_alike(one: Path, other: Path) -> None:
    """Two trainings went the same way, within rounding: losses, scores, weights, average and optimizer."""
    for record, expected in zip(state_of(one).metrics, state_of(other).metrics, strict=True):
        assert record == {
            name: pytest.approx(value, rel=1e-4) if isinstance(value, float) else value
            for name, value in expected.items()
        }
    assert_same_tensors(one, other)
    assert_same_tensors(one, other, which="best")


# One process splits a step into a micro-batch for each thread, several into one for each process: so masks of dropout
# agree. Of 2 x 2 micro-batches for 3 processes two have one more than the third; the last step of an epoch has only one
# batch.
@pytest.mark.parametrize(
    "size, overrides", [(2, ()), pytest.param(3, ("accumulate_batches=2",), marks=pytest.mark.slow)]
)
def test_as_one_process(trainings: Any, size: int, overrides: tuple[str, ...]) -> None:
    overrides = (*overrides, "keep_last=2", "average_kept=true")
    said = trainings.run(1, "one", *overrides, f"threads={size}")
    assert f"{size} micro-batches at once, each on 1 CPU thread" in said
    for kind in ("ddp", "fsdp"):
        said = trainings.run(size, kind, *overrides, f"parallel={kind}", "threads=1")
        assert f"in each of {size} processes ({kind})" in said
        assert_alike(trainings.directory / kind, trainings.directory / "one")
        assert {"average"} < {record["kind"] for record in state_of(trainings.directory / kind).metrics}


def test_lora_and_frozen_parts_as_one_process(trainings: Any) -> None:
    """Updates in the decoder alone, and their average; continued by another number of processes."""
    lora = ("lora_rank=3", "lora_targets=[query,key,value,output,feed_forward,embeddings]", "freeze=[encoder.0]")
    trainings.run(1, "one", *lora, "threads=2")
    for kind, resumed in (("ddp", 1), ("fsdp", 2)):
        said = trainings.run(2, kind, *lora, f"parallel={kind}", "threads=1", "max_steps=7")
        assert " parameters are trained" in said
        threads = 2 // resumed
        trainings.run(resumed, kind, *lora, f"parallel={kind}", f"threads={threads}", "max_steps=12", resume=True)
        assert_same_tensors(trainings.directory / kind, trainings.directory / "one")


def test_begins_with_the_weights_of_another_run(trainings: Any) -> None:
    trainings.run(1, "base", "max_steps=3", "threads=2")
    begin = (f"initialize_from={trainings.directory / 'base'}", "max_steps=4", "validate_every=2")
    trainings.run(1, "one", *begin, "threads=2")
    for kind in ("ddp", "fsdp"):
        said = trainings.run(2, kind, *begin, f"parallel={kind}", "threads=1")
        assert said.count("Starting from ") == 1
        assert_alike(trainings.directory / kind, trainings.directory / "one")
        assert state_of(trainings.directory / kind).metrics[0]["step"] == 0


def test_goes_on_with_another_number_of_processes(trainings: Any) -> None:
    trainings.run(1, "one", "threads=2")
    for size, kind, end in ((2, "ddp", 3), (1, "ddp", 5), (2, "fsdp", 8), (2, "ddp", 12)):
        threads = 2 if size == 1 else 1
        said = trainings.run(
            size, "other", f"parallel={kind}", f"threads={threads}", f"max_steps={end}", resume=end > 3
        )
        if end == 5:
            assert "Continued in another environment: processes 1 (it was 2 (ddp))" in said
    steps = [(record["kind"], record["step"]) for record in state_of(trainings.directory / "other").metrics]
    assert steps[-3:] == [("train", 12), ("validation", 12), ("evaluation", 12)]
    assert_same_tensors(trainings.directory / "other", trainings.directory / "one")


# In one process of two: at the end of a step, or in the midst of a validation.
_SIGNAL_IN_STEP = """
import os, signal
from translate.training import step
original = step.TrainStep.__call__
def with_signal(self, batches, *, number, learning_rate):
    if number == 7 and os.environ["RANK"] == "{rank}":
        os.kill(os.getpid(), signal.{signal})
    return original(self, batches, number=number, learning_rate=learning_rate)
step.TrainStep.__call__ = with_signal
"""
_SIGNAL_IN_VALIDATION = """
import os, signal
from translate.training import validation
original = validation.evaluate
def with_signal(*args, **kwargs):
    if os.environ["RANK"] == "{rank}":
        os.kill(os.getpid(), signal.{signal})
    return original(*args, **kwargs)
validation.evaluate = with_signal
"""


def test_a_signal_to_one_stops_all_after_the_same_step(trainings: Any) -> None:
    kind, size = "ddp", 3
    trainings.run(size, "straight", f"parallel={kind}")
    for rank, name, step, first in ((1, "SIGTERM", 5, _SIGNAL_IN_VALIDATION), (0, "SIGINT", 7, _SIGNAL_IN_STEP)):
        code = 128 + signal.Signals[name]
        ended = trainings.try_to(
            size, "stopped", f"parallel={kind}", resume=True, first=first.format(rank=rank, signal=name)
        )
        assert all(each.code in (code, -signal.SIGTERM) for each in ended), ended
        assert f"stopped by {name} after step {step}, and saved. Continue under torchrun with: " in ended[0].said
        assert [each.said for each in ended[1:]] == [""] * (size - 1)
    trainings.run(size, "stopped", f"parallel={kind}", resume=True)
    assert state_of(trainings.directory / "stopped") == state_of(trainings.directory / "straight")


# The second process always finds a checkpoint due by time, but only the first decides.
_SAVE_DUE = """
import os
from translate.training import trainer
due = [4, 6] if os.environ["RANK"] == "0" else [1, 2, 3, 5, 7]
trainer.Trainer._is_save_due = property(lambda self: self.progress.step in due)
save_last = trainer.save_last
def note(training):
    print("saved", training.progress.step)
    save_last(training)
trainer.save_last = note
"""


def test_the_first_process_decides_what_is_due_by_time(trainings: Any) -> None:
    settings = ("max_steps=7", "save_every=1000", "parallel=fsdp")
    trainings.run(2, "straight", *settings)
    ended = trainings.try_to(2, "run", *settings, first=_SAVE_DUE)
    for each in ended:
        assert [line for line in each.said.splitlines() if "saved" in line] == [
            "saved 4",
            "saved 5",
            "saved 6",
            "saved 7",
        ]
    assert state_of(trainings.directory / "run") == state_of(trainings.directory / "straight")


def test_fewer_validation_lines_than_processes(trainings: Any) -> None:
    for name, line in (("validation.in", "12"), ("validation.out", "21")):
        (trainings.directory / name).write_text(f"{line}\n", encoding="utf-8")
    trainings.run(1, "one", "threads=2", "max_steps=5")
    trainings.run(2, "two", "threads=1", "max_steps=5")
    assert_alike(trainings.directory / "two", trainings.directory / "one")


@pytest.mark.parametrize(
    "override, message",
    [
        ("warmup_step=3", "translate: unknown key training.warmup_step"),
        ("device=cuda:7", "translate: training.device = cuda:7: this machine has no such device"),
    ],
)
def test_errors_are_told_once(trainings: Any, override: str, message: str) -> None:
    ended = trainings.try_to(2, "run", override)
    assert all(each.code in (2, -signal.SIGTERM) for each in ended), ended
    assert ended[1].said == ""
    assert message in ended[0].said


def test_all_stop_where_the_check_finds_errors(trainings: Any) -> None:
    for side in ("in", "out"):
        shutil.copy(trainings.directory / f"train.{side}", trainings.directory / f"validation.{side}")
    ended = trainings.try_to(2, "run")
    assert all(each.code in (2, -signal.SIGTERM) for each in ended) and ended[1].said == ""
    assert ended[0].said.count("Not ready: fix 2 errors") == 1 and "data.validation: 811 of 811 pairs" in ended[0].said
    assert not (trainings.directory / "run" / "run.json").exists()


def test_other_data_in_one_of_them(trainings: Any) -> None:
    other = trainings.directory / "other"
    other.mkdir()
    for file in trainings.directory.glob("*.??*"):
        text = file.read_text(encoding="utf-8")
        (other / file.name).write_text(text.replace("1", "2") if file.name == "train.in" else text, encoding="utf-8")
    first = f"import os, sys\nif os.environ['RANK'] == '1': sys.argv[2] = {str(other / 'digits.yaml')!r}"
    ended = trainings.try_to(2, "run", first=first)
    assert ended[1].said == ""
    assert "process 2 of 2 differs from the first one: data.train (its checksum) = " in ended[0].said


_ONE_FAILS = """
import os
from translate.config import load
from translate.errors import RunError
from translate.training import best_checkpoint, state
original = {function}
def fails(*args, **settings):
    if os.environ["RANK"] == "{rank}":
        raise {error}
    return original(*args, **settings)
{function} = fails
"""


@pytest.mark.parametrize(
    "rank, function, error, words",
    [
        (1, "best_checkpoint.build_model", "MemoryError('no room')", "out of memory on the validation (no room)"),
        (0, "state.write_checkpoint", "RunError('the disk is full')", "the disk is full"),
        (1, "load.load_config", "RunError('the disk fails')", "the disk fails"),
    ],
    ids=["before a validation", "while it saves", "before it joins"],
)
def test_all_end_where_one_fails(trainings: Any, rank: int, function: str, error: str, words: str) -> None:
    first = _ONE_FAILS.format(rank=rank, function=function, error=error)
    ended = trainings.try_to(2, "run", "parallel=fsdp", first=first)
    assert words in ended[rank].said, ended
    assert "has ended or does not answer" not in ended[1 - rank].said, "it does not report what the other one reports"


def test_all_take_the_batch_size_that_is_found(trainings: Any, tmp_path: Path) -> None:
    """And the training is the one that the number gives."""
    short = ("max_steps=3", "validate_every=3", "accumulate_batches=1")
    said = trainings.run(2, "found", "batch_tokens=auto", "step_tokens=700", *short)
    assert said.count("training.batch_tokens = auto: 700 tokens, 1 batch per step") == 1
    trainings.run(2, "given", "batch_tokens=700", *short)
    weights = [(tmp_path / run / "checkpoints" / "best.safetensors").read_bytes() for run in ("found", "given")]
    assert weights[0] == weights[1]
    assert read_resolved_config(tmp_path / "found" / "config.yaml").training.batch_tokens == 700


def test_alone_it_never_touches_torch_distributed(trainings: Any) -> None:
    first = """
import torch.distributed
def refuse(*args, **kwargs):
    raise AssertionError("this is a training alone")
torch.distributed.init_process_group = torch.distributed.new_group = refuse
"""
    trainings.run(1, "run", "max_steps=2", first=first)
