"""Pictures of positions: the numbers by their formulas, and from trained tables."""

import math
from typing import Any

import pytest
import torch
from harness import MakeTranslator

from translate.config.schema import ModelConfig
from translate.errors import InputError
from translate.model.positions import sinusoidal_table
from translate.visualize.panels import Picture
from translate.visualize.positions import positions_picture


def panel(picture: Picture, title: str) -> Any:
    (found,) = [each for each in picture.panels if each.title == title]
    return found


def matrix(picture: Picture, title: str) -> torch.Tensor:
    found = panel(picture, title)
    assert (len(found.rows), len(found.columns)) == (len(found.values), len(found.values[0]))
    return torch.tensor(found.values)


def test_sinusoidal() -> None:
    config = ModelConfig(d_model=6, num_heads=1, d_ff=4, num_encoder_layers=1, num_decoder_layers=1)
    picture = positions_picture(config, None, length=5, name="toy")
    assert picture.title == "Positions of toy: sinusoidal" and len(picture.panels) == 3
    table = sinusoidal_table(5, 6)
    torch.testing.assert_close(matrix(picture, "Sines: dimensions 2i"), table[:, [0, 2, 4]])
    torch.testing.assert_close(matrix(picture, "Cosines: dimensions 2i + 1"), table[:, [1, 3, 5]])
    torch.testing.assert_close(matrix(picture, "Positions: dot products"), table @ table.T)
    of_fairseq = positions_picture(config.model_copy(update={"positions": "fairseq"}), None, length=5, name="toy")
    table = sinusoidal_table(5, 6, formula="fairseq")
    torch.testing.assert_close(matrix(of_fairseq, "Positions: dot products"), table @ table.T)


def test_learned(make_translator: MakeTranslator) -> None:
    model = make_translator(positions="learned").model
    picture = positions_picture(model.config, model, length=100, name="toy")
    for stack in ("encoder", "decoder"):
        table = getattr(model, stack).embedder.positions.table.detach()
        assert table.shape == (40, 24)  # and not the 100 that were asked for
        torch.testing.assert_close(matrix(picture, f"{stack.capitalize()} positions"), table)
        torch.testing.assert_close(matrix(picture, f"{stack.capitalize()} positions: dot products"), table @ table.T)
    assert "As initialised" not in picture.paragraphs[0]
    untrained = positions_picture(model.config, None, length=4, name="c")
    assert "As initialised: a config is not trained" in untrained.paragraphs[0]


def test_too_many_positions_for_a_page() -> None:
    config = ModelConfig(d_model=1024, num_heads=1, positions="learned", max_positions=900)
    assert positions_picture(config, None, length=600, name="c")  # 600 · (1024 + 600) numbers in each of two tables
    with pytest.raises(InputError, match="800 positions .* 2,918,400 numbers.*--length"):
        positions_picture(config, None, length=800, name="c")


def test_rotary(make_translator: MakeTranslator) -> None:
    model = make_translator(positions="rotary").model  # head dimension 8: 4 pairs
    picture = positions_picture(model.config, model, length=300, name="toy")  # more than the model's table had
    thetas = [10000 ** (-2 * pair / 8) for pair in range(4)]
    for title, function in [("Cosine of the angle", math.cos), ("Sine of the angle", math.sin)]:
        values = matrix(picture, title)
        assert values.shape == (300, 4)
        expected = [[function(position * theta) for theta in thetas] for position in range(300)]
        torch.testing.assert_close(values, torch.tensor(expected), atol=1e-5, rtol=0)
    mean, first, *others = panel(picture, "Dot product by distance").series
    assert (mean.name, first.name, len(others)) == ("mean over all pairs", "pair 0", 2)
    assert mean.y == pytest.approx([sum(math.cos(d * theta) for theta in thetas) / 4 for d in range(300)], abs=1e-5)
    assert first.y == pytest.approx([math.cos(distance) for distance in range(300)], abs=1e-5)
    products = matrix(picture, "Dot products of one vector at two positions")
    assert products[200, 117] == pytest.approx(mean.y[83], abs=1e-4)


def test_relative(make_translator: MakeTranslator) -> None:
    model = make_translator(positions="relative").model  # 8 buckets, distances from 12 on in the last
    picture = positions_picture(model.config, model, length=None, name="toy")
    for stack in ("encoder", "decoder"):
        table = getattr(model, stack).embedder.positions.table.detach()
        torch.testing.assert_close(matrix(picture, f"{stack.capitalize()}: bias by bucket"), table.T)
    # Of the encoder's 8 buckets 4 look back and 4 ahead: 0, 1, near, far. The decoder's all look back.
    for stack, buckets in (
        ("encoder", {0: 0, -1: 1, -160: 3, -12: 3, 1: 5, 160: 7}),
        ("decoder", {0: 0, -3: 3, -160: 7}),
    ):
        series = panel(picture, f"{stack.capitalize()}: bias by distance").series
        assert [curve.name for curve in series] == ["head 0", "head 1", "head 2"]
        assert [min(series[2].x), max(series[2].x)] == [min(buckets), max(buckets)]
        values, table = dict(zip(series[2].x, series[2].y, strict=True)), getattr(model, stack).embedder.positions.table
        for distance, bucket in buckets.items():
            assert values[distance] == pytest.approx(table[bucket, 2].item())
    untrained = positions_picture(model.config, None, length=9, name="toy")
    assert panel(untrained, "Encoder: bias by distance").series[0].x == list(range(-9, 10))
    assert panel(untrained, "Decoder: bias by distance").series[0].x == list(range(-9, 1))
    assert "All 0: a config is not trained" in untrained.paragraphs[0]
    assert not matrix(untrained, "Encoder: bias by bucket").any()
