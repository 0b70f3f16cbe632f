"""Setting up a training: devices and threads, how a step is shared, how batches are laid out, what is trained."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from pretend_device import PretendDevice
from trainings import Digits, run_training

from translate.config.load import load_config
from translate.config.schema import ModelConfig, TrainingConfig
from translate.distributed.process_group import DistributedEnvironment
from translate.errors import InputError
from translate.model import Transformer
from translate.model.precision import MixedPrecision
from translate.training import setup, step
from translate.training.data_parallel import choose_workers
from translate.training.loss import SummedLoss
from translate.training.setup import choose_trained_weights, choose_training_device, try_settings
from translate.training.step import choose_batch_layout

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
NEEDS = "it needs CUDA, bf16 or fp16, model.attention_dropout=0 and no relative positions"


def test_each_process_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for name in ("auto", "cuda"):
        assert choose_training_device(name, DistributedEnvironment(5, 8, 1, 2)) == torch.device("cuda", 1)
        with pytest.raises(InputError, match="each of 4 processes .* has 2; .* --nproc-per-node 2"):
            choose_training_device(name, DistributedEnvironment(2, 4, 2, 4))
    assert choose_training_device("cpu", DistributedEnvironment(2, 4, 2, 4)) == torch.device("cpu")
    assert choose_training_device("cuda:1", DistributedEnvironment()) == torch.device("cuda", 1)
    with pytest.raises(InputError, match="training.device = cuda:1: each of 2 processes"):
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
    assert (
        choose_workers(TrainingConfig(**settings), CUDA)
        == choose_workers(TrainingConfig(), CPU, world_size=2)
        == (1, 4)
    )


@pytest.mark.parametrize(
    ("wish", "device", "precision", "model", "layout", "reason"),
    [
        ("auto", CPU, "bf16", {}, "flattened", ""),
        ("auto", CPU, "fp32", {}, "padded", ""),
        ("packed", CPU, "bf16", {}, "packed", NEEDS),
        ("auto", CUDA, "fp16", {}, "flash", "flash attention keeps the sentences apart"),
        ("auto", CUDA, "fp32", {}, "padded", NEEDS),
        ("packed", CUDA, "bf16", {"attention_dropout": 0.1}, "packed", NEEDS),
        ("auto", CUDA, "bf16", {"positions": "relative"}, "padded", NEEDS),
        ("auto", CUDA, "bf16", {}, "padded", "it fails: no kernel"),
    ],
)
def test_batches_are_packed_where_flash_attention_works(
    monkeypatch: pytest.MonkeyPatch,
    wish: str,
    device: torch.device,
    precision: str,
    model: dict[str, Any],
    layout: str,
    reason: str,
) -> None:
    def why_no_flash_attention(
        device: torch.device, *, dtype: torch.dtype, num_heads: int, head_dim: int
    ) -> str | None:
        assert (num_heads, head_dim) == (8, 64)
        return None if dtype == torch.float16 else "it fails: no kernel"

    monkeypatch.setattr(step, "why_no_flash_attention", why_no_flash_attention)
    settings = TrainingConfig.model_validate({"batch_layout": wish, "precision": precision})
    chosen, remark = choose_batch_layout(settings, ModelConfig(**model), MixedPrecision.choose(settings, device))
    assert chosen == layout and remark.removesuffix(")").endswith(reason) and bool(remark) == bool(reason)


def try_on_pretend(**settings: Any) -> tuple[MixedPrecision, bool, list[str]]:
    config = TrainingConfig(precision="fp32", **settings)
    device = torch.device("pretend")
    sizes: dict[str, Any] = {"d_model": 12, "num_heads": 2, "d_ff": 7, "num_encoder_layers": 1, "num_decoder_layers": 3}
    model = ModelConfig(**sizes, dropout=0.1, positions="learned", max_positions=8)  # fewer than the trial has
    return try_settings(config, model, MixedPrecision.choose(config, device), "padded")


def fail_in_loss(monkeypatch: pytest.MonkeyPatch, failing: Callable[[], object]) -> None:
    """Let `failing` happen in the forward pass of each step."""
    real = step.label_smoothed_loss

    def loss(*arguments: Any, **options: Any) -> SummedLoss:
        failing()
        return real(*arguments, **options)

    monkeypatch.setattr(step, "label_smoothed_loss", loss)


def refused_kernel() -> None:
    """An operation that torch refuses, on a CPU too, where kernels must be deterministic."""
    torch.zeros(3).put_(torch.tensor([1]), torch.ones(1))


def test_all_that_is_asked_for_works(pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_rng_state()
    monkeypatch.setattr(setup, "compile_layers", lambda model: None)
    assert try_on_pretend(compile=True) == (MixedPrecision(torch.device("pretend"), "fp32", True, True), True, [])
    assert torch.equal(torch.get_rng_state(), before)


def test_a_training_without_deterministic_kernels_goes_on(
    pretend: PretendDevice, digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_in_loss(monkeypatch, refused_kernel)
    said = run_training(digits("training.device=pretend", "training.max_steps=3"), tmp_path / "run")
    (warning,) = [message for message in said if "determinis" in message]
    assert "training.deterministic = true does not work on pretend: put_ does not have a determin" in warning
    assert any(message.startswith("Training ended after 3 steps") for message in said)


@pytest.mark.parametrize(
    ("device", "needed"), [("cpu", "a C[+][+] compiler, such as g[+][+]"), ("pretend", "triton and .*")]
)
def test_a_training_that_cannot_be_compiled_goes_on(
    pretend: PretendDevice, digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, needed: str
) -> None:
    def compile_layers(model: Transformer) -> None:
        raise torch._dynamo.exc.InternalTorchDynamoError("Cannot find a working triton installation.\nMore") from None

    monkeypatch.setattr(setup, "compile_layers", compile_layers)
    config = digits(f"training.device={device}", "training.compile=true", "training.max_steps=2")
    said = run_training(config, tmp_path / "run")
    (warning,) = [message for message in said if "compile" in message]
    assert re.search(
        rf"training.compile = true: .*\(Cannot find a working triton installation\).*install {needed}", warning
    )


def trained(*freeze: str, model: dict[str, Any] | None = None, **settings: Any) -> set[str]:
    """The trained weights of a model with three encoder and two decoder layers, by name."""
    small: dict[str, Any] = {"d_model": 4, "num_heads": 2, "d_ff": 6, "num_encoder_layers": 3, "num_decoder_layers": 2}
    config = ModelConfig(**small | (model or {}))
    transformer = Transformer(config, source_vocab_size=11, target_vocab_size=11, pad_id=3)
    choose_trained_weights(transformer, TrainingConfig(freeze=freeze, **settings))
    return {name for name, parameter in transformer.named_parameters() if parameter.requires_grad}


def test_the_parts_are_all_of_the_model_and_overlap_nowhere() -> None:
    untying: dict[str, Any] = {"norm": "pre", "tie_embeddings": "none", "positions": "learned", "output_bias": True}
    for options in (untying, {"positions": "relative"}):
        everything = trained(model=options)
        parts = [everything - trained(part, model=options) for part in ("embeddings", "encoder", "decoder")]
        assert all(parts) and sum(map(len, parts)) == len(everything) and set.union(*parts) == everything
        layers = [*(f"encoder.{number}" for number in range(3)), "decoder.0-1"]
        norms = {f"{stack}.final_norm.{end}" for stack in ("encoder", "decoder") for end in ("weight", "bias")}
        untied = {"output.weight", "output.bias"} if "norm" in options else set()
        assert trained(*layers, model=options) == parts[0] | ((norms | untied) & everything)


def test_lora_trains_updates_alone_in_layers_that_are_not_frozen() -> None:
    names = trained("encoder.0-1", "decoder", "embeddings", lora_rank=2, lora_targets=("key", "feed_forward"))
    attention, feed_forward = "encoder.layers.2.self_attention.input_projection", "encoder.layers.2.feed_forward"
    owners = (f"{attention}.lora.key", f"{feed_forward}.inner.lora.inner", f"{feed_forward}.outer.lora.outer")
    assert names == {f"{owner}.{letter}" for owner in owners for letter in "ab"}


def test_lora_trains_embeddings_themselves_and_an_output_layer_that_is_not_tied() -> None:
    options: dict[str, Any] = {"lora_rank": 2, "lora_targets": ("embeddings",)}
    both = {f"{stack}.embedder.tokens.weight" for stack in ("encoder", "decoder")}
    untied: dict[str, Any] = {"tie_embeddings": "none", "positions": "learned", "output_bias": True}
    assert trained(model=untied, **options) == both | {"output.weight"}
    assert trained("decoder", model=untied, **options) == both
    assert trained("encoder", model={"tie_embeddings": "all"}, **options) == {"encoder.embedder.tokens.weight"}
    assert trained("embeddings", model=untied, **options) == {"output.weight"}


@pytest.mark.parametrize(
    "freeze, message",
    [
        ("encoder.3", "training.freeze = encoder.3: the encoder has layers 0 to 2 (model.num_encoder_layers = 3)"),
        ("decoder.0-2", "training.freeze = decoder.0-2: the decoder has layers 0 to 1"),
        ("encoder.2-1", "(model.num_encoder_layers = 3), and a range begins with the smaller number"),
    ],
)
def test_layers_that_cannot_be_frozen_are_refused_with_the_config(freeze: str, message: str) -> None:
    layers = ["model.num_encoder_layers=3", "model.num_decoder_layers=2"]
    assert load_config("transformer-base", [*layers, "training.freeze=[embeddings,encoder.0-2,decoder.1]"])
    with pytest.raises(InputError, match=re.escape(message)):
        load_config("transformer-base", [*layers, f"training.freeze=[{freeze}]"])


def test_something_must_be_trained() -> None:
    with pytest.raises(
        InputError, match=re.escape("training.freeze = [embeddings, encoder, decoder.0-1] leaves nothing")
    ):
        trained("embeddings", "encoder", "decoder.0-1")
