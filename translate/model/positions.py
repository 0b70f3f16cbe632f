"""How the model knows word order: the paper's sinusoids, a learned table, rotary embeddings, or T5's relative bias.

All methods take positions as tensors, so a padded batch, a packed row and a step of decoding use the same ones.
"""

import math
import threading
from typing import Literal, assert_never

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from translate.config.schema import ModelConfig

_GROWING = threading.Lock()


class Positions(nn.Module):
    """One kind of positions; each kind overrides one of `embed`, `rotary` and `bias`, which do nothing here.

    Positions broadcast to the shape of the tokens: (position) where all rows of a batch have the same, (batch, 1) in a
    step of decoding, where all hypotheses of a sentence are at the same position.
    """

    def reserve(self, length: int) -> None:
        """Make positions 0 to length - 1 available to the other methods.

        Raises:
            ValueError: The model has fewer positions.
        """

    def embed(
        self, embedded: Float[Tensor, "batch token d_model"], positions: Int[Tensor, "*#batch #token"]
    ) -> Float[Tensor, "batch token d_model"]:
        """Add positions to token embeddings."""
        return embedded

    def rotary(self, positions: Int[Tensor, "*batch position"]) -> Float[Tensor, "*batch 1 position half 2"] | None:
        """Cosine and sine of the angles by which self-attention turns queries and keys; the axis of 1 is the heads'."""
        return None

    def bias(
        self, query: Int[Tensor, "*batch query"], key: Int[Tensor, "*batch key"]
    ) -> Float[Tensor, "*batch heads query key"] | None:
        """Numbers that self-attention adds to the scores of queries and keys at these positions."""
        return None


def sinusoidal_table(
    num_positions: int, d_model: int, *, formula: Literal["sinusoidal", "fairseq"] = "sinusoidal"
) -> Float[Tensor, "position d_model"]:
    """Sines in the even dimensions, cosines in the odd: row p, dimension 2i is sin(p / 10000^(2i / d_model)).

    In fairseq's formula, which M2M100 and NLLB-200 have, row p is sin((p + 2) / 10000^(2i / (d_model - 2))): the last
    wavelength is exactly 10000 * 2pi, and two positions are reserved.

    Raises:
        ValueError: `d_model` is odd.

    Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 3.5; fairseq's
    `modules/sinusoidal_positional_embedding.py`.
    """
    if d_model % 2:
        raise ValueError(f"d_model = {d_model} must be even for sinusoidal positions")
    first, last = (2, max(d_model - 2, 1)) if formula == "fairseq" else (0, d_model)
    wave = torch.arange(0, d_model, 2, dtype=torch.float64) / last  # in fp64, so that far positions are exact too
    rows = torch.arange(first, first + num_positions, dtype=torch.float64)
    angles = rows[:, None] * torch.pow(10000.0, -wave)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1).float()


class _TableOfSines(Positions):
    """A table of sines and cosines; it grows when a sequence is longer than all before it."""

    def __init__(self, *, d_model: int, formula: Literal["sinusoidal", "fairseq"] = "sinusoidal") -> None:
        super().__init__()
        self._formula = formula
        self.register_buffer("table", sinusoidal_table(256, d_model, formula=formula), persistent=False)
        self.table: Tensor

    def reserve(self, length: int) -> None:
        if length <= len(self.table):
            return
        # A table that grows during validation must serve training too, and one thread must not undo another's growth.
        with torch.inference_mode(False), _GROWING:
            if length > len(self.table):
                table = sinusoidal_table(2 * length, self.table.shape[1], formula=self._formula)
                self.table = table.to(self.table)


class SinusoidalPositions(_TableOfSines):
    """Adds a row of the table to each embedding, as the paper and fairseq do."""

    def embed(
        self, embedded: Float[Tensor, "batch token d_model"], positions: Int[Tensor, "*#batch #token"]
    ) -> Float[Tensor, "batch token d_model"]:
        return embedded + self.table[positions]


class LearnedPositions(Positions):
    """A trained vector for each position, and so a limit on the length.

    Source: Gehring et al. 2017, https://arxiv.org/abs/1705.03122, section 3.1.
    """

    def __init__(self, *, d_model: int, max_positions: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(max_positions, d_model))
        nn.init.normal_(self.table, std=d_model**-0.5)

    def reserve(self, length: int) -> None:
        if length > len(self.table):
            raise ValueError(
                f"a sequence of {length} tokens exceeds the learned positions: model.max_positions = {len(self.table)}"
            )

    def embed(
        self, embedded: Float[Tensor, "batch token d_model"], positions: Int[Tensor, "*#batch #token"]
    ) -> Float[Tensor, "batch token d_model"]:
        return embedded + F.embedding(positions, self.table)


class RotaryPositions(_TableOfSines):
    """Queries and keys are turned by an angle that grows with their position, so products depend on the distance.

    Source: Su et al. 2021, https://arxiv.org/abs/2104.09864, equation 34; neighbouring dimensions form the pairs.
    """

    def __init__(self, *, head_dim: int) -> None:
        super().__init__(d_model=head_dim)

    def rotary(self, positions: Int[Tensor, "*batch position"]) -> Float[Tensor, "*batch 1 position half 2"]:
        rows = self.table[positions]
        exact = rows.to(torch.promote_types(rows.dtype, torch.float32))  # there are no complex numbers in bf16
        return exact.unflatten(-1, (-1, 2)).flip(-1).unsqueeze(-4)


def rotate(
    heads: Float[Tensor, "*batch heads position head_dim"], angles: Float[Tensor, "*any 1 #position half 2"]
) -> Float[Tensor, "*batch heads position head_dim"]:
    """Turn each pair of neighbouring dimensions by its position's angle."""
    pairs = heads.unflatten(-1, (-1, 2))
    if not torch.compiler.is_compiling():  # as complex numbers: one fast product
        turned = torch.view_as_complex(pairs.to(angles.dtype)) * torch.view_as_complex(angles)
        return torch.view_as_real(turned).flatten(-2).to(heads.dtype)
    (even, odd), (cosine, sine) = pairs.unbind(-1), angles.to(heads.dtype).unbind(-1)
    return torch.stack((even * cosine - odd * sine, even * sine + odd * cosine), dim=-1).flatten(-2)


class RelativePositions(Positions):
    """T5's relative bias: a trained number for each head and distance bucket, added to the attention scores.

    One table serves all layers of a stack. There is no limit on the length: far distances share a bucket.

    Source: Raffel et al. 2020, https://arxiv.org/abs/1910.10683, section 2.1.
    """

    def __init__(
        self, *, num_heads: int, num_buckets: int, max_distance: int, directions: Literal["both", "past"]
    ) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(num_buckets, num_heads))
        self.max_distance = max_distance
        self.directions = directions

    def bias(
        self, query: Int[Tensor, "*batch query"], key: Int[Tensor, "*batch key"]
    ) -> Float[Tensor, "*batch heads query key"]:
        buckets = distance_buckets(
            key[..., None, :] - query[..., :, None],
            num_buckets=len(self.table),
            max_distance=self.max_distance,
            directions=self.directions,
        )
        return self.table[buckets].movedim(-1, -3)


def distance_buckets(
    distance: Int[Tensor, "*batch query key"],
    *,
    num_buckets: int,
    max_distance: int,
    directions: Literal["both", "past"],
) -> Int[Tensor, "*batch query key"]:
    """The bucket of each distance (key position minus query position): exact when near, logarithmic when far.

    With both directions, half of the buckets are for the future; otherwise the future shares the bucket of distance 0.
    """
    bucket = torch.zeros_like(distance)
    if directions == "both":
        num_buckets //= 2
        bucket = torch.where(distance > 0, num_buckets, 0)
        distance = distance.abs()
    else:
        distance = (-distance).clamp(min=0)
    num_exact = num_buckets // 2
    far = torch.log(distance.clamp(min=1) / num_exact) / math.log(max_distance / num_exact) * (num_buckets - num_exact)
    far = (num_exact + far.long()).clamp(max=num_buckets - 1)
    return bucket + torch.where(distance < num_exact, distance, far)


def build_positions(config: ModelConfig, *, directions: Literal["both", "past"]) -> Positions:
    """The positions of one stack; `directions` says whether its self-attention sees the future."""
    match config.positions:
        case "sinusoidal" | "fairseq":
            return SinusoidalPositions(d_model=config.d_model, formula=config.positions)
        case "learned":
            return LearnedPositions(d_model=config.d_model, max_positions=config.max_positions)
        case "rotary":
            return RotaryPositions(head_dim=config.attention_dim // config.num_heads)
        case "relative":
            return RelativePositions(
                num_heads=config.num_heads,
                num_buckets=config.relative_buckets,
                max_distance=config.relative_max_distance,
                directions=directions,
            )
        case _:
            assert_never(config.positions)
