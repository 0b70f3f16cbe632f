"""Batches on their way to the device: both layouts give the same loss, and the one that serves is chosen."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from translate.config import Config, ModelConfig, TrainingConfig
from translate.data.batching import Batch, EncodedPair, collate
from translate.data.tokenizer import BOS_ID, EOS_ID, PAD_ID
from translate.model import PackedSequences, Transformer
from translate.training import setup
from translate.training.loss import label_smoothed_loss
from translate.training.precision import MixedPrecision
from translate.training.setup import choose_batch_layout
from translate.training.step import BatchLayout, TrainingForward, move_to_device

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
VOCAB = 23


def build(**options: Any) -> Transformer:
    small: dict[str, Any] = {
        "d_model": 12, "num_heads": 3, "d_ff": 17, "num_encoder_layers": 2, "num_decoder_layers": 2, "dropout": 0.0,
    }  # fmt: skip
    return Transformer(
        ModelConfig(**small | options), source_vocab_size=VOCAB, target_vocab_size=VOCAB, pad_id=PAD_ID
    ).train()


def some_batch() -> Batch:
    lengths = [(2, 7), (11, 3), (5, 13), (0, 0)]
    pairs = [EncodedPair(*(torch.randint(4, VOCAB, (side,)).tolist() for side in pair)) for pair in lengths]
    return collate(pairs, range(4))


def test_a_padded_batch_knows_its_real_targets() -> None:
    batch = collate([EncodedPair([5, 6], [7, 8]), EncodedPair([9], [])], [0, 1])
    padded = move_to_device(batch, CPU, layout="padded")
    assert padded.real is not None and padded.real.tolist() == [0, 1, 2, 3]
    assert padded.target_ids.tolist() == [7, 8, EOS_ID, EOS_ID]


def test_a_packed_batch_has_no_padding() -> None:
    batch = collate([EncodedPair([5, 6], [7, 8]), EncodedPair([9], [])], [0, 1])
    packed = move_to_device(batch, CPU, layout="flash")
    assert isinstance(packed.source, PackedSequences) and isinstance(packed.target_input, PackedSequences)
    assert packed.source.is_flash and packed.target_input.is_flash
    assert packed.source.ids.tolist() == [[5, 6, EOS_ID, 9, EOS_ID]]
    assert packed.target_input.ids.tolist() == [[BOS_ID, 7, 8, BOS_ID]]
    assert packed.target_ids.tolist() == [7, 8, EOS_ID, EOS_ID]
    assert (packed.source.max_seqlen, packed.target_input.max_seqlen) == (3, 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "relative"])
def test_both_layouts_give_the_same_loss_and_gradients(positions: str, dtype: torch.dtype) -> None:
    model, batch = build(positions=positions), some_batch()

    def loss_and_gradients(layout: BatchLayout) -> tuple[Tensor, list[Tensor]]:
        on_device = move_to_device(batch, CPU, layout=layout)
        with torch.autocast("cpu", dtype=dtype, enabled=dtype != torch.float32):
            loss = label_smoothed_loss(
                TrainingForward(model)(on_device), model.output.weight, on_device.target_ids, smoothing=0.1
            )
        assert loss.tokens == batch.num_target_tokens == 27
        return loss.loss.detach(), list(torch.autograd.grad(loss.loss, list(model.parameters())))

    (loss, gradients), (expected_loss, expected) = loss_and_gradients("packed"), loss_and_gradients("padded")
    rounding = 1e-5 if dtype == torch.float32 else 0.02
    torch.testing.assert_close(loss, expected_loss, rtol=rounding, atol=0)
    for mine, wanted in zip(gradients, expected, strict=True):
        torch.testing.assert_close(mine, wanted, rtol=rounding, atol=rounding * float(wanted.abs().max()))


# --- which layout


def choose(wish: str, device: torch.device, precision: str = "bf16", **model: Any) -> tuple[str, str | None]:
    settings = TrainingConfig.model_validate({"batch_layout": wish, "precision": precision})
    return choose_batch_layout(settings, ModelConfig(**model), MixedPrecision.choose(settings, device))


@pytest.mark.parametrize("wish", ["auto", "padded"])
def test_a_cpu_pads_without_a_word(wish: str) -> None:
    assert choose(wish, CPU) == ("padded", None)


def test_a_cpu_packs_if_it_must() -> None:
    remark = "batches are packed, but attention pads for itself: flash attention for variable lengths is for CUDA"
    assert choose("packed", CPU) == ("packed", remark)


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
        ("fp32", {}, "flash attention for variable lengths needs training.precision=bf16 or fp16"),
        ("bf16", {"attention_dropout": 0.1}, r"has no dropout, and model.attention_dropout = 0.1"),
        ("bf16", {"positions": "relative"}, "has no bias, and model.positions = 'relative' is one"),
        ("bf16", {}, "flash attention for variable lengths: it fails: no kernel"),
    ],
)
def test_why_not_is_said(monkeypatch: pytest.MonkeyPatch, precision: str, model: dict[str, Any], reason: str) -> None:
    monkeypatch.setattr(setup, "why_no_flash_attention", lambda device, **about: "it fails: no kernel")
    for wish, layout in (("auto", "padded"), ("packed", "packed")):
        chosen, remark = choose(wish, CUDA, precision, **model)
        assert chosen == layout
        assert remark is not None and remark.endswith(reason)


def test_a_packed_training_is_the_padded_one(
    digits: Callable[..., Config], run_training: Callable[..., list[str]], tmp_path: Path
) -> None:
    def train(wish: str) -> tuple[list[str], list[float]]:
        few = ("training.max_steps=9", "training.validate_every=9", "training.log_every=3", "model.dropout=0")
        said = run_training(digits(*few, f"training.batch_layout={wish}"), tmp_path / wish)
        lines = (tmp_path / wish / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        return said, [json.loads(line)["loss"] for line in lines]

    (said, packed), (_, padded) = train("packed"), train("padded")
    assert any("batches are packed, but attention pads for itself" in line for line in said)
    assert packed == pytest.approx(padded, rel=1e-4)
    assert len(packed) == 4  # and the validation's
