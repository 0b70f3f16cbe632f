"""A dry run: the longest batch for real, its memory, the speed; and how it shows that a training would fail."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import write_digits

from translate.config.schema import Config
from translate.data.epochs import Epoch
from translate.errors import RunError
from translate.lint import dry_run as module
from translate.lint.dry_run import dry_run, longest_batches, peak_memory
from translate.training import setup
from translate.training.optimizer import AveragedWeights
from translate.training.preparation import TrainingData, prepare_data
from translate.training.step import StepResult, TrainStep
from translate.training.validation import validate

Digits = Callable[..., Config]
LINUX = Path("/proc/self/status").exists()
CPU = torch.device("cpu")


@pytest.fixture
def digits(tmp_path: Path) -> Digits:
    return write_digits(tmp_path)


def prepared(config: Config) -> tuple[TrainingData, Epoch]:
    data = prepare_data(config, device=CPU)
    return data, data.batches.epoch(0)


def test_the_longest_batches(digits: Digits) -> None:
    """One pair of 45 digits among pairs of two to seven: its batch is the longest, another has the most tokens."""
    config = digits("training.batch_tokens=60")
    long = "271828182845904523536028747135266249775724709"
    for side in ("in", "out"):
        path = config.data.train[0].source.with_suffix(f".{side}")  # type: ignore[union-attr]
        path.write_text(path.read_text() + f"{long}\n")
    _, epoch = prepared(config)
    longest, *others = longest_batches(epoch)
    sizes = [int(shape[0] * (shape[1] + shape[2])) for shape in epoch.shapes]
    assert epoch.shapes[longest].tolist()[0] == 1 and epoch.shapes[longest].max() == max(
        map(max, epoch.shapes.tolist())
    )
    assert len(others) == 1 and sizes[others[0]] == max(sizes) > sizes[longest]


def test_what_is_measured(digits: Digits, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds: list[float] = []

    def watched(*arguments: Any, **options: Any) -> Any:
        validation = validate(*arguments, **options)
        seconds.append(validation.seconds)
        return validation

    monkeypatch.setattr(module, "validate", watched)
    config = digits("training.accumulate_batches=2")
    also = config.model_copy(
        update={"data": config.data.model_copy(update={"validation_also": {"x": config.data.validation}})}
    )
    result = dry_run(*prepared(also), device=CPU)
    assert (result.device, result.precision) == ("cpu", "fp32")
    assert result.num_timed_steps >= 1
    assert result.target_tokens_per_second > 0 and result.seconds_per_epoch > 0
    assert len(seconds) == 2 and result.seconds_per_validation == sum(seconds) > 0  # of both sets, each in full
    assert result.largest_batch["pairs"] >= 1
    result = dry_run(*prepared(digits("data.validation=null")), device=CPU, max_seconds=0.0)
    assert (result.num_timed_steps, result.seconds_per_validation) == (1, None), "the time for measuring is bounded"


@pytest.mark.parametrize(("num_workers", "num_repeats"), [(1, 2), (2, 5), (8, 5)])
def test_every_step_is_a_real_one(
    digits: Digits, monkeypatch: pytest.MonkeyPatch, num_workers: int, num_repeats: int
) -> None:
    """The first batch, the longest ones, and then each step of the epoch once, with accumulation as in training.

    The longest batches are repeated until each worker adds a gradient to another, if the step has so many batches.
    """
    monkeypatch.setattr(setup, "choose_workers", lambda *arguments, **options: (num_workers, 1))
    averaged: list[int] = []
    monkeypatch.setattr(AveragedWeights, "update", lambda average, model, step: averaged.append(step))
    config = digits("training.accumulate_batches=5", "training.batch_tokens=100", "training.ema_decay=0.9")
    data, epoch = prepared(config)
    seen: list[list[tuple[int, ...]]] = []
    original = TrainStep.__call__

    def watched(self: TrainStep, group: Any, **options: Any) -> Any:
        seen.append([batch.indices for batch in group])
        assert options["learning_rate"] > 0
        return original(self, group, **options)

    monkeypatch.setattr(TrainStep, "__call__", watched)
    dry_run(data, epoch, device=CPU, max_seconds=60.0)
    batches = [batch.indices for batch in epoch]
    num_longest = len(longest_batches(epoch))
    assert seen[0] == [batches[0]]
    assert averaged == [*range(1, len(seen) + 1)]
    assert seen[1 : 1 + num_longest] == [[batches[number]] * num_repeats for number in longest_batches(epoch)]
    groups = [batches[first : first + 5] for first in range(0, len(batches), 5)]
    assert len(batches) % 5 > 0 and len(groups) < 30  # the last step has fewer batches
    assert sorted(seen[1 + num_longest :]) == sorted(groups)


def test_the_speed_is_that_of_the_fastest_steps(digits: Digits, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program makes all steps slow but the last five."""
    num_steps, original = 0, TrainStep.__call__
    data, epoch = prepared(digits("training.batch_tokens=100"))

    def disturbed(self: TrainStep, group: Any, **options: Any) -> Any:
        nonlocal num_steps
        num_steps += 1
        if num_steps <= 1 + len(longest_batches(epoch)) + min(30, len(epoch)) - 5:
            time.sleep(0.3)
        return original(self, group, **options)

    monkeypatch.setattr(TrainStep, "__call__", disturbed)
    assert len(epoch) >= 10
    assert dry_run(data, epoch, device=CPU, max_seconds=60.0).target_tokens_per_second > 100 / 0.3


def test_a_training_that_fails(digits: Digits, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def fails_on_the_longest(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise RunError("no memory is left")
        return StepResult(*[torch.tensor(1.0)] * len(StepResult._fields))._replace(tokens=1)

    monkeypatch.setattr(TrainStep, "__call__", fails_on_the_longest)
    data, epoch = prepared(digits())
    pairs, source_tokens, target_tokens = epoch.shapes[longest_batches(epoch)[0]].tolist()
    with pytest.raises(RunError, match=f"{pairs} pairs .*{source_tokens} .*{target_tokens} .*no memory is left"):
        dry_run(data, epoch, device=CPU)


@pytest.mark.skipif(not LINUX, reason="only Linux tells and forgets the peak of a process")
def test_peak_memory_is_what_was_allocated() -> None:
    size = 200 * 2**20
    start = peak_memory(CPU, restart=True)
    before = peak_memory(CPU)
    assert start is not None and before is not None and before - start < 0.2 * size
    kept = torch.ones(size // 4)
    del kept
    peak = peak_memory(CPU)
    assert peak is not None and 0.95 * size <= peak - start <= 1.3 * size
    after = peak_memory(CPU, restart=True)
    assert after is not None and after - start < 0.3 * size


def test_peak_that_cannot_be_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a way to reset the peak, none is reported."""
    monkeypatch.setattr(module, "_PROCESS", tmp_path / "nothing" / "here")
    assert peak_memory(CPU, restart=True) is None
    assert peak_memory(torch.device("mps"), restart=True) is None


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu(digits: Digits) -> None:
    config = digits("training.device=cuda", "decoding.device=cuda")
    result = dry_run(*prepared(config), device=torch.device("cuda"))
    assert result.device == "cuda" and result.peak_bytes is not None
    assert result.peak_bytes >= 4 * 4 * result.num_parameters  # weights, gradients and Adam's two, 4 bytes each
