"""LoRA: outputs and gradients are those of the library PEFT, and the merged weights compute what the updates did."""

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from translate.model import Transformer, pack
from translate.model.attention import MultiHeadAttention, Projection
from translate.model.layers import FeedForward
from translate.model.lora import LoraProjection, LoraUpdate, add_lora, is_lora, merge_lora
from translate.runs.weights import get_parameters

Build = Callable[..., Transformer]
PAD, VOCAB = 3, 23
ALL = ("query", "key", "value", "output", "feed_forward")
OPTIONS: dict[str, Any] = {"targets": ALL, "rank": 5, "alpha": 7.0, "dropout": 0.0}


def adapt(model: Transformer, **options: Any) -> Transformer:
    """The model with updates in all layers, all of them random, and all else frozen."""
    model.requires_grad_(False)
    add_lora([*model.encoder.layers, *model.decoder.layers], **OPTIONS | options)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if is_lora(name):
                parameter.copy_(0.3 * torch.randn_like(parameter))
    return model


def test_updates_are_in_fp32_whatever_the_matrix_is() -> None:
    drawn = []
    for dtype in (torch.float32, torch.bfloat16):
        torch.manual_seed(3)
        drawn.append(LoraUpdate(torch.zeros(7, 5, dtype=dtype), rank=2, dropout=0.0))
    assert torch.equal(drawn[0].a, drawn[1].a) and drawn[1].a.dtype == drawn[1].b.dtype == torch.float32


def batch() -> tuple[Tensor, Tensor]:
    source, target = torch.randint(PAD + 1, VOCAB, (2, 7)), torch.randint(PAD + 1, VOCAB, (2, 11))
    source[1, 4:] = PAD
    target[1, 9:] = PAD
    return source, target


class SplitProjection(nn.Module):
    """A fused projection as PEFT needs it: with a linear layer for each of its matrices."""

    def __init__(self, projection: nn.Linear, names: tuple[str, ...]) -> None:
        super().__init__()
        self.names, size = names, projection.out_features // len(names)
        for name, weight, bias in zip(names, projection.weight.split(size), projection.bias.split(size), strict=True):
            layer = nn.Linear(projection.in_features, size, dtype=weight.dtype)
            layer.weight, layer.bias = nn.Parameter(weight.clone()), nn.Parameter(bias.clone())
            setattr(self, name, layer)

    def forward(self, hidden: Tensor) -> Tensor:
        return torch.cat([getattr(self, name)(hidden) for name in self.names], dim=-1)

    def rows(self, hidden: Tensor, rows: slice) -> Tensor:
        return self(hidden)[..., rows]

    def split(self, *inputs: Tensor, sizes: Sequence[int]) -> list[Tensor]:
        return [self(hidden).split(sizes, dim=-1)[number] for number, hidden in enumerate(inputs)]


@pytest.mark.parametrize(
    "targets, activation", [(("query", "value"), "relu"), (("key", "output", "feed_forward"), "swiglu"), (ALL, "gelu")]
)
def test_outputs_and_gradients_are_those_of_peft(build: Build, targets: tuple[str, ...], activation: str) -> None:
    peft = pytest.importorskip("peft", reason="peft is not installed: it is in the extra `test`")
    model = build(activation=activation)
    theirs = copy.deepcopy(model)
    for module in theirs.modules():
        if isinstance(module, MultiHeadAttention):
            module.input_projection = SplitProjection(module.input_projection, ("query", "key", "value"))
        elif isinstance(module, FeedForward) and module.is_gated:
            module.inner = SplitProjection(module.inner, ("gate", "inner"))
    modules = {
        "output": ["output_projection"],
        "feed_forward": ["outer", *(["inner.gate", "inner.inner"] if model.config.is_gated else ["inner"])],
    }
    names = [name for target in targets for name in modules.get(target, [target])]
    settings = peft.LoraConfig(r=5, lora_alpha=7, lora_dropout=0.0, target_modules=names)
    theirs = peft.inject_adapter_in_model(settings, theirs)
    adapt(model, targets=targets)

    # Each of our updates beside theirs, with the same numbers.
    mine, same = [], []
    for name, parameter in model.named_parameters():
        if not is_lora(name):
            assert not parameter.requires_grad
            continue
        owner, _, rest = name.partition(".lora.")
        matrix, _, letter = rest.partition(".")
        split = f"{owner}.{matrix}"
        found = dict(theirs.named_modules())
        layer = found[split if split in found else owner]
        mine.append(parameter)
        same.append({"a": layer.lora_A, "b": layer.lora_B}[letter]["default"].weight)
        with torch.no_grad():
            same[-1].copy_(parameter)
    trained = [parameter for parameter in theirs.parameters() if parameter.requires_grad]
    assert {id(parameter) for parameter in trained} == {id(parameter) for parameter in same}
    assert sum(parameter.numel() for parameter in trained) == model.num_trained_parameters

    source, target = batch()
    logits, expected = model(source, target), theirs(source, target)
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-11)
    direction = torch.randn_like(logits)
    gradients, expected_gradients = (
        torch.autograd.grad(each, parameters, direction) for each, parameters in ((logits, mine), (expected, same))
    )
    for gradient, expected_gradient in zip(gradients, expected_gradients, strict=True):
        assert expected_gradient.abs().max() > 1e-4
        torch.testing.assert_close(gradient, expected_gradient, rtol=0, atol=1e-9)


def test_an_update_by_hand_in_each_part_of_a_fused_projection() -> None:
    projection = Projection(2, 6)
    hidden, matrices = torch.tensor([[3.0, 5.0]]), ("query", "key", "value")
    plain = projection(hidden)
    layer = LoraProjection(projection, matrices=matrices, adapted={"key"}, rank=1, alpha=4.0, dropout=0.0)
    torch.testing.assert_close(layer(hidden), plain)  # B is zero
    assert layer.lora["key"].a.abs().max() > 0
    layer.lora["key"].a.data = torch.tensor([[1.0, 2.0]])
    layer.lora["key"].b.data = torch.tensor([[10.0], [20.0]])
    # 4 / 1 · (3 · 1 + 5 · 2) · (10, 20)
    expected = plain + torch.tensor([[0.0, 0.0, 520.0, 1040.0, 0.0, 0.0]])
    torch.testing.assert_close(layer(hidden), expected)
    torch.testing.assert_close(layer.rows(hidden, slice(0, 2)), expected[:, :2])  # as cross-attention asks
    torch.testing.assert_close(layer.rows(hidden, slice(2, None)), expected[:, 2:])
    merged = projection.weight + torch.tensor([[0.0, 0.0]] * 2 + [[40.0, 80.0], [80.0, 160.0]] + [[0.0, 0.0]] * 2)
    model = nn.ModuleDict({"attention": layer})
    found = merge_lora(get_parameters(model), alpha=4.0)
    torch.testing.assert_close(found, {"attention.weight": merged, "attention.bias": projection.bias.detach()})


def test_a_is_drawn_as_peft_draws_it_and_rank_scales_it() -> None:
    # Kaiming's uniform distribution with a = √5 has the bound 1 / √inputs.
    layer = LoraProjection(Projection(400, 8), matrices=("outer",), adapted={"outer"}, rank=50, alpha=1.0, dropout=0.0)
    a = layer.lora["outer"].a.detach()
    assert a.abs().max() <= 0.05 and a.abs().max() > 0.0499
    assert math.isclose(float(a.std()), 0.05 / math.sqrt(3), rel_tol=0.02)
    assert not layer.lora["outer"].b.any()


@pytest.mark.parametrize("activation", ["relu", "swiglu"])
def test_merged_weights_are_a_plain_models(build: Build, activation: str) -> None:
    plain = build(activation=activation)
    model = adapt(copy.deepcopy(plain))
    source, target = batch()
    expected = model(source, target)
    assert not torch.allclose(plain(source, target), expected)
    merged, before = merge_lora(get_parameters(model), alpha=7.0), get_parameters(plain)
    assert merged.keys() == before.keys()
    changed = [name for name in merged if not torch.equal(merged[name], before[name])]
    assert len(changed) == 2 * 4 + 3 * 6  # of 2 encoder layers and 3 decoder layers
    plain.load_state_dict(merged, strict=False)
    torch.testing.assert_close(plain(source, target), expected, rtol=0, atol=1e-11)


def test_steps_with_a_cache_and_packed_batches_have_the_updates(build: Build) -> None:
    model = adapt(build()).eval()
    source, target = batch()
    expected = model(source, target)
    packed = model(pack(source, pad_id=PAD, is_flash=False), pack(target, pad_id=PAD, is_flash=False))
    torch.testing.assert_close(packed[0], expected[target != PAD], rtol=0, atol=1e-11)
    with torch.no_grad():
        cache = model.decoder.start(model.encoder(source), beam_size=1, max_length=3)
        for position in range(3):
            hidden, cache = model.decoder.step(target[:, position : position + 1], cache)
            torch.testing.assert_close(model.output(hidden)[:, 0], expected[:, position], rtol=0, atol=1e-10)


def test_dropout_is_on_the_input_of_the_updates_alone() -> None:
    projection = Projection(64, 8)
    options: dict[str, Any] = {"matrices": ("outer",), "adapted": {"outer"}, "rank": 64, "alpha": 64.0}
    layer = LoraProjection(projection, **options, dropout=0.5)
    layer.lora["outer"].a.data = torch.eye(64)
    layer.lora["outer"].b.data = torch.eye(64)[:8]
    hidden = torch.ones(1000, 64)
    update = layer(hidden) - projection(hidden)
    zero, doubled = update.abs() < 1e-5, (update - 2.0).abs() < 1e-5
    assert (zero | doubled).all() and 0.45 < zero.float().mean() < 0.55
    torch.testing.assert_close(layer.eval()(hidden), projection(hidden) + 1.0)
