"""`batch_tokens: auto` becomes a number, and `step_tokens` a number of batches; a resumed run keeps both."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from trainings import Digits, run_training

from translate.config.load import read_resolved_config
from translate.config.schema import Config
from translate.errors import InputError, RunError
from translate.model.device import OutOfMemory
from translate.training import batch_size
from translate.training.batch_size import largest_fitting_batch, resolve_step_tokens
from translate.training.preparation import make_tokenizers, prepare_data, read_corpora
from translate.training.step import TrainStep

CPU = torch.device("cpu")
AUTO = "training.batch_tokens=auto"


def resolved(config: Config, device: torch.device = CPU) -> tuple[Config, str]:
    data = prepare_data(config, device=device)
    pairs, *widths = data.batches.epoch(0).shapes.T
    assert (pairs * max(widths, key=max)).max() <= data.config.training.num_batch_tokens
    assert data.batch_size is not None
    return data.config, data.batch_size


def test_step_tokens_become_the_batches_that_come_nearest(digits: Digits) -> None:
    for batch_tokens, step_tokens, num in ((4096, 25_000, 6), (10_000, 14_000, 1), (10_000, 16_000, 2)):
        config = digits(f"training.batch_tokens={batch_tokens}", f"training.step_tokens={step_tokens}")
        assert resolve_step_tokens(config).training.accumulate_batches == num
    config = resolve_step_tokens(digits("training.batch_tokens=100", "training.step_tokens=330"))
    assert (config.training.accumulate_batches, config.training.step_tokens) == (3, None)
    assert config == digits("training.batch_tokens=100", "training.accumulate_batches=3")
    assert resolve_step_tokens(digits(AUTO, "training.step_tokens=330")).training.step_tokens == 330


@pytest.mark.parametrize(
    ("step_tokens", "batch_tokens", "num_batches"), [("330", 330, 1), ("null", 4096, 1), ("25000", 25_000 // 7, 7)]
)
def test_on_a_cpu_it_is_a_constant(digits: Digits, step_tokens: str, batch_tokens: int, num_batches: int) -> None:
    config, message = resolved(digits(AUTO, f"training.step_tokens={step_tokens}"))
    assert (config.training.batch_tokens, config.training.accumulate_batches) == (batch_tokens, num_batches)
    assert message.startswith(f"training.batch_tokens = auto: {batch_tokens} tokens, {num_batches} batch")


class _Gpu:
    """A GPU that refuses steps on more than so many tokens, after the model and the optimizer's state fit."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, holds: int) -> None:
        self.holds, self.tried, self.shares = holds, list[int](), list[float]()
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda index: (40 * 2**30, 80 * 2**30))
        monkeypatch.setattr(torch.cuda, "memory_reserved", lambda index: 0)
        monkeypatch.setattr(batch_size, "_free_memory", lambda device: None)
        monkeypatch.setattr(
            torch.cuda, "set_per_process_memory_fraction", lambda share, index: self.shares.append(share)
        )
        setup_training, call = batch_size.setup_training, TrainStep.__call__

        def on_the_cpu(config: Config, tokenizers: Any, *, device: Any, batch_tokens: tuple[int, int]) -> TrainStep:
            return setup_training(config, tokenizers, device=CPU, batch_tokens=batch_tokens)

        def step(train_step: TrainStep, batches: Any, **rest: Any) -> Any:
            (size,) = {batch.source_ids.numel() for batch in batches}
            self.tried.append(size)
            if size > self.holds:
                raise OutOfMemory("refused")
            weights = [weight.clone() for weight in train_step.model.parameters()]
            result = call(train_step, batches, **rest)
            assert all(map(torch.equal, weights, train_step.model.parameters()))
            return result

        monkeypatch.setattr(batch_size, "setup_training", on_the_cpu)
        monkeypatch.setattr(TrainStep, "__call__", step)


@pytest.mark.parametrize(
    ("holds", "most", "found", "tried"),
    [
        (2000, 100, 100, [9, 9, 18, 36, 72, 108]),  # 12 pairs of 9
        (40, 100, 36, [9, 9, 18, 36, 72]),
        (9, 100, 9, [9, 9, 18]),
        (2000, 9, 9, [9, 9]),
    ],
)
def test_on_cuda_it_is_doubled_until_memory_is_refused(
    holds: int, most: int, found: int, tried: list[int], digits: Digits, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = digits("training.ema_decay=0.9", "training.step_tokens=900")
    tokenizers = make_tokenizers(config, read_corpora(config))
    gpu = _Gpu(monkeypatch, holds=holds)
    cuda = torch.device("cuda")
    assert largest_fitting_batch(config, longest=9, most=most, tokenizers=tokenizers, device=cuda) == found
    assert gpu.tried == tried
    assert gpu.shares == [pytest.approx(0.45), 1.0]  # nine tenths of the free half, and then all


def test_not_even_one_pair(digits: Digits, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = _Gpu(monkeypatch, holds=5)
    with pytest.raises(RunError) as error:
        resolved(digits(AUTO), torch.device("cuda"))
    assert gpu.shares[-1] == 1.0
    for part in ("training.batch_tokens = 'auto'", "memory that cuda has free, 36.0 GiB", "model.d_model"):
        assert part in str(error.value)


@pytest.mark.parametrize("step_tokens", ["null", "500"])
def test_the_run_keeps_the_number(
    step_tokens: str, digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wish = (AUTO, f"training.step_tokens={step_tokens}", "training.max_steps=2", "training.validate_every=2")
    said = run_training(digits(*wish), tmp_path / "run")
    assert sum(line.startswith("training.batch_tokens = auto: ") for line in said) == 1
    found = read_resolved_config(tmp_path / "run" / "config.yaml").training
    assert found.batch_tokens == (4096 if step_tokens == "null" else 500) and found.step_tokens is None

    monkeypatch.setattr(batch_size, "_CPU_BATCH_TOKENS", 50)  # what another machine might find
    said = run_training(digits(*wish, "training.max_steps=3"), tmp_path / "run", resume=True)
    assert not any("training.batch_tokens = auto" in line for line in said)
    assert "Continuing from step 2" in said
    number = f"training.batch_tokens={found.batch_tokens}"
    said = run_training(digits(*wish, number, "training.max_steps=4"), tmp_path / "run", resume=True)
    assert "Continuing from step 3" in said
    with pytest.raises(InputError, match=r"cannot continue with training.step_tokens = 33$"):
        run_training(digits(AUTO, "training.step_tokens=33"), tmp_path / "run", resume=True)
    with pytest.raises(InputError, match=r"cannot be continued with training.accumulate_batches = 4 \(the run has 1\)"):
        many = f"training.step_tokens={4 * found.num_batch_tokens}"
        run_training(digits(*wish, many), tmp_path / "run", resume=True)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu(digits: Digits) -> None:
    """With all but 4 GiB taken the search meets its end; afterwards the memory can be used."""
    gpu = torch.device("cuda")
    free, _ = torch.cuda.mem_get_info(gpu)
    keep = torch.empty(free - 4 * 2**30, dtype=torch.uint8, device=gpu)
    config, _ = resolved(digits(AUTO, "model.d_ff=65536", "training.step_tokens=1000000"), gpu)
    assert math.isclose(config.training.num_batch_tokens * config.training.accumulate_batches, 1e6, rel_tol=0.1)
    del keep
    torch.cuda.empty_cache()
    torch.empty(free // 2, dtype=torch.uint8, device=gpu)
