"""The precision of a step: what it is on each device, that it ends with the step, and the scale of an fp16 loss."""

import os
import random
from pathlib import Path

import pytest
import torch
from harness import state_of
from torch import nn
from trainings import Digits, run_training

from translate.config.schema import TrainingConfig
from translate.model.precision import MixedPrecision
from translate.runs import progress
from translate.runs.progress import LossScale

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def global_state() -> tuple[object, ...]:
    return (
        torch.backends.cuda.matmul.allow_tf32,
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.utils.deterministic.fill_uninitialized_memory,
    )


@pytest.mark.parametrize(
    ("name", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)]
)
def test_products_are_of_the_chosen_precision(name: str, dtype: torch.dtype) -> None:
    mixed = MixedPrecision.choose(TrainingConfig.model_validate({"precision": name}), CPU)
    with mixed.autocast():
        assert nn.Linear(3, 5)(torch.randn(2, 3)).dtype == dtype == mixed.dtype


def test_cuda_is_repeatable_and_takes_tf32_within_a_step_alone() -> None:
    # These are switches of the library, which needs no device to turn them.
    before = global_state()
    with MixedPrecision.choose(TrainingConfig(), CUDA).in_step():
        assert global_state() == (True, True, False, False)
        # What torch.compile reads; it raises where the two kinds of settings contradict each other.
        assert (torch.get_float32_matmul_precision(), torch.backends.cuda.matmul.fp32_precision) == ("high", "tf32")
    assert global_state() == before
    with pytest.raises(RuntimeError), MixedPrecision.choose(TrainingConfig(), CUDA).in_step():
        raise RuntimeError
    assert global_state() == before


def test_both_can_be_left_out_and_do_not_concern_a_cpu() -> None:
    before = global_state()
    settings = TrainingConfig(tf32=False, deterministic=False, precision="fp32")
    for mixed in (MixedPrecision.choose(settings, CUDA), MixedPrecision.choose(TrainingConfig(), CPU)):
        with mixed.in_step():
            assert global_state() == before


def test_the_users_cublas_workspace_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")  # so that it is put back, whatever it was
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    MixedPrecision.choose(TrainingConfig(), CPU)
    assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ
    MixedPrecision.choose(TrainingConfig(), CUDA)
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    MixedPrecision.choose(TrainingConfig(), CUDA)
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"


def test_the_scale_goes_as_torchs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_STEPS_BEFORE_GROWTH", 3)
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
    assert not LossScale(1.0).shrink(), "it is never smaller"


def test_small_gradients_do_not_vanish_in_fp16() -> None:
    layers = nn.Sequential(nn.Linear(7, 5), nn.Tanh(), nn.Linear(5, 3))
    inputs, parameters = torch.randn(11, 7), list(layers.parameters())
    small = 1e-8  # of each output's gradient: less than fp16's smallest number

    def gradients(mixed: MixedPrecision, scale: float) -> list[torch.Tensor]:
        with mixed.autocast():
            loss = (layers(inputs).float() * small).sum()
        return list(torch.autograd.grad(loss * scale, parameters))

    exact = gradients(MixedPrecision(CPU, "fp32"), 1.0)
    half = MixedPrecision(CPU, "fp16")
    assert not any(gradient.any() for gradient in gradients(half, 1.0))
    scaled = gradients(half, LossScale().scale)
    for mine, expected in zip(scaled, exact, strict=True):
        torch.testing.assert_close(mine / LossScale().scale, expected, rtol=0.02, atol=small * 0.02)


def test_a_resumed_run_goes_on_with_its_scale(digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_STEPS_BEFORE_GROWTH", 4)  # it grows between the parts and within both
    settings = ("training.precision=fp16", "training.validate_every=6", "training.save_every=50")
    run_training(digits(*settings, "training.max_steps=10"), tmp_path / "straight")
    run_training(digits(*settings, "training.max_steps=6"), tmp_path / "resumed")
    run_training(digits(*settings, "training.max_steps=10"), tmp_path / "resumed", resume=True)
    straight, resumed = state_of(tmp_path / "straight"), state_of(tmp_path / "resumed")
    assert straight.last == resumed.last
    assert straight.progress == resumed.progress
    assert straight.progress["loss_scale"] == {"scale": 2.0**18, "good_steps": 2}
