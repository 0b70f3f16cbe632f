"""Attention: the notebooks' numbers by hand, and torch.nn.MultiheadAttention as the independent program."""

import math

import pytest
import torch
from torch import Tensor, nn

from translate.model.attention import KeyValue, MultiHeadAttention, scaled_dot_product_attention

BATCH, HEADS, QUERY, KEY, D_MODEL = 2, 3, 5, 7, 33  # head_dim = 11

KEYS = torch.tensor([[10.0, 0, 0], [0, 10, 0], [0, 0, 10], [0, 0, 10]])
VALUES = torch.tensor([[1.0, 0, 1], [10, 0, 2], [100, 5, 0], [1000, 6, 0]])


@pytest.mark.parametrize(
    ("query", "expected", "expected_weights"),
    [
        ([0.0, 10, 0], [10.0, 0, 2], [0.0, 1, 0, 0]),  # the second key
        ([0.0, 0, 10], [550.0, 5.5, 0], [0.0, 0, 0.5, 0.5]),  # two equal keys: the mean of their values
        ([10.0, 10, 0], [5.5, 0, 1.5], [0.5, 0.5, 0, 0]),  # two keys by halves
    ],
)
def test_the_notebooks_queries_find_their_values(
    query: list[float], expected: list[float], expected_weights: list[float]
) -> None:
    # By hand: scores are 0 or 100 / sqrt(3) = 57.7, and exp(-57.7) is nothing in fp32.
    attended = scaled_dot_product_attention(torch.tensor([query]), KEYS, VALUES)
    torch.testing.assert_close(attended.output, torch.tensor([expected]))
    torch.testing.assert_close(attended.weights, torch.tensor([expected_weights]))


def test_dropout_acts_on_the_weights_and_the_weights_returned_are_those_before_it() -> None:
    attended = scaled_dot_product_attention(torch.zeros(1, 3), torch.zeros(2, 3), VALUES[:2], dropout=lambda w: 2 * w)
    torch.testing.assert_close(attended.weights, torch.tensor([[0.5, 0.5]]))
    torch.testing.assert_close(attended.output, torch.tensor([[11.0, 0, 3]]))


def attention_and_reference() -> tuple[MultiHeadAttention, nn.MultiheadAttention]:
    """Ours and torch's, with the same random weights, in fp64."""
    ours = MultiHeadAttention(d_model=D_MODEL, num_heads=HEADS).double()
    reference = nn.MultiheadAttention(D_MODEL, HEADS, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        for mine, theirs in parameter_pairs(ours, reference):
            mine.normal_()
            theirs.copy_(mine)
    return ours, reference


def parameter_pairs(ours: MultiHeadAttention, reference: nn.MultiheadAttention) -> list[tuple[Tensor, Tensor]]:
    return [
        (ours.input_projection.weight, reference.in_proj_weight),
        (ours.input_projection.bias, reference.in_proj_bias),
        (ours.output_projection.weight, reference.out_proj.weight),
        (ours.output_projection.bias, reference.out_proj.bias),
    ]


@pytest.mark.parametrize("kind", ["self", "cross"])
def test_outputs_weights_and_gradients_are_those_of_torch(kind: str) -> None:
    ours, reference = attention_and_reference()
    hidden = torch.randn(BATCH, QUERY, D_MODEL, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(BATCH, KEY, D_MODEL, dtype=torch.float64, requires_grad=True) if kind == "cross" else None
    inputs = [hidden] if memory is None else [hidden, memory]
    keys = QUERY if memory is None else KEY
    real = torch.ones(BATCH, keys, dtype=torch.bool)
    real[1, 3:] = False
    no_peek = torch.ones(QUERY, keys, dtype=torch.bool).tril() if memory is None else real.new_ones(QUERY, keys)

    seen: list[Tensor] = []
    ours.weights_dropout.register_forward_hook(lambda module, args, output: seen.append(args[0]))
    output = ours(hidden, memory, visible=real[:, None, None, :] & no_peek)
    looked_at = hidden if memory is None else memory
    expected, expected_weights = reference(
        hidden, looked_at, looked_at, key_padding_mask=~real, attn_mask=~no_peek, average_attn_weights=False
    )
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-12)
    assert len(seen) == 1
    torch.testing.assert_close(seen[0], expected_weights, rtol=0, atol=1e-12)

    direction = torch.randn_like(output)
    mine, theirs = zip(*parameter_pairs(ours, reference), strict=True)
    gradients = torch.autograd.grad(output, [*mine, *inputs], direction)
    expected_gradients = torch.autograd.grad(expected, [*theirs, *inputs], direction)
    for gradient, expected_gradient in zip(gradients, expected_gradients, strict=True):
        assert gradient.abs().max() > 1e-3
        torch.testing.assert_close(gradient, expected_gradient, rtol=0, atol=1e-11)


def visible_and_bias() -> tuple[Tensor, Tensor]:
    visible = torch.rand(BATCH, 1, QUERY, KEY) < 0.6
    visible[..., 0] = True
    bias = torch.randn(BATCH, HEADS, QUERY, KEY, dtype=torch.float64)
    return visible, bias.masked_fill(torch.rand_like(bias) < 0.2, -math.inf).index_fill(3, torch.tensor([0]), 0.5)


def split_heads(length: int) -> Tensor:
    return torch.randn(BATCH, HEADS, length, 11, dtype=torch.float64)


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("has_visible", [False, True])
def test_without_gradients_the_fused_kernel_gives_what_the_formula_gives(
    has_visible: bool, has_bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    attention, _ = attention_and_reference()
    attention.eval()
    visible, bias = visible_and_bias()
    masks = {"visible": visible if has_visible else None, "bias": bias if has_bias else None}
    query, key_value = split_heads(QUERY), KeyValue(split_heads(KEY), split_heads(KEY))
    expected = attention.attend(query, key_value, **masks)  # gradients are on: the formula
    assert expected.requires_grad

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("the formula was computed")

    monkeypatch.setattr("translate.model.attention.scaled_dot_product_attention", refuse)
    with pytest.raises(AssertionError, match="the formula was computed"):
        attention.attend(query, key_value, **masks)
    for context in (torch.no_grad, torch.inference_mode):
        with context():
            fused = attention.attend(query, key_value, **masks)
        torch.testing.assert_close(fused, expected.detach(), rtol=0, atol=1e-12)


def test_dropout_in_training_acts_even_without_gradients() -> None:
    attention = MultiHeadAttention(d_model=D_MODEL, num_heads=HEADS, dropout=0.5)
    hidden = torch.randn(BATCH, QUERY, D_MODEL)
    with torch.no_grad():
        assert not torch.equal(attention(hidden), attention(hidden))
        attention.eval()
        torch.testing.assert_close(attention(hidden), attention(hidden), rtol=0, atol=0)


def test_a_hook_sees_the_weights_that_were_used_even_without_gradients() -> None:
    """From the weights seen, the output by hand; once the hook has gone, the fused kernel gives the same."""
    attention, _ = attention_and_reference()
    attention.eval()
    visible, bias = visible_and_bias()
    query, key_value = split_heads(QUERY), KeyValue(split_heads(KEY), split_heads(KEY))
    seen: list[Tensor] = []
    handle = attention.weights_dropout.register_forward_hook(lambda module, args, output: seen.append(output))
    with torch.inference_mode():
        watched = attention.attend(query, key_value, visible=visible, bias=bias)
        handle.remove()
        unwatched = attention.attend(query, key_value, visible=visible, bias=bias)
        (weights,) = seen
        expected = attention.output_projection((weights @ key_value.value).transpose(1, 2).flatten(2))
    assert weights.shape == (BATCH, HEADS, QUERY, KEY)
    torch.testing.assert_close(weights.sum(dim=3), torch.ones_like(weights[..., 0]))
    is_seen = visible & (bias > -math.inf)
    assert (weights[~is_seen] == 0.0).all() and (weights[is_seen] > 0.0).all()
    torch.testing.assert_close(watched, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(unwatched, expected, rtol=0, atol=1e-12)


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ValueError, match=r"^num_heads = 5 must divide d_model = 33$"):
        MultiHeadAttention(d_model=33, num_heads=5)
