"""How a model knows word order: pictures of each kind of position encoding."""

from typing import assert_never

import torch

from translate.config.schema import ModelConfig
from translate.model import Transformer
from translate.model.positions import (
    LearnedPositions,
    Positions,
    RelativePositions,
    RotaryPositions,
    SinusoidalPositions,
    build_positions,
)
from translate.visualize.panels import Curves, Matrix, Panel, Picture, Series, check_numbers


def positions_picture(config: ModelConfig, model: Transformer | None, *, length: int | None, name: str) -> Picture:
    """Panels of the positions of a model, or of a config before training.

    Args:
        model: A trained model; None: positions as they are before training.
        length: How many positions to show (a learned table may have fewer), or the longest distance of relative ones;
            None: 64, or 160.

    Raises:
        InputError: There are too many positions for a page.
    """
    distance, length = length or 160, length or 64
    if model is None:
        encoder, decoder = build_positions(config, directions="both"), build_positions(config, directions="past")
    else:
        encoder, decoder = model.encoder.embedder.positions, model.decoder.embedder.positions
    at_first = ""  # learnt positions before training
    columns = 2
    match config.positions:
        case "sinusoidal" | "fairseq":
            about = (
                "Sinusoidal positions: row p is added to the embedding at position p. The same for every model of this"
                " width, and in encoder and decoder. Vaswani et al. 2017, section 3.5."
            )
            if config.positions == "fairseq":
                about += " fairseq divides by d_model - 2 instead of d_model, and begins with position 2."
            panels = _table_panels("Positions", encoder, length)
        case "learned":
            about, at_first = "Learned positions: row p is added to the embedding at position p.", "As initialised"
            panels = _table_panels("Encoder positions", encoder, length)
            panels += _table_panels("Decoder positions", decoder, length)
        case "rotary":
            about = (
                "Rotary positions: each pair of neighbouring dimensions of queries and keys is turned by an angle that"
                " grows with the position, so that their product depends on the distance. The same for every model of"
                " this head dimension, in every layer and head. Su et al. 2021."
            )
            panels, columns = _rotary_panels(encoder, length), 3
        case "relative":
            about = (
                "Relative positions: a number for each head and distance bucket is added to the scores of"
                " self-attention, in all layers of a stack. Heads and buckets are counted from 0. Raffel et al. 2020,"
                " section 2.1."
            )
            at_first = "All 0"
            panels = _relative_panels("Encoder", encoder, distance) + _relative_panels("Decoder", decoder, distance)
        case unknown:
            assert_never(unknown)
    numbers = sum(len(panel.rows) * len(panel.columns) for panel in panels if isinstance(panel, Matrix))
    check_numbers(numbers, of=f"{length} positions", less="lower --length")
    if model is None and at_first:
        about += f" {at_first}: a config is not trained; name a run to see what was learnt."
    return Picture(f"Positions of {name}: {config.positions}", [about], panels, columns)


def _table_panels(name: str, positions: Positions, length: int) -> list[Panel]:
    assert isinstance(positions, SinusoidalPositions | LearnedPositions)
    if isinstance(positions, LearnedPositions):
        length = min(length, len(positions.table))
    positions.reserve(length)
    table = positions.table[:length].detach().cpu()
    numbers, columns, parts = list(map(str, range(length))), "dimension", {name: table}
    if isinstance(positions, SinusoidalPositions):
        columns = "pair of dimensions"
        parts = {"Sines: dimensions 2i": table[:, 0::2], "Cosines: dimensions 2i + 1": table[:, 1::2]}
    products = f"{name}: dot products"
    return [
        *(
            Matrix(title, numbers, [*map(str, range(part.shape[1]))], part.tolist(), "position", columns, "signed")
            for title, part in parts.items()
        ),
        Matrix(products, numbers, numbers, (table @ table.T).tolist(), "position", "position", "signed"),
    ]


def _rotary_panels(positions: Positions, length: int) -> list[Panel]:
    assert isinstance(positions, RotaryPositions)
    positions.reserve(length)
    table = positions.table[:length].cpu()
    sine, cosine = table[:, 0::2], table[:, 1::2]
    num_pairs = cosine.shape[1]
    products = (cosine @ cosine.T + sine @ sine.T) / num_pairs  # of a vector with 1 in the first dimension of each pair
    numbers, pairs = list(map(str, range(length))), list(map(str, range(num_pairs)))
    by_distance = {"mean over all pairs": products[0]}
    by_distance |= {f"pair {pair}": cosine[:, pair] for pair in sorted({0, num_pairs // 4, num_pairs // 2})}
    return [
        Matrix("Cosine of the angle", numbers, pairs, cosine.tolist(), "position", "pair", "signed"),
        Matrix("Sine of the angle", numbers, pairs, sine.tolist(), "position", "pair", "signed"),
        Matrix(
            "Dot products of one vector at two positions", numbers, numbers, products.tolist(), "position", "position",
            "signed", note="Relative to the product at the same position, for a vector whose pairs are all equal.",
        ),
        Curves(
            "Dot product by distance", "distance in positions", "share of the product at distance 0",
            [Series(name, list(range(length)), values.tolist()) for name, values in by_distance.items()],
        ),
    ]  # fmt: skip


def _relative_panels(stack: str, positions: Positions, distance: int) -> list[Panel]:
    assert isinstance(positions, RelativePositions)
    num_buckets, num_heads = positions.table.shape
    sees_future = positions.directions == "both"
    distances = torch.arange(-distance, distance + 1 if sees_future else 1, device=positions.table.device)
    with torch.inference_mode():
        values = positions.bias(torch.zeros_like(distances[:1]), distances)[:, 0].cpu()  # (heads, distance)
    table, buckets = positions.table.T.tolist(), list(map(str, range(num_buckets)))
    heads = [f"head {head}" for head in range(num_heads)]
    curves = [Series(head, distances.tolist(), values[number].tolist()) for number, head in enumerate(heads)]
    axes, note = ("key position minus query position", "added to the score"), "The future is masked."
    return [
        Matrix(f"{stack}: bias by bucket", heads, buckets, table, "head", "bucket", "signed"),
        Curves(f"{stack}: bias by distance", *axes, curves, note="" if sees_future else note),
    ]
