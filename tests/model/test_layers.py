"""Feed-forward and add-and-norm, computed by hand."""

import math
from collections.abc import Callable
from typing import get_args

import pytest
import torch
from torch import Tensor, nn

from translate.config.schema import ModelConfig
from translate.model.layers import AddAndNorm, FeedForward

ACTIVATIONS = get_args(ModelConfig.model_fields["activation"].annotation)


def silu(x: float) -> float:
    return x / (1.0 + math.exp(-x))


FORMULAS: dict[str, Callable[[float], float]] = {
    "relu": lambda x: max(x, 0.0),
    "gelu": lambda x: x * 0.5 * (1.0 + math.erf(x / math.sqrt(2.0))),  # x times the normal probability of less than x
    "swish": silu,
    "swiglu": silu,  # of the gate
    "geglu": lambda x: 0.5 * x * (1.0 + math.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))),
}


def feed_forward(activation: str, **options: float) -> FeedForward:
    settings = {"d_model": 2, "d_ff": 3, "activation": activation, "num_heads": 1, "positions": "relative"}
    return FeedForward(ModelConfig.model_validate(settings | options))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_feed_forward_by_hand(activation: str) -> None:
    layer = feed_forward(activation)
    gate, inner = [[1.0, 0], [0, -1], [2, 1]], [[0.0, 2], [3, 0], [1, -1]]
    rows, biases = (gate + inner, [0.5, 0, -7, 1, 0, 0]) if layer.is_gated else (gate, [0.5, 0, -7])
    with torch.no_grad():
        layer.inner.weight.copy_(torch.tensor(rows))
        layer.inner.bias.copy_(torch.tensor(biases))
        layer.outer.weight.copy_(torch.tensor([[1.0, 10, 100], [3, 5, 7]]))
        layer.outer.bias.copy_(torch.tensor([1000.0, -2]))
    # (2, -3): first rows 2.5, 3, -6; of a gated layer the others are -5, 6, 5. (4, 1): 4.5, -1, 2 and 3, 12, 3.
    expected = []
    for first, factors in (((2.5, 3.0, -6.0), (-5.0, 6.0, 5.0)), ((4.5, -1.0, 2.0), (3.0, 12.0, 3.0))):
        a, b, c = (FORMULAS[activation](x) * (y if layer.is_gated else 1) for x, y in zip(first, factors, strict=True))
        expected.append([a + 10 * b + 100 * c + 1000, 3 * a + 5 * b + 7 * c - 2])
    torch.testing.assert_close(layer(torch.tensor([[[2.0, -3], [4, 1]]])), torch.tensor([expected]))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activation_dropout_is_between_activation_and_outer(activation: str) -> None:
    layer = feed_forward(activation, d_model=5, d_ff=7, activation_dropout=0.5)
    layer.dropout.register_forward_hook(lambda module, args, output: torch.zeros_like(output))
    torch.testing.assert_close(layer(torch.randn(2, 3, 5)), layer.outer.bias.expand(2, 3, 5))
    assert layer.outer.bias.abs().min() > 0


# The vector (1, 3) has mean 2 and variance 1; with epsilon 0.0 it would be normalised to (-1, 1).
@pytest.mark.parametrize(
    ("norm", "expected"),
    [
        # sublayer((1, 3)) = (10, 30), the sum (11, 33) has mean 22 and standard deviation 11: (-1, 1) · weight + bias.
        ("post", [-2.0 + 0.5, 3.0 + 0.25]),
        # norm((1, 3)) = (-1, 1) · weight + bias = (-1.5, 3.25), ten times that, and the residual (1, 3).
        ("pre", [1.0 - 15.0, 3.0 + 32.5]),
    ],
)
def test_add_and_norm_by_hand(norm: str, expected: list[float]) -> None:
    add_and_norm = AddAndNorm(ModelConfig(d_model=2, num_heads=1, norm=norm, dropout=0.0, norm_epsilon=1e-12))
    with torch.no_grad():
        add_and_norm.norm.weight.copy_(torch.tensor([2.0, 3.0]))
        add_and_norm.norm.bias.copy_(torch.tensor([0.5, 0.25]))
    output = add_and_norm(torch.tensor([[[1.0, 3.0]]]), lambda hidden: 10 * hidden)
    torch.testing.assert_close(output, torch.tensor([[expected]]))


def test_rms_norm_by_hand() -> None:
    """The mean square of (1, 7) is 25, and with epsilon 24 it is 49: (1, 7) / 7, times the weight, and no bias."""
    config = ModelConfig(d_model=2, num_heads=1, norm="pre", dropout=0.0, norm_kind="rms", norm_epsilon=1e-12)
    add_and_norm = AddAndNorm(config)
    assert [name for name, _ in add_and_norm.named_parameters()] == ["norm.weight"]
    with torch.no_grad():
        add_and_norm.norm.weight.copy_(torch.tensor([2.0, 3.0]))
    hidden = torch.tensor([[[1.0, 7.0]]])
    torch.testing.assert_close(add_and_norm(hidden, lambda x: 10 * x), torch.tensor([[[1 + 4.0, 7 + 42.0]]]))
    add_and_norm.norm.eps = 24.0
    torch.testing.assert_close(add_and_norm(hidden, lambda x: x), torch.tensor([[[1 + 2 / 7, 7 + 3.0]]]))


def test_epsilon_is_added_to_the_variance() -> None:
    # Variance of (1, 3) is 1: (-1, 1) / sqrt(1 + 0.0404) = (-1, 1) / 1.02.
    add_and_norm = AddAndNorm(ModelConfig(d_model=2, num_heads=1, norm_epsilon=0.0404))
    output = add_and_norm(torch.tensor([[[1.0, 3.0]]]), torch.zeros_like)
    torch.testing.assert_close(output, torch.tensor([[[-1 / 1.02, 1 / 1.02]]]))


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_residual_dropout_drops_the_sublayer_and_not_the_residual(norm: str) -> None:
    add_and_norm = AddAndNorm(ModelConfig(d_model=2, num_heads=1, norm=norm, dropout=0.5))
    dropped: list[Tensor] = []

    def drop_all(module: nn.Module, args: tuple[Tensor], output: Tensor) -> Tensor:
        dropped.append(args[0])
        return torch.zeros_like(output)

    add_and_norm.dropout.register_forward_hook(drop_all)
    hidden = torch.tensor([[[1.0, 3.0]]])
    output = add_and_norm(hidden, lambda x: torch.full_like(x, 7.0))
    assert torch.equal(dropped[0], torch.full((1, 1, 2), 7.0))
    torch.testing.assert_close(output, hidden if norm == "pre" else add_and_norm.norm(hidden))
