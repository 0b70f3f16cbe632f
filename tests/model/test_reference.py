"""Contract: with weights copied into torch.nn.Transformer, outputs and gradients agree, masks on."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from translate.config.schema import ModelConfig
from translate.model import Transformer

PAD, D_MODEL, HEADS, D_FF, VOCAB = 3, 33 * 2, 3, 17, 23
Pairs = list[tuple[nn.Parameter, nn.Parameter]]


def build(norm: str, activation: str) -> Transformer:
    """Ours, with every weight random: norms and biases too."""
    config = ModelConfig(
        d_model=D_MODEL, num_heads=HEADS, d_ff=D_FF, num_encoder_layers=2, num_decoder_layers=3, dropout=0.0,
        norm=norm, activation=activation, norm_epsilon=1e-3, tie_embeddings="none",
    )  # fmt: skip
    model = Transformer(config, source_vocab_size=VOCAB, target_vocab_size=29, pad_id=PAD)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def build_reference(norm: str, activation: str) -> nn.Transformer:
    """Theirs. Post-norm ends with its last layer's norm, as in the paper: none follows it."""
    common: dict[str, Any] = {
        "d_model": D_MODEL, "nhead": HEADS, "dim_feedforward": D_FF, "dropout": 0.0, "activation": activation,
        "batch_first": True, "norm_first": norm == "pre", "layer_norm_eps": 1e-3,
    }  # fmt: skip

    def final_norm() -> nn.LayerNorm | None:
        return nn.LayerNorm(D_MODEL, eps=1e-3) if norm == "pre" else None

    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(**common), 2, final_norm(), enable_nested_tensor=False)
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**common), 3, final_norm())
    return nn.Transformer(D_MODEL, HEADS, custom_encoder=encoder, custom_decoder=decoder, batch_first=True)


def copy_weights(model: Transformer, reference: nn.Transformer) -> Pairs:
    """The same numbers in both; gives the pairs (ours, theirs) of parameters."""
    pairs: Pairs = []

    def pair(ours: nn.Module, theirs: nn.Module) -> None:
        for name, parameter in theirs.named_parameters(recurse=False):
            pairs.append((getattr(ours, name), parameter))

    def pair_attention(ours: nn.Module, theirs: nn.MultiheadAttention) -> None:
        pairs.append((ours.input_projection.weight, theirs.in_proj_weight))
        pairs.append((ours.input_projection.bias, theirs.in_proj_bias))
        pair(ours.output_projection, theirs.out_proj)

    for ours, theirs in zip(model.encoder.layers, reference.encoder.layers, strict=True):
        pair_attention(ours.self_attention, theirs.self_attn)
        pair(ours.self_attention_add_and_norm.norm, theirs.norm1)
        pair(ours.feed_forward_add_and_norm.norm, theirs.norm2)
    for ours, theirs in zip(model.decoder.layers, reference.decoder.layers, strict=True):
        pair_attention(ours.self_attention, theirs.self_attn)
        pair_attention(ours.cross_attention, theirs.multihead_attn)
        pair(ours.self_attention_add_and_norm.norm, theirs.norm1)
        pair(ours.cross_attention_add_and_norm.norm, theirs.norm2)
        pair(ours.feed_forward_add_and_norm.norm, theirs.norm3)
    for ours_stack, theirs_stack in ((model.encoder, reference.encoder), (model.decoder, reference.decoder)):
        for ours, theirs in zip(ours_stack.layers, theirs_stack.layers, strict=True):
            pair(ours.feed_forward.inner, theirs.linear1)
            pair(ours.feed_forward.outer, theirs.linear2)
        if theirs_stack.norm is not None:
            pair(ours_stack.final_norm, theirs_stack.norm)
    with torch.no_grad():
        for mine, their in pairs:
            their.copy_(mine)
    return pairs


def batch() -> tuple[Tensor, Tensor]:
    """Padding on both sides, most of it in different rows."""
    source, target = torch.randint(PAD + 1, VOCAB, (5, 7)), torch.randint(PAD + 1, 29, (5, 11))
    for row, (source_length, target_length) in enumerate([(7, 2), (1, 11), (3, 5), (5, 1), (7, 11)]):
        source[row, source_length:] = PAD
        target[row, target_length:] = PAD
    return source, target


def compare(model: Transformer, reference: nn.Transformer, *, tolerance: float) -> None:
    pairs = copy_weights(model, reference)
    # Nothing is left out: all of theirs, and all of ours but the two embeddings and the output layer.
    assert {id(theirs) for _, theirs in pairs} == {id(parameter) for parameter in reference.parameters()}
    shared = [model.encoder.embedder.tokens.weight, model.decoder.embedder.tokens.weight, model.output.weight]
    mine, theirs = [ours for ours, _ in pairs], [theirs for _, theirs in pairs]
    assert {id(parameter) for parameter in mine + shared} == {id(parameter) for parameter in model.parameters()}

    source, target = batch()
    source_padding, target_padding = source == PAD, target == PAD
    future = torch.ones(11, 11, dtype=torch.bool).triu(1)
    logits = model(source, target)
    expected = model.output(
        reference(
            model.encoder.embedder(source).hidden,
            model.decoder.embedder(target).hidden,
            tgt_mask=future,
            src_key_padding_mask=source_padding,
            memory_key_padding_mask=source_padding,
            tgt_key_padding_mask=target_padding,
        )
    )
    real = ~target_padding
    torch.testing.assert_close(logits[real], expected[real], rtol=0, atol=tolerance)

    direction = torch.randn_like(logits[real]) / real.sum()
    gradients = torch.autograd.grad(logits[real], mine + shared, direction)
    expected_gradients = torch.autograd.grad(expected[real], theirs + shared, direction)
    for parameter, expected_parameter in zip(gradients, expected_gradients, strict=True):
        assert expected_parameter.abs().max() > 1e-4
        torch.testing.assert_close(parameter, expected_parameter, rtol=0, atol=tolerance)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_outputs_and_gradients_are_those_of_torch(norm: str, activation: str) -> None:
    compare(build(norm, activation), build_reference(norm, activation), tolerance=1e-5)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_in_double_precision_only_rounding_is_left(norm: str) -> None:
    compare(build(norm, "relu").double(), build_reference(norm, "relu").double(), tolerance=1e-11)


@pytest.mark.parametrize(("norm", "activation"), [("pre", "gelu"), ("pre", "relu")])
def test_another_model_fails_the_comparison(norm: str, activation: str) -> None:
    """Another activation, or one more norm: the comparison sees it."""
    model = build(norm, "relu")
    if activation == "relu":
        reference = build_reference(norm, "relu")
        reference.encoder.layers[0].norm_first = False
    else:
        reference = build_reference(norm, activation)
    with pytest.raises(AssertionError, match="Tensor-likes are not close"):
        compare(model, reference, tolerance=1e-5)
