"""The arithmetic of a step: what it is on each device, that it ends with the step, and the scale of an fp16 loss."""

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from translate.config import Config, ModelConfig, TrainingConfig
from translate.data.batching import EncodedPair, collate
from translate.data.tokenizer import PAD_ID
from translate.errors import RunError
from translate.model import Transformer
from translate.training import precision
from translate.training.assembly import Computation, stepping
from translate.training.optimizer import build_optimizer
from translate.training.precision import Arithmetic, LossScale
from translate.training.progress import StepResult

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def global_state() -> tuple[object, ...]:
    return (
        torch.backends.cuda.matmul.fp32_precision,
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.utils.deterministic.fill_uninitialized_memory,
    )


@pytest.mark.parametrize(
    ("name", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)]
)
def test_products_are_of_the_chosen_precision(name: str, dtype: torch.dtype) -> None:
    arithmetic = Arithmetic.choose(TrainingConfig.model_validate({"precision": name}), CPU)
    with arithmetic.autocast():
        assert nn.Linear(3, 5)(torch.randn(2, 3)).dtype == dtype == arithmetic.dtype


def test_cuda_is_repeatable_and_takes_tf32_within_a_step_alone() -> None:
    # These are switches of the library, which needs no device to turn them.
    before = global_state()
    with Arithmetic.choose(TrainingConfig(), CUDA).in_step():
        assert global_state() == ("tf32", True, False, False)
    assert global_state() == before
    with pytest.raises(RuntimeError), Arithmetic.choose(TrainingConfig(), CUDA).in_step():
        raise RuntimeError
    assert global_state() == before


def test_both_can_be_left_out() -> None:
    before = global_state()
    settings = TrainingConfig(tf32=False, deterministic=False, precision="fp32")
    with Arithmetic.choose(settings, CUDA).in_step():
        assert global_state() == before


def test_nothing_of_it_concerns_a_cpu() -> None:
    before = global_state()
    with Arithmetic.choose(TrainingConfig(), CPU).in_step():
        assert global_state() == before


def test_the_users_cublas_workspace_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")  # so that it is put back, whatever it was
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    Arithmetic.choose(TrainingConfig(), CPU)
    assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ
    Arithmetic.choose(TrainingConfig(), CUDA)
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    Arithmetic.choose(TrainingConfig(), CUDA)
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"


# --- the scale of the loss


def test_the_scale_goes_as_torchs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "_STEPS_BEFORE_GROWTH", 3)
    scaler = torch.amp.GradScaler("cpu", growth_interval=3)
    parameter = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter])
    scaler.scale(parameter.sum())  # makes its state
    draw, mine, seen = random.Random(1), LossScale(), set()
    for _ in range(200):
        is_overflow = draw.random() < 0.2
        parameter.grad = torch.tensor([float("inf") if is_overflow else 1.0])
        scaler.step(optimizer)
        scaler.update()
        if is_overflow:
            assert mine.shrink()
        else:
            mine.keep()
        assert mine.scale == scaler.get_scale()
        assert mine.good_steps == scaler.state_dict()["_growth_tracker"]
        seen.add(mine.scale)
    assert len(seen) > 5


def test_there_is_a_smallest_scale() -> None:
    scale = LossScale()
    tried = [scale.scale]
    while scale.shrink():
        tried.append(scale.scale)
    assert tried == [2.0**exponent for exponent in range(16, -1, -1)]


def test_small_gradients_do_not_vanish_in_fp16() -> None:
    layers = nn.Sequential(nn.Linear(7, 5), nn.Tanh(), nn.Linear(5, 3))
    inputs, parameters = torch.randn(11, 7), list(layers.parameters())
    small = 1e-8  # of each output's gradient: less than fp16's smallest number

    def gradients(arithmetic: Arithmetic, scale: float) -> list[torch.Tensor]:
        with arithmetic.autocast():
            loss = (layers(inputs).float() * small).sum()
        return list(torch.autograd.grad(loss * scale, parameters))

    exact = gradients(Arithmetic(CPU, "fp32"), 1.0)
    half = Arithmetic(CPU, "fp16")
    assert not any(gradient.any() for gradient in gradients(half, 1.0))
    scaled = gradients(half, LossScale().scale)
    LossScale().unscale_(scaled)
    for mine, expected in zip(scaled, exact, strict=True):
        torch.testing.assert_close(mine, expected, rtol=0.02, atol=small * 0.02)


# --- steps and trainings in fp16


def half_step(scale: float) -> tuple[LossScale, StepResult, list[torch.Tensor]]:
    """One step of a small model, with the loss scaled so at first: the scale after it, what it saw, the weights."""
    settings = TrainingConfig(precision="fp16", device="cpu", batch_tokens=512)
    torch.manual_seed(2)
    model = Transformer(
        ModelConfig(d_model=12, num_heads=3, d_ff=17, num_encoder_layers=1, num_decoder_layers=1),
        source_vocab_size=23, target_vocab_size=23, pad_id=PAD_ID,
    ).train()  # fmt: skip
    batch = collate([EncodedPair([5, 6, 7], [8, 9]), EncodedPair([10], [11, 12, 13, 14])], [0, 1])
    computation = Computation.choose(settings, model.config, CPU)
    with stepping(model, build_optimizer(model, settings), settings, computation) as stepper:
        stepper.loss_scale.scale = scale
        result = stepper.step([batch], number=1, rate=1e-3)
        return stepper.loss_scale, result, list(model.parameters())


def test_a_step_whose_gradients_overflow_is_done_again() -> None:
    shrunk, again, weights = half_step(2.0**40)
    kept, once, expected = half_step(2.0**8)
    assert 2.0**8 < shrunk.scale < 2.0**40 and kept.scale == 2.0**8
    assert shrunk.good_steps == kept.good_steps == 1
    assert float(again.loss) == float(once.loss)  # the same pairs, and the same is dropped
    assert float(again.gradient_norm) == pytest.approx(float(once.gradient_norm), rel=0.01)
    for mine, wanted in zip(weights, expected, strict=True):
        torch.testing.assert_close(mine, wanted, rtol=0, atol=2.1e-3)  # Adam's first step is of the rate, up or down


def test_gradients_that_no_scale_makes_finite_end_the_training() -> None:
    settings = TrainingConfig(precision="fp16", device="cpu", batch_tokens=512)
    model = Transformer(
        ModelConfig(d_model=12, num_heads=3, d_ff=17, num_encoder_layers=1, num_decoder_layers=1),
        source_vocab_size=23, target_vocab_size=23, pad_id=PAD_ID,
    ).train()  # fmt: skip
    with torch.no_grad():
        model.output.weight[7, 3] = float("nan")
    before = [parameter.clone() for parameter in model.parameters()]
    batch = collate([EncodedPair([5, 6], [8, 9])], [0])
    computation = Computation.choose(settings, model.config, CPU)
    with (
        stepping(model, build_optimizer(model, settings), settings, computation) as stepper,
        pytest.raises(RunError, match="^the loss is nan"),
    ):
        stepper.step([batch], number=1, rate=1e-3)
    for mine, was in zip(model.parameters(), before, strict=True):
        torch.testing.assert_close(mine.detach(), was, rtol=0, atol=0, equal_nan=True)


def test_a_resumed_run_goes_on_with_its_scale(
    digits: Callable[..., Config],
    run_training: Callable[..., list[str]],
    state_of: Callable[[Path], Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(precision, "_STEPS_BEFORE_GROWTH", 4)  # so that it grows between the two parts and within both
    settings = ("training.precision=fp16", "training.validate_every=6", "training.save_every=50")
    run_training(digits(*settings, "training.max_steps=10"), tmp_path / "straight")
    run_training(digits(*settings, "training.max_steps=6"), tmp_path / "resumed")
    run_training(digits(*settings, "training.max_steps=10"), tmp_path / "resumed", resume=True)
    straight, resumed = state_of(tmp_path / "straight"), state_of(tmp_path / "resumed")
    assert straight.last == resumed.last
    assert straight.progress == resumed.progress
    assert straight.progress["loss_scale"] == {"scale": 2.0**18, "good_steps": 2}


def test_the_log_tells_the_scale_in_fp16_alone(
    digits: Callable[..., Config],
    run_training: Callable[..., list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(precision, "_STEPS_BEFORE_GROWTH", 4)
    few = ("training.max_steps=5", "training.log_every=2", "training.validate_every=99")
    scales = {}
    for name in ("fp16", "fp32"):
        run_training(digits(*few, f"training.precision={name}"), tmp_path / name)
        lines = (tmp_path / name / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        records = [json.loads(line) for line in lines]
        scales[name] = [record.get("loss_scale") for record in records if record["kind"] == "train"]
    assert scales == {"fp16": [2.0**16, 2.0**17, 2.0**17], "fp32": [None] * 3}
    said = [line for line in capsys.readouterr().err.splitlines() if ": loss " in line]
    assert ["loss scale 131072," in line for line in said] == [False, True, True, False, False, False]
