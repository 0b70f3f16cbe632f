"""Feed-forward and add-and-norm, computed by hand."""

import math

import pytest
import torch
from torch import Tensor, nn

from translate.config.schema import ModelConfig
from translate.model.layers import AddAndNorm, FeedForward


def set_linear(linear: nn.Linear, weight: list[list[float]], bias: list[float]) -> None:
    with torch.no_grad():
        linear.weight.copy_(torch.tensor(weight))
        linear.bias.copy_(torch.tensor(bias))


def feed_forward(activation: str, *, d_model: int, d_ff: int, dropout: float = 0.0) -> FeedForward:
    settings = {"d_model": d_model, "d_ff": d_ff, "activation": activation, "activation_dropout": dropout}
    return FeedForward(ModelConfig.model_validate(settings | {"num_heads": 1, "positions": "relative"}))


def test_relu_by_hand() -> None:
    layer = feed_forward("relu", d_model=2, d_ff=3)
    set_linear(layer.inner, [[1.0, 0], [0, -1], [2, 1]], [0.5, 0, -7])
    set_linear(layer.outer, [[1.0, 10, 100], [3, 5, 7]], [1000.0, -2])
    # (2, -3): inner (2.5, 3, -6) -> (2.5, 3, 0); outer 2.5 + 30 + 1000, 7.5 + 15 - 2.
    # (4, 1): inner (4.5, -1, 2) -> (4.5, 0, 2); outer 4.5 + 200 + 1000, 13.5 + 14 - 2.
    output = layer(torch.tensor([[[2.0, -3], [4, 1]]]))
    torch.testing.assert_close(output, torch.tensor([[[1032.5, 20.5], [1204.5, 25.5]]]))


def test_gelu_by_hand() -> None:
    layer = feed_forward("gelu", d_model=2, d_ff=3)
    set_linear(layer.inner, [[1.0, 0], [0, 1], [1, 1]], [0.0, 0, 0])
    set_linear(layer.outer, [[1.0, 0, 0], [0, 1, 10]], [0.0, 0])

    def gelu(x: float) -> float:  # x times the normal distribution's probability of less than x
        return x * 0.5 * (1.0 + math.erf(x / math.sqrt(2.0)))

    output = layer(torch.tensor([[[2.0, -0.5]]]))
    torch.testing.assert_close(output, torch.tensor([[[gelu(2.0), gelu(-0.5) + 10 * gelu(1.5)]]]))


def test_swiglu_by_hand() -> None:
    layer = feed_forward("swiglu", d_model=2, d_ff=3)
    gate, inner = [[1.0, 0], [0, 1], [1, 1]], [[0.0, 2], [3, 0], [1, -1]]
    set_linear(layer.inner, gate + inner, [0.0, 0, 0.5, 1, 0, 0])
    set_linear(layer.outer, [[1.0, 10, 100], [0, 0, 1]], [0.25, -1])

    def silu(x: float) -> float:
        return x / (1.0 + math.exp(-x))

    # (2, -1): gate (2, -1, 1.5), inner (-1, 6, 3).
    active = [silu(2.0) * -1, silu(-1.0) * 6, silu(1.5) * 3]
    expected = [active[0] + 10 * active[1] + 100 * active[2] + 0.25, active[2] - 1]
    torch.testing.assert_close(layer(torch.tensor([[[2.0, -1]]])), torch.tensor([[expected]]))


def test_swish_by_hand() -> None:
    layer = feed_forward("swish", d_model=2, d_ff=3)
    set_linear(layer.inner, [[1.0, 0], [0, 1], [1, 1]], [0.0, 0, 0])
    set_linear(layer.outer, [[1.0, 0, 0], [0, 1, 10]], [0.0, 0])
    swish = [x / (1.0 + math.exp(-x)) for x in (2.0, -0.5, 1.5)]
    output = layer(torch.tensor([[[2.0, -0.5]]]))
    torch.testing.assert_close(output, torch.tensor([[[swish[0], swish[1] + 10 * swish[2]]]]))


@pytest.mark.parametrize("activation", ["relu", "gelu", "swiglu"])
def test_activation_dropout_stands_between_activation_and_outer(activation: str) -> None:
    layer = feed_forward(activation, d_model=5, d_ff=7, dropout=0.5)
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
