"""Trainings of the task of reversed digits, what happens in the middle of one, and what a checkpoint says."""

import contextlib
import json
import logging.handlers
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import renaming_as_windows_does, without_shape_checks

from translate.config.schema import Config
from translate.runs.checkpoint import read_tensors
from translate.runs.directory import Checkpoint, RunDirectory
from translate.training import StoppedBySignal, best_checkpoint, train, trainer
from translate.training.step import TrainStep

Digits = Callable[..., Config]
"""Gives the config of the task with overrides."""

# Everything that has a state; and saving, logging, validating and epochs (of 3 steps) all out of step with each other.
STATEFUL = (
    *("training.max_steps=14", "training.accumulate_batches=2", "training.r_drop=1", "training.ema_decay=0.9"),
    *("training.log_every=5", "training.validate_every=4", "training.save_every=3", "training.patience=50"),
    *("training.sample_translations=0", "tokenizer.subword_sampling=0.1"),
    *("model.attention_dropout=0.1", "model.activation_dropout=0.1"),
)


@without_shape_checks()  # the session's run `straight` has them
@renaming_as_windows_does()
def run_training(config: Config, directory: Path, *, resume: bool = False, **options: Any) -> list[str]:
    """Train, and return the messages that were logged."""
    logger, handler = logging.getLogger("translate"), logging.handlers.BufferingHandler(10_000)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        train(config, directory, resume=resume, command=["test"], **options)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    return [record.getMessage() for record in handler.buffer]


def progress_of(run: Path, which: Checkpoint = "last") -> dict[str, Any]:
    """The progress that a run's checkpoint holds."""
    progress: dict[str, Any] = json.loads(read_tensors(RunDirectory(run).checkpoint(which)).metadata["progress"])
    return progress


def records_of(run: Path, kind: str | None = None) -> list[dict[str, Any]]:
    """The records of a run; None: of all kinds."""
    records = map(json.loads, RunDirectory(run).metrics.read_text(encoding="utf-8").splitlines())
    return [record for record in records if kind in (None, record["kind"])]


def assert_same_tensors(one: Path, other: Path, *, which: Checkpoint = "last") -> None:
    """Check that checkpoints of two runs agree but for the rounding of gradients that are summed in another order."""
    tensors, expected = (read_tensors(RunDirectory(run).checkpoint(which)).tensors for run in (one, other))
    assert tensors.keys() == expected.keys()
    for name, tensor in tensors.items():
        torch.testing.assert_close(tensor, expected[name], rtol=0.0, atol=1e-5, msg=name)


@contextlib.contextmanager
def happening(
    *,
    in_step: int | None = None,
    in_validation: int | None = None,
    what: Callable[[], Any] | signal.Signals | type[BaseException],
) -> Iterator[None]:
    """A context in which something happens in the step with a number, or in the validation after it.

    A signal comes, an exception is raised (KeyboardInterrupt goes past the training's own handling: it dies, and saves
    nothing), or a function is called.
    """
    original_step, original_validate = TrainStep.__call__, best_checkpoint.validate
    original_init, trainers = trainer.Trainer.__init__, list[trainer.Trainer]()

    def happen() -> None:
        if isinstance(what, signal.Signals):
            signal.raise_signal(what)
        elif isinstance(what, type):
            raise what
        else:
            what()

    def init(self: trainer.Trainer, *args: Any, **kwargs: Any) -> None:
        original_init(self, *args, **kwargs)
        trainers.append(self)

    def step(*args: Any, **kwargs: Any) -> Any:
        result = original_step(*args, **kwargs)
        if trainers[-1].progress.step + 1 == in_step:
            happen()
        return result

    def validate(*args: Any, **kwargs: Any) -> Any:
        if trainers[-1].progress.step == in_validation:
            happen()
        return original_validate(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer.Trainer, "__init__", init)
        patch.setattr(TrainStep, "__call__", step)
        patch.setattr(best_checkpoint, "validate", validate)
        yield


def stop_training(
    config: Config, directory: Path, *, what: signal.Signals | type[BaseException] = signal.SIGINT, **moment: int
) -> Any:
    """Begin a training or continue it until a signal stops it, or an exception ends it; return what it raised."""
    with happening(**moment, what=what), pytest.raises(what if isinstance(what, type) else StoppedBySignal) as caught:
        run_training(config, directory, resume=directory.exists())
    return caught.value
