"""Whole small trainings: what they refuse and log, and a run directory that is half made, moved, lost, or in use."""

import contextlib
import io
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import state_of
from trainings import Digits, run_training, stop_training

import translate
from translate.config.load import load_config
from translate.data.tokenizer import load_tokenizers
from translate.errors import InputError, RunError
from translate.lint.check import log_findings
from translate.runs.checkpoint import read_tensors
from translate.runs.directory import RunDirectory, create_run
from translate.runs.lock import lock_run
from translate.runs.verify import verify_run
from translate.training import train


def test_accumulated_gradient_is_the_gradient_of_the_whole_batch(digits: Digits, tmp_path: Path) -> None:
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


def test_the_log_has_all_that_was_said_and_goes_on(digits: Digits, tmp_path: Path) -> None:
    def lines() -> list[str]:
        text = RunDirectory(tmp_path / "run").log.read_text(encoding="utf-8")
        return [line.split(" ", 1)[1] for line in text.splitlines()]

    config = digits("training.max_steps=8")
    stop_training(config, tmp_path / "run", in_step=5)
    begun = lines()
    assert begun[0] == f"translate {translate.__version__}: test"
    assert begun[1].startswith("Tokenizer ")
    assert begun[-3].startswith("Step 5: loss ")
    assert begun[-2:] == [
        "Stopping after step 5 (SIGINT); press Ctrl-C again to quit at once",
        "translate: stopped by SIGINT after step 5",
    ]
    said = run_training(config, tmp_path / "run", resume=True)
    assert lines() == [*begun, begun[0], *"\n".join(said).split("\n")]
    assert any(line.startswith("  translation: ") for line in lines()[len(begun) :])
    assert not verify_run(tmp_path / "run").unsound


def test_a_refused_training_writes_into_no_run(digits: Digits, tmp_path: Path) -> None:
    run_training(digits("training.max_steps=1"), tmp_path / "run")
    log = RunDirectory(tmp_path / "run").log
    before = log.read_bytes()
    with pytest.raises(InputError, match="already holds a run"):
        run_training(digits(), tmp_path / "run")
    with pytest.raises(InputError, match=r"was started with other settings.*model\.d_model = 32 \(the run has 16\)"):
        run_training(digits("model.d_model=32"), tmp_path / "run", resume=True)
    saved = tmp_path / "run" / "config.yaml"
    saved.write_text(saved.read_text().replace("batch_tokens: 300", "batch_tokens: 200"))
    with pytest.raises(RunError, match=r"config\.yaml: damaged: .*if you edited it"):
        run_training(load_config(str(tmp_path / "run")).config, tmp_path / "run", resume=True)
    assert log.read_bytes() == before


def test_logs_findings_before_the_first_step(digits: Digits, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def run(*, resume: bool = False) -> list[str]:
        caplog.clear()
        config = digits("training.max_steps=4", "training.warmup_steps=9")
        train(config, tmp_path / "run", resume=resume, command=["test"], inspect=log_findings)
        return caplog.messages

    caplog.set_level("INFO", "translate")
    messages = run()
    (warning,) = [line for line in messages if line.startswith("  warning  training.warmup_steps")]
    assert "training.warmup_steps = 9 is not less than training.max_steps = 4" in warning
    assert any(line.endswith("`translate check` with the same config shows the notes") for line in messages)
    assert not any(line.startswith("  note     ") for line in messages)
    assert not any("warmup_steps" in line for line in run(resume=True)), "it was logged at the run's beginning"


class Killed(BaseException):
    """As a process is killed: nothing is cleaned up after it."""


@contextlib.contextmanager
def killed_after(num_operations: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Within the context so many operations on files are done, and no more."""
    left = [num_operations]

    def until_killed(operation: Callable[..., Any]) -> Callable[..., Any]:
        def operate(*args: Any, **kwargs: Any) -> Any:
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            return operation(*args, **kwargs)

        return operate

    with monkeypatch.context() as patch:
        for module, names in ((os, ("mkdir", "open", "replace", "unlink")), (io, ("open",))):
            for name in names:
                patch.setattr(module, name, until_killed(getattr(module, name)))
        yield


@pytest.mark.usefixtures("no_shape_checks")
def test_killed_anywhere_while_the_run_is_made(digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory without a description is not a run, so a new one begins; a run with it is complete, and continues.

    A training follows where the most is half made, where the run is complete, and after every fifth operation.
    """
    config = digits("training.max_steps=1", "data.validation=null")
    run_training(config, tmp_path / "straight")
    tokenizers = load_tokenizers(tmp_path / "straight" / "tokenizer")
    was_begun, killed = [], list[Path]()
    for num_operations in itertools.count():
        run = tmp_path / f"killed after {num_operations}"
        try:
            with lock_run(run), killed_after(num_operations, monkeypatch):
                create_run(run, config=config, tokenizers=tokenizers, command=["test"])
            break
        except Killed:
            pass
        was_begun.append((run / "run.json").exists())
        killed.append(run)
    num_half_made = was_begun.count(False)
    assert was_begun == sorted(was_begun) and num_half_made > 10 and was_begun[-1]
    for number in sorted({*range(0, len(killed), 5), num_half_made - 1, num_half_made, len(killed) - 1}):
        run = killed[number]
        said = run_training(config, run, resume=True)
        beginning = "has no checkpoint yet: training starts at the first step"
        assert f"{run} {beginning if was_begun[number] else 'holds no run to continue: starting one'}" in said
        assert state_of(run) == state_of(tmp_path / "straight")
        assert not verify_run(run).unsound and not list(run.rglob("*.tmp"))
