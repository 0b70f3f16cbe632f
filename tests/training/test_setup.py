"""Setting up a training: devices and threads, how a step is shared, how batches are laid out, what is trained."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from pretend_device import PretendDevice
from trainings import Digits, run_training

from translate.config.schema import ModelConfig, TrainingConfig
from translate.distributed.process_group import DistributedEnvironment
from translate.errors import InputError
from translate.model import Transformer
from translate.training import setup, step
from translate.training.claim import choose_training_device
from translate.training.loss import SummedLoss
from translate.training.precision import MixedPrecision
from translate.training.setup import (
    choose_batch_layout,
    choose_trained_weights,
    choose_workers,
    try_settings,
)

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
    with pytest.raises(InputError, match="training.device = cuda:1: each of 2 processes takes its own GPU"):
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


# --- what fails on a device


def try_on_pretend(**settings: Any) -> tuple[MixedPrecision, bool, list[str]]:
    config = TrainingConfig(precision="fp32", **settings)
    device = torch.device("pretend")
    model = ModelConfig(d_model=12, num_heads=2, d_ff=7, num_encoder_layers=3, num_decoder_layers=3, dropout=0.1)
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


def refused_workspace() -> None:
    if torch.are_deterministic_algorithms_enabled():
        raise RuntimeError(
            "Deterministic behavior was enabled with either `torch.use_deterministic_algorithms(True)` or"
            " `at::Context::setDeterministicAlgorithms(true)`, but this operation is not deterministic because it uses"
            " CuBLAS and you have CUDA >= 10.2. To enable deterministic behavior in this case, you must set"
        )


def test_all_that_is_asked_for_works(pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_rng_state()
    monkeypatch.setattr(setup, "compile_layers", lambda model: None)
    assert try_on_pretend(compile=True) == (MixedPrecision(torch.device("pretend"), "fp32", True, True), True, [])
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("failing", "reason"),
    [
        (refused_kernel, "put_ does not have a deterministic implementation"),
        (refused_workspace, ".* is not deterministic because it uses CuBLAS and you have CUDA >= 10.2"),
    ],
)
def test_a_training_without_deterministic_kernels_goes_on(
    pretend: PretendDevice,
    digits: Digits,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failing: Callable[[], None],
    reason: str,
) -> None:
    fail_in_loss(monkeypatch, failing)
    said = run_training(digits("training.device=pretend", "training.max_steps=3"), tmp_path / "run")
    (warning,) = [message for message in said if "determinis" in message]
    assert re.fullmatch(
        rf"training.deterministic = true does not work on pretend: {reason}. The training goes on as with"
        " training.deterministic=false, so a resumed run will differ from one that was never stopped",
        warning,
    )
    assert any(message.startswith("Training ended after 3 steps") for message in said)


def test_another_failure_says_nothing_about_determinism(
    pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing() -> None:
        raise RuntimeError("no kernel image is available for execution on the device")

    fail_in_loss(monkeypatch, failing)
    precision, _, fallbacks = try_on_pretend()
    assert precision.deterministic and fallbacks == []


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
    assert re.fullmatch(
        r"training.compile = true: torch cannot compile on this machine \(Cannot find a working triton installation\)."
        rf" The training goes on as with training.compile=false; to compile, install {needed}",
        warning,
    )


def test_a_training_without_flash_attention_pads(
    pretend: PretendDevice, digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def varlen_attn(*arguments: Any, **options: Any) -> None:
        raise RuntimeError("FlashAttention only supports Ampere GPUs or newer.\nMore")

    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", varlen_attn)
    config = digits("training.device=pretend", "training.precision=bf16", "training.max_steps=2")
    said = run_training(config, tmp_path / "run")
    (remark,) = [message for message in said if "flash attention" in message]
    reason = "it fails: FlashAttention only supports Ampere GPUs or newer."
    assert remark.endswith(f"\nBatches are padded: flash attention for variable lengths: {reason}")


# --- what is trained


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


def test_embeddings_are_those_of_both_languages_with_positions_and_a_tied_output_layer() -> None:
    options: dict[str, Any] = {"positions": "learned"}
    tokens, positions = "embedder.tokens.weight", "embedder.positions.table"
    both = {f"{stack}.{positions}" for stack in ("encoder", "decoder")}
    for tie, names in {
        "all": {f"encoder.{tokens}"},
        "decoder": {f"encoder.{tokens}", f"decoder.{tokens}"},
        "none": {f"encoder.{tokens}", f"decoder.{tokens}"},
    }.items():
        model = options | {"tie_embeddings": tie}
        assert trained(model=model) - trained("embeddings", model=model) == both | names
        assert ("output.weight" in trained("embeddings", model=model)) == (tie == "none")


def test_layers_by_number() -> None:
    left = trained("encoder.1-2", "decoder.0")
    assert {name[:16] for name in left if ".layers." in name} == {"encoder.layers.0", "decoder.layers.1"}


def test_lora_trains_updates_alone_in_layers_that_are_not_frozen() -> None:
    names = trained("encoder.0-1", "decoder", "embeddings", lora_rank=2, lora_targets=("key", "feed_forward"))
    attention, feed_forward = "encoder.layers.2.self_attention.input_projection", "encoder.layers.2.feed_forward"
    owners = (f"{attention}.lora.key", f"{feed_forward}.inner.lora.inner", f"{feed_forward}.outer.lora.outer")
    assert names == {f"{owner}.{letter}" for owner in owners for letter in "ab"}


@pytest.mark.parametrize(
    "freeze, message",
    [
        (["encoder.3"], "training.freeze = encoder.3: the encoder has layers 0 to 2 (model.num_encoder_layers = 3)"),
        (["decoder.0-2"], "training.freeze = decoder.0-2: the decoder has layers 0 to 1"),
        (["encoder.2-1"], "training.freeze = encoder.2-1: the encoder has layers 0 to 2"),
        (
            ["embeddings", "encoder", "decoder.0-1"],
            "training.freeze = [embeddings, encoder, decoder.0-1] leaves nothing",
        ),
    ],
)
def test_what_cannot_be_frozen(freeze: list[str], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        trained(*freeze)


def test_lora_in_no_layer_trains_nothing() -> None:
    with pytest.raises(InputError, match=re.escape("training.freeze = [encoder, decoder] leaves nothing to train")):
        trained("encoder", "decoder", lora_rank=2)
    with pytest.raises(InputError, match=r"encoder has layer 0 \(model.num_encoder_layers = 1\)"):
        trained("encoder.1", model={"num_encoder_layers": 1})
