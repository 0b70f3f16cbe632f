"""Setting up a training: the device and threads of each process, how a step is shared, and how batches are laid out."""

from typing import Any

import pytest
import torch

from translate.config.schema import ModelConfig, TrainingConfig
from translate.distributed.process_group import DistributedEnvironment
from translate.errors import InputError
from translate.training import setup
from translate.training.precision import MixedPrecision
from translate.training.setup import choose_batch_layout, choose_training_device, choose_workers

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
NEEDS = "it needs CUDA, bf16 or fp16, model.attention_dropout=0 and no relative positions"


def test_each_process_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for name in ("auto", "cuda"):
        assert choose_training_device(name, DistributedEnvironment(5, 8, 1, 2)) == torch.device("cuda", 1)
        with pytest.raises(InputError, match="4 processes on this machine, and it has 2 GPUs; .* --nproc-per-node 2"):
            choose_training_device(name, DistributedEnvironment(2, 4, 2, 4))
    assert choose_training_device("cpu", DistributedEnvironment(2, 4, 2, 4)) == torch.device("cpu")
    assert choose_training_device("cuda:1", DistributedEnvironment()) == torch.device("cuda", 1)
    with pytest.raises(InputError, match="training.device = cuda:1: each of 2 processes takes a GPU of its own"):
        choose_training_device("cuda:1", DistributedEnvironment(0, 2, 0, 2))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, (4, 1)),
        ({"batch_tokens": 1100}, (2, 2)),
        ({"batch_tokens": 550, "accumulate_batches": 2}, (2, 2)),
        ({"batch_tokens": 300}, (1, 4)),
        ({"batch_tokens": 1600}, (3, 1)),
        ({"compile": True}, (1, 4)),
    ],
)
def test_a_worker_for_each_thread_if_batches_are_large(settings: dict[str, int], expected: tuple[int, int]) -> None:
    torch.set_num_threads(4)
    assert choose_workers(TrainingConfig(**settings), CPU) == expected


def test_one_on_a_gpu_and_where_processes_share_the_work() -> None:
    torch.set_num_threads(4)
    assert choose_workers(TrainingConfig(), torch.device("cuda")) == (1, 4)
    assert choose_workers(TrainingConfig(), CPU, world_size=2) == (1, 4)


def choose(wish: str, device: torch.device, precision: str = "bf16", **model: Any) -> tuple[str, str | None]:
    settings = TrainingConfig.model_validate({"batch_layout": wish, "precision": precision})
    return choose_batch_layout(settings, ModelConfig(**model), MixedPrecision.choose(settings, device))


@pytest.mark.parametrize("wish", ["auto", "padded"])
def test_a_cpu_pads_without_a_word(wish: str) -> None:
    assert choose(wish, CPU) == ("padded", None)


def test_a_cpu_packs_if_it_must() -> None:
    layout, remark = choose("packed", CPU)
    assert layout == "packed" and remark is not None
    assert remark.startswith("Batches are packed, but attention pads for itself: flash attention")
    assert remark.endswith(NEEDS)


@pytest.mark.parametrize("wish", ["auto", "packed"])
def test_cuda_packs_where_flash_attention_works(monkeypatch: pytest.MonkeyPatch, wish: str) -> None:
    asked: list[dict[str, Any]] = []

    def why_no_flash_attention(device: torch.device, **about: Any) -> None:
        asked.append({"device": device, **about})

    monkeypatch.setattr(setup, "why_no_flash_attention", why_no_flash_attention)
    layout, remark = choose(wish, CUDA, "fp16")
    assert layout == "flash" and remark is not None
    assert asked == [{"device": CUDA, "dtype": torch.float16, "num_heads": 8, "head_dim": 64}]


@pytest.mark.parametrize(
    ("precision", "model", "reason"),
    [
        ("fp32", {}, NEEDS),
        ("bf16", {"attention_dropout": 0.1}, NEEDS),
        ("bf16", {"positions": "relative"}, NEEDS),
        ("bf16", {}, "flash attention for variable lengths: it fails: no kernel"),
    ],
)
def test_why_not_is_said(monkeypatch: pytest.MonkeyPatch, precision: str, model: dict[str, Any], reason: str) -> None:
    monkeypatch.setattr(setup, "why_no_flash_attention", lambda device, **about: "it fails: no kernel")
    for wish, layout in (("auto", "padded"), ("packed", "packed")):
        chosen, remark = choose(wish, CUDA, precision, **model)
        assert chosen == layout
        assert remark is not None and remark.endswith(reason)
