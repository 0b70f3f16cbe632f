"""Projections: single rows of them, and int8 by hand and against exact integer arithmetic."""

import pytest
import torch
from torch import nn

from translate.config.schema import ModelConfig
from translate.errors import InputError
from translate.model import Transformer
from translate.model.quantization import Int8Projection, Projection, quantize_projections

FEATURES, OUTPUTS = 29, 13


def test_rows_and_chosen_outputs_are_those_of_the_whole() -> None:
    for bias in (True, False):
        projection = Projection(FEATURES, OUTPUTS, bias=bias)
        hidden = torch.randn(2, 5, FEATURES)
        whole = projection(hidden)
        torch.testing.assert_close(projection.rows(hidden, slice(3, 7)), whole[..., 3:7])
        chosen = projection.chosen(torch.tensor([11, 0, 5]))
        torch.testing.assert_close(chosen(hidden), whole[..., [11, 0, 5]])
        assert torch.equal(projection(hidden), whole)  # the layer itself has all its outputs yet


def test_int8_by_hand() -> None:
    """Weights ±127 / 127 · scale and inputs likewise: every step of the quantization can be followed."""
    projection = Projection(3, 2)
    with torch.no_grad():
        projection.weight.copy_(torch.tensor([[1.27, -0.63, 0.004], [0.0, 2.54, -2.54]]))
        projection.bias.copy_(torch.tensor([10.0, -1.0]))
    quantized = Int8Projection(projection)
    # Scales 0.01 and 0.02: 1.27 is 127, -0.63 is -63, 0.004 is 0.4 and so 0; 2.54 is 127.
    assert quantized.weight.tolist() == [[127, -63, 0], [0, 127, -127]]
    torch.testing.assert_close(quantized.scales, torch.tensor([0.01, 0.02]))
    # The row (12.7, 2.0, 0.1): scale 0.1, so 127, 20, 1. Products 127·127 - 63·20 = 14869 and 127·20 - 127·1 = 2413.
    # 14869 · 0.01 · 0.1 + 10 = 24.869; 2413 · 0.02 · 0.1 - 1 = 3.826.
    torch.testing.assert_close(quantized(torch.tensor([[12.7, 2.0, 0.1]])), torch.tensor([[24.869, 3.826]]))
    # A row of zeros is the bias alone.
    torch.testing.assert_close(quantized(torch.zeros(1, 3)), torch.tensor([[10.0, -1.0]]))


def int8() -> tuple[Projection, Int8Projection]:
    projection = Projection(FEATURES, OUTPUTS)
    with torch.no_grad():
        projection.weight.normal_()
        projection.bias.normal_()
    return projection, Int8Projection(projection)


def test_int8_is_exact_integer_arithmetic() -> None:
    """Python's integers from the quantized numbers; and the error is what rounding to 1/254 of the range allows."""
    projection, quantized = int8()
    hidden = torch.randn(7, FEATURES)
    scales = (hidden.abs().amax(dim=1) / 127).tolist()
    result = quantized(hidden)
    for row, scale in enumerate(scales):
        inputs = [round(value / scale) for value in hidden[row].tolist()]
        for output in range(OUTPUTS):
            total = sum(a * b for a, b in zip(inputs, quantized.weight[output].tolist(), strict=True))
            expected = total * float(quantized.scales[output]) * scale + float(quantized.bias[output])
            assert float(result[row, output]) == pytest.approx(expected, abs=1e-4)
    assert 1e-4 < float((result - projection(hidden)).detach().abs().max()) < 0.3


def test_an_int8_row_depends_on_no_neighbour() -> None:
    _, quantized = int8()
    hidden = torch.randn(5, 3, FEATURES)
    hidden[2] *= 1000.0  # a scale shared by the batch would drown the others
    together = quantized(hidden)
    assert together.shape == (5, 3, OUTPUTS)
    for row in range(5):
        assert torch.equal(quantized(hidden[row]), together[row])
        assert torch.equal(quantized(hidden[row, 1:2]), together[row, 1:2])


def test_int8_rows_and_chosen_outputs_are_those_of_the_whole() -> None:
    _, quantized = int8()
    hidden = torch.randn(2, 5, FEATURES)
    whole = quantized(hidden)
    assert torch.equal(quantized.rows(hidden, slice(3, 7)), whole[..., 3:7])
    chosen = torch.tensor([11, 0, 5])
    assert torch.equal(quantized.chosen(chosen)(hidden), whole[..., chosen])
    assert torch.equal(quantized(hidden), whole)  # the layer itself has all its outputs yet


def test_int8_does_not_hide_what_is_not_a_number() -> None:
    _, quantized = int8()
    hidden = torch.randn(3, FEATURES)
    hidden[1, 7] = torch.nan
    result = quantized(hidden)
    assert result[1].isnan().all() and result[[0, 2]].isfinite().all()


def test_a_model_is_quantized_throughout_and_stays_near() -> None:
    config = ModelConfig(
        d_model=32, num_heads=2, d_ff=37, num_encoder_layers=1, num_decoder_layers=1, tie_embeddings="decoder"
    )
    model = Transformer(config, source_vocab_size=31, target_vocab_size=31, pad_id=0).eval()
    embedding = model.decoder.embedder.tokens.weight.clone()
    source, target = torch.randint(1, 31, (3, 7)), torch.randint(1, 31, (3, 5))
    with torch.no_grad():
        expected = model(source, target)
        quantize_projections(model)
        logits = model(source, target)
    assert not any(isinstance(module, nn.Linear) for module in model.modules())
    # Self-attention and cross-attention have two each, a feed-forward layer two, and the output is one: 4 + 6 + 1.
    assert sum(isinstance(module, Int8Projection) for module in model.modules()) == 11
    assert torch.equal(model.decoder.embedder.tokens.weight, embedding)  # the tied embedding is looked up as it was
    error = (logits - expected).norm() / expected.norm()
    assert 1e-4 < float(error) < 0.05


def test_int8_is_for_the_cpu() -> None:
    module = nn.Sequential(nn.Linear(3, 5, device="meta"))
    with pytest.raises(InputError, match=r"^precision = int8: is for the CPU, not meta; use bf16 there$"):
        quantize_projections(module)
