"""A tiny task that a tiny model learns in seconds: digits, reversed; and what can happen while it does."""

import contextlib
import json
import logging.handlers
import random
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from translate.config.load import load_config
from translate.config.schema import Config
from translate.runs.checkpoint import read_tensors
from translate.runs.directory import Checkpoint, RunDirectory
from translate.training import best_checkpoint, train, trainer
from translate.training.step import TrainStep

Digits = Callable[..., Config]

_DIGITS = """
data:
  train: [{kind: text, source: train.in, target: train.out}]
  validation: {kind: text, source: validation.in, target: validation.out}
  test: {held_out: {kind: text, source: validation.in, target: validation.out}}
tokenizer: {vocab_size: 40, byte_fallback: false}
model: {d_model: 16, num_heads: 2, d_ff: 32, num_encoder_layers: 1, num_decoder_layers: 1, dropout: 0.1, norm: pre}
training:
  {max_steps: 12, batch_tokens: 300, schedule: constant, learning_rate: 0.005, warmup_steps: 3, precision: fp32,
   device: cpu, validate_every: 6, save_every: 4, log_every: 5, sample_translations: 1}
decoding: {beam_size: 2, max_length_factor: 1.0, max_length_constant: 3, device: cpu}
"""

# Everything that has a state; and saving, logging, validating and epochs (of 3 steps) all out of step with each other.
_STATEFUL = (
    "training.max_steps=14",
    "training.accumulate_batches=2",
    "training.r_drop=1",
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


@pytest.fixture(scope="session")
def write_task(write_reversed_digits: Callable[..., None]) -> Callable[[Path], Digits]:
    """A function that writes the task's files, and gives a function that gives its config with overrides."""

    def write_task(folder: Path) -> Digits:
        write_reversed_digits(folder, "train", num_pairs=211, draw=random.Random(1))
        write_reversed_digits(folder, "validation", num_pairs=23, draw=random.Random(2))
        (folder / "digits.yaml").write_text(_DIGITS, encoding="utf-8")
        return lambda *overrides: load_config(str(folder / "digits.yaml"), overrides, require_files=True).config

    return write_task


@pytest.fixture
def digits(write_task: Callable[[Path], Digits], tmp_path: Path) -> Digits:
    """A function that gives the config of the task, with overrides; its files are in tmp_path."""
    return write_task(tmp_path)


@pytest.fixture
def stateful(digits: Digits) -> Digits:
    """The same, of a training that has all the state that there is."""
    return lambda *overrides: digits(*_STATEFUL, *overrides)


@pytest.fixture(scope="session")
def run_training() -> Callable[..., list[str]]:
    """A function that trains, and returns the messages that were logged."""

    def run_training(config: Config, directory: Path, *, resume: bool = False, **options: Any) -> list[str]:
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

    return run_training


@pytest.fixture(scope="session")
def straight(
    tmp_path_factory: pytest.TempPathFactory,
    write_task: Callable[[Path], Digits],
    run_training: Callable[..., list[str]],
) -> Path:
    """The run of a `stateful` training that was never stopped; only to be read."""
    directory = tmp_path_factory.mktemp("straight")
    run_training(write_task(directory)(*_STATEFUL), directory / "run")
    return directory / "run"


@pytest.fixture
def finished(straight: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(straight, tmp_path / "finished"))


@pytest.fixture(scope="session")
def progress_of() -> Callable[..., dict[str, Any]]:
    """A function that gives where a run's checkpoint stands."""

    def read(run: Path, which: Checkpoint = "last") -> dict[str, Any]:
        progress: dict[str, Any] = json.loads(read_tensors(RunDirectory(run).checkpoint(which)).metadata["progress"])
        return progress

    return read


@pytest.fixture
def happening(monkeypatch: pytest.MonkeyPatch) -> Callable[..., contextlib.AbstractContextManager[None]]:
    """A context in which something happens in the step with a number, or in the validation after it.

    A signal comes, an exception is raised (KeyboardInterrupt goes past the training's own handling: it dies, and saves
    nothing), or a function is called.
    """
    original_step, original_validate, original_init = (
        TrainStep.__call__,
        best_checkpoint.validate,
        trainer.Trainer.__init__,
    )

    @contextlib.contextmanager
    def happening(
        *,
        in_step: int | None = None,
        in_validation: int | None = None,
        what: Callable[[], Any] | signal.Signals | type[BaseException],
    ) -> Iterator[None]:
        trainers: list[trainer.Trainer] = []

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

        with monkeypatch.context() as patch:
            patch.setattr(trainer.Trainer, "__init__", init)
            patch.setattr(TrainStep, "__call__", step)
            patch.setattr(best_checkpoint, "validate", validate)
            yield

    return happening
