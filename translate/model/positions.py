"""How the model learns the order of words: the paper's sines, a learned table, rotary, or T5's relative bias.

A kind of positions acts in one of two places: it adds a vector to each embedding (`embed`), or it changes how queries
and keys of self-attention relate (`relate`). Each kind overrides the one that it needs.
"""

import math
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from translate.config import ModelConfig


class Rotation(NamedTuple):
    """Angles by which the pairs of query and key dimensions are turned; in a step, those of each sentence."""

    cosine: Float[Tensor, "*position half"]
    sine: Float[Tensor, "*position half"]


class Relation(NamedTuple):
    """What positions change in self-attention; nothing, for the kinds that are added to the embeddings."""

    rotation: Rotation | None = None
    bias: Float[Tensor, "*batch heads query key"] | None = None


NO_RELATION = Relation()


class Positions(nn.Module):
    """Adds nothing and relates nothing; each kind overrides one of the two.

    A step of decoding has one query position for each sentence, the same for all its hypotheses: the methods that end
    in `_step` are given it, after `reserve` has said how far it can go. Those that end in `_packed` are given the
    position of each token, of sequences that stand one after another in a row; the longest has so many.
    """

    def embed(
        self, embedded: Float[Tensor, "batch position d_model"], *, start: int
    ) -> Float[Tensor, "batch position d_model"]:
        """Embeddings of positions `start` and following, with their positions."""
        return embedded

    def relate(self, *, start: int, length: int) -> Relation:
        """For `length` queries at `start` and following, and keys from 0 to the last query."""
        return NO_RELATION

    def reserve(self, length: int) -> None:
        """Be ready for steps at positions 0 to length - 1.

        Raises:
            ValueError: The model has fewer.
        """

    def embed_step(
        self, embedded: Float[Tensor, "batch beam d_model"], *, positions: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch beam d_model"]:
        """Embeddings of one token of each hypothesis, with their sentence's position."""
        return embedded

    def relate_step(self, *, query: Int[Tensor, " batch"], key: Int[Tensor, "batch key"]) -> Relation:
        """For a query at one position of each sentence, and keys at the given ones."""
        return NO_RELATION

    def embed_packed(
        self, embedded: Float[Tensor, "1 token d_model"], *, positions: Int[Tensor, " token"], longest: int
    ) -> Float[Tensor, "1 token d_model"]:
        """Embeddings of a row without padding, with their positions."""
        return embedded

    def relate_packed(self, *, positions: Int[Tensor, " token"], longest: int) -> Relation:
        """For all tokens of a row, as queries and as keys; a bias is for a grid that has a row for each sequence."""
        return NO_RELATION


def sinusoidal_table(num_positions: int, d_model: int) -> Float[Tensor, "position d_model"]:
    """Sines in the even dimensions, cosines in the odd: row p, dimension 2i is sin(p / 10000^(2i / d_model)).

    Computed in fp64, so that far positions are exact too.

    Raises:
        ValueError: `d_model` is odd.

    Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 3.5.
    """
    if d_model % 2:
        raise ValueError(f"d_model = {d_model} must be even for sinusoidal positions")
    angles = _angles(num_positions, d_model)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1).float()


def _angles(num_positions: int, dimensions: int) -> Float[Tensor, "position half"]:
    wave = torch.arange(0, dimensions, 2, dtype=torch.float64) / dimensions
    return torch.arange(num_positions, dtype=torch.float64)[:, None] * torch.pow(10000.0, -wave)


class SinusoidalPositions(Positions):
    """The paper's table; it grows when a sequence is longer than any before."""

    def __init__(self, *, d_model: int) -> None:
        super().__init__()
        self.register_buffer("table", sinusoidal_table(256, d_model), persistent=False)
        self.table: Tensor

    def embed(
        self, embedded: Float[Tensor, "batch position d_model"], *, start: int
    ) -> Float[Tensor, "batch position d_model"]:
        end = start + embedded.shape[1]
        self.reserve(end)
        return embedded + self.table[start:end]

    def reserve(self, length: int) -> None:
        if length > len(self.table):
            with torch.inference_mode(False):  # a table that validation grows must serve training too
                self.table = sinusoidal_table(2 * length, self.table.shape[1]).to(self.table)

    def embed_step(
        self, embedded: Float[Tensor, "batch beam d_model"], *, positions: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch beam d_model"]:
        return embedded + self.table[positions][:, None, :]

    def embed_packed(
        self, embedded: Float[Tensor, "1 token d_model"], *, positions: Int[Tensor, " token"], longest: int
    ) -> Float[Tensor, "1 token d_model"]:
        self.reserve(longest)
        return embedded + self.table[positions]


class LearnedPositions(Positions):
    """A trained vector for each position, and so a limit on the length.

    Source: Gehring et al. 2017, https://arxiv.org/abs/1705.03122, section 3.1.
    """

    def __init__(self, *, d_model: int, max_positions: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(max_positions, d_model))
        nn.init.normal_(self.table, std=d_model**-0.5)

    def embed(
        self, embedded: Float[Tensor, "batch position d_model"], *, start: int
    ) -> Float[Tensor, "batch position d_model"]:
        end = start + embedded.shape[1]
        self.reserve(end)
        return embedded + self.table[start:end]

    def reserve(self, length: int) -> None:
        if length > len(self.table):
            raise ValueError(
                f"a sequence of {length} tokens exceeds the learned positions: model.max_positions = {len(self.table)}"
            )

    def embed_step(
        self, embedded: Float[Tensor, "batch beam d_model"], *, positions: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch beam d_model"]:
        return embedded + self.table[positions][:, None, :]

    def embed_packed(
        self, embedded: Float[Tensor, "1 token d_model"], *, positions: Int[Tensor, " token"], longest: int
    ) -> Float[Tensor, "1 token d_model"]:
        self.reserve(longest)
        return embedded + F.embedding(positions, self.table)


class RotaryPositions(Positions):
    """Queries and keys are turned by an angle that grows with their position, so that products see the distance.

    Source: Su et al. 2021, https://arxiv.org/abs/2104.09864, equation 34; neighbouring dimensions form the pairs.
    """

    def __init__(self, *, head_dim: int) -> None:
        super().__init__()
        if head_dim % 2:
            raise ValueError(f"d_model / num_heads = {head_dim} must be even for rotary positions")
        angles = _angles(256, head_dim)
        self.register_buffer("cosine", angles.cos().float(), persistent=False)
        self.register_buffer("sine", angles.sin().float(), persistent=False)
        self.cosine: Tensor
        self.sine: Tensor

    def relate(self, *, start: int, length: int) -> Relation:
        end = start + length
        self.reserve(end)
        return Relation(rotation=Rotation(self.cosine[start:end], self.sine[start:end]))

    def reserve(self, length: int) -> None:
        if length > len(self.cosine):
            with torch.inference_mode(False):  # tables that validation grows must serve training too
                angles = _angles(2 * length, 2 * self.cosine.shape[1])
                # The cosines last: another thread that sees them long enough finds the sines so too.
                self.sine, self.cosine = angles.sin().float().to(self.sine), angles.cos().float().to(self.cosine)

    def relate_step(self, *, query: Int[Tensor, " batch"], key: Int[Tensor, "batch key"]) -> Relation:
        # (batch, heads = 1, hypothesis = 1, half); what a query and a key see of each other is their distance alone.
        return Relation(rotation=Rotation(self.cosine[query][:, None, None, :], self.sine[query][:, None, None, :]))

    def relate_packed(self, *, positions: Int[Tensor, " token"], longest: int) -> Relation:
        self.reserve(longest)
        return Relation(rotation=Rotation(self.cosine[positions], self.sine[positions]))


def rotate(
    heads: Float[Tensor, "batch heads position head_dim"], rotation: Rotation
) -> Float[Tensor, "batch heads position head_dim"]:
    """Turn each pair of neighbouring dimensions by its position's angle."""
    even, odd = heads[..., 0::2], heads[..., 1::2]
    cosine, sine = rotation.cosine.to(heads.dtype), rotation.sine.to(heads.dtype)
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

    def relate(self, *, start: int, length: int) -> Relation:
        query = torch.arange(start, start + length, device=self.table.device)
        key = torch.arange(start + length, device=self.table.device)
        buckets = distance_buckets(
            key[None, :] - query[:, None],
            num_buckets=len(self.table),
            max_distance=self.max_distance,
            directions=self.directions,
        )
        return Relation(bias=self.table[buckets].permute(2, 0, 1))

    def relate_step(self, *, query: Int[Tensor, " batch"], key: Int[Tensor, "batch key"]) -> Relation:
        buckets = distance_buckets(
            key - query[:, None], num_buckets=len(self.table), max_distance=self.max_distance, directions="past"
        )
        return Relation(bias=self.table[buckets].permute(0, 2, 1)[:, :, None, :])  # (batch, heads, hypothesis = 1, key)

    def relate_packed(self, *, positions: Int[Tensor, " token"], longest: int) -> Relation:
        return self.relate(start=0, length=longest)


def distance_buckets(
    distance: Int[Tensor, "query key"], *, num_buckets: int, max_distance: int, directions: Literal["both", "past"]
) -> Int[Tensor, "query key"]:
    """The bucket of each distance (key position minus query position): exact when near, logarithmic when far.

    Args:
        directions: both: half the buckets for the future; past: the future shares the bucket of distance 0.
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
        case "sinusoidal":
            return SinusoidalPositions(d_model=config.d_model)
        case "learned":
            return LearnedPositions(d_model=config.d_model, max_positions=config.max_positions)
        case "rotary":
            return RotaryPositions(head_dim=config.d_model // config.num_heads)
        case "relative":
            return RelativePositions(
                num_heads=config.num_heads,
                num_buckets=config.relative_buckets,
                max_distance=config.relative_max_distance,
                directions=directions,
            )
