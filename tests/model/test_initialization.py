"""Weights before training, against Xavier's bounds computed by hand."""

import math

import pytest
import torch
from torch import Tensor, nn

from translate.config.schema import ModelConfig
from translate.model import Transformer
from translate.model.attention import MultiHeadAttention

D_MODEL, D_FF, VOCAB = 62, 97, 1009


def build(method: str, *, tie_embeddings: str = "all", activation: str = "relu") -> Transformer:
    config = ModelConfig(
        d_model=D_MODEL, num_heads=2, d_ff=D_FF, num_encoder_layers=1, num_decoder_layers=1,
        initialization=method, tie_embeddings=tie_embeddings, activation=activation,
    )  # fmt: skip
    return Transformer(config, source_vocab_size=VOCAB, target_vocab_size=VOCAB, pad_id=3)


def assert_uniform(weight: Tensor, bound: float) -> None:
    """Thousands of draws from U(-bound, bound): none outside, some within 1 % of each end, mean about 0."""
    assert weight.numel() > 3000
    assert 0.99 * bound < weight.max() <= bound
    assert -bound <= weight.min() < -0.99 * bound
    assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)


def attentions(model: nn.Module) -> list[MultiHeadAttention]:
    found = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    assert len(found) == 3
    return found


def test_paper_draws_query_key_and_value_each_by_itself() -> None:
    for attention in attentions(build("paper")):
        for rows in range(3):
            weight = attention.input_projection.weight[rows * D_MODEL : (rows + 1) * D_MODEL]
            assert_uniform(weight, math.sqrt(6 / (D_MODEL + D_MODEL)))
        assert_uniform(attention.output_projection.weight, math.sqrt(6 / (D_MODEL + D_MODEL)))


def test_xavier_draws_the_fused_matrix_whole() -> None:
    for attention in attentions(build("xavier")):
        assert_uniform(attention.input_projection.weight, math.sqrt(6 / (D_MODEL + 3 * D_MODEL)))
        assert_uniform(attention.output_projection.weight, math.sqrt(6 / (D_MODEL + D_MODEL)))


@pytest.mark.parametrize("method", ["paper", "xavier"])
def test_feed_forward_is_xavier_either_way(method: str) -> None:
    layer = build(method).encoder.layers[0].feed_forward
    assert_uniform(layer.inner.weight, math.sqrt(6 / (D_MODEL + D_FF)))
    assert_uniform(layer.outer.weight, math.sqrt(6 / (D_MODEL + D_FF)))


@pytest.mark.parametrize("tie_embeddings", ["none", "decoder", "all"])
def test_paper_embeddings_are_normal_with_variance_one_over_the_width(tie_embeddings: str) -> None:
    model = build("paper", tie_embeddings=tie_embeddings)
    for embedder in (model.encoder.embedder, model.decoder.embedder):
        weight = embedder.tokens.weight
        assert weight.std().item() == pytest.approx(D_MODEL**-0.5, rel=0.02)
        assert weight.mean().item() == pytest.approx(0.0, abs=0.003)
        assert weight.abs().max() > 3.5 * D_MODEL**-0.5  # a tail: not uniform
        scaled = embedder.tokens(torch.arange(VOCAB)) * embedder.scale
        assert scaled.var().item() == pytest.approx(1.0, rel=0.04)


@pytest.mark.parametrize("tie_embeddings", ["none", "decoder", "all"])
def test_xavier_embeddings_and_output(tie_embeddings: str) -> None:
    model = build("xavier", tie_embeddings=tie_embeddings)
    for matrix in (model.encoder.embedder.tokens, model.decoder.embedder.tokens, model.output):
        assert_uniform(matrix.weight, math.sqrt(6 / (VOCAB + D_MODEL)))


def test_an_output_layer_of_its_own_is_xavier() -> None:
    assert_uniform(build("paper", tie_embeddings="none").output.weight, math.sqrt(6 / (VOCAB + D_MODEL)))


@pytest.mark.parametrize("method", ["paper", "xavier"])
def test_biases_are_zero_and_norms_are_one(method: str) -> None:
    biases = 0
    for module in build(method).modules():
        if isinstance(module, nn.LayerNorm):
            assert (module.weight == 1.0).all() and (module.bias == 0.0).all()
        elif isinstance(module, nn.Linear) and module.bias is not None:
            assert (module.bias == 0.0).all()
            biases += 1
    assert biases == 3 * 2 + 2 * 2  # three attentions and two feed-forward layers, two matrices each


@pytest.mark.parametrize("method", ["paper", "xavier"])
def test_the_same_seed_gives_the_same_weights(method: str) -> None:
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(build(method).state_dict())
    assert all(torch.equal(drawn[0][name], drawn[1][name]) for name in drawn[0])
    matrices = [name for name, weight in drawn[0].items() if weight.dim() == 2]
    assert len(matrices) > 10
    assert not any(torch.equal(drawn[0][name], drawn[2][name]) for name in matrices)
