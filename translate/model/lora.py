"""LoRA: instead of a trained matrix W, a frozen W and a trained update of low rank, W + (alpha / rank) · B · A.

Decoding, exports and pictures need no support for it: `merge_lora` gives the weights of a plain model.

Source: Hu et al. 2021, https://arxiv.org/abs/2106.09685, section 4.1; initialised and scaled as the library PEFT does.
"""

import itertools
import math
from collections.abc import Collection, Iterable, Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from translate.model.attention import MultiHeadAttention, Projection
from translate.model.dropout import Dropout
from translate.model.layers import FeedForward

_FROM_THE_END = {"query": 3, "key": 2, "gate": 2}  # where a matrix is in its stacked projection; others are the last


class LoraUpdate(nn.Module):
    """The update of one matrix, B · A, stored in fp32 also if the matrix is in bf16. It is zero at first, as B is."""

    def __init__(self, matrix: Tensor, *, rank: int, dropout: float) -> None:
        super().__init__()
        num_outputs, num_inputs = matrix.shape
        dtype = torch.promote_types(matrix.dtype, torch.float32)  # the matrix may be bf16
        down = torch.empty(rank, num_inputs)  # drawn on the CPU, so it is the same everywhere
        nn.init.kaiming_uniform_(down, a=math.sqrt(5))
        self.a = nn.Parameter(down.to(matrix.device, dtype))
        self.b = nn.Parameter(matrix.new_zeros(num_outputs, rank, dtype=dtype))
        self.dropout = Dropout(dropout)

    def forward(self, hidden: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch outputs"]:
        return F.linear(F.linear(self.dropout(hidden), self.a), self.b)


class LoraProjection(Projection):
    """A frozen projection with updates. If it stacks several matrices, each has its own update.

    Args:
        projection: Its weight and bias are taken over.
        matrices: The names of its matrices, of equal sizes.
        adapted: The names of the matrices that get an update.
    """

    def __init__(
        self,
        projection: Projection,
        matrices: Sequence[str],
        adapted: Collection[str],
        *,
        rank: int,
        alpha: float,
        dropout: float,
    ) -> None:
        super().__init__(projection.in_features, projection.out_features, projection.bias is not None, device="meta")
        self.weight, self.bias = projection.weight, projection.bias
        self.matrices, self.scale = tuple(matrices), alpha / rank
        self.lora = nn.ModuleDict(
            {
                name: LoraUpdate(matrix, rank=rank, dropout=dropout)
                for name, matrix in zip(matrices, self.weight.detach().chunk(len(matrices)), strict=True)
                if name in adapted
            }
        )

    def forward(self, hidden: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch outputs"]:
        return self.rows(hidden, slice(None))

    def rows(self, hidden: Float[Tensor, "*batch features"], rows: slice) -> Float[Tensor, "*batch outputs"]:
        """Some of the outputs of `forward`: those of one or more whole matrices."""
        output = super().rows(hidden, rows)
        size = self.out_features // len(self.matrices)
        parts = output.split(size, dim=-1)
        names = self.matrices[(rows.start or 0) // size :]  # as many of them as there are parts
        adapted = [
            part + self.lora[name](hidden) * self.scale if name in self.lora else part
            for name, part in zip(names, parts, strict=False)
        ]
        return torch.cat(adapted, dim=-1)

    def split(self, *inputs: Float[Tensor, "..."], sizes: Sequence[int]) -> list[Float[Tensor, "..."]]:
        """The outputs of `forward` in parts, each computed from an input of its own."""
        ends = itertools.accumulate(sizes)
        parts = zip(inputs, sizes, ends, strict=True)
        return [self.rows(hidden, slice(end - size, end)) for hidden, size, end in parts]


def add_lora(layers: Iterable[nn.Module], *, targets: Collection[str], rank: int, alpha: float, dropout: float) -> None:
    """Add updates to the projections of layers, in place; existing weights keep their names.

    Args:
        targets: Which matrices are adapted: `query`, `key`, `value` and `output` of each attention, `feed_forward`.
        rank: The number of rows of A and columns of B.
        alpha: The updates are scaled by alpha / rank.
        dropout: Dropout on the input of the updates.
    """
    adapted = {*targets} | ({"gate", "inner", "outer"} if "feed_forward" in targets else set())
    for module in [module for layer in layers for module in layer.modules()]:
        projections: dict[str, tuple[str, ...]] = {}
        if isinstance(module, MultiHeadAttention):
            projections = {"input_projection": ("query", "key", "value"), "output_projection": ("output",)}
        elif isinstance(module, FeedForward):
            projections = {"inner": ("gate", "inner") if module.is_gated else ("inner",), "outer": ("outer",)}
        for name, matrices in projections.items():
            if adapted & {*matrices}:
                projection = getattr(module, name), matrices, adapted
                setattr(module, name, LoraProjection(*projection, rank=rank, alpha=alpha, dropout=dropout))


def is_lora(name: str) -> bool:
    """Whether a parameter of this name belongs to an update."""
    return ".lora." in name


def merge_lora(weights: dict[str, Tensor], *, alpha: float) -> dict[str, Tensor]:
    """Turn weights of a model with LoRA into those of the same model without it, in place, so no matrix is there twice.

    Args:
        weights: The weights by name, as `add_lora` names them.
        alpha: See `add_lora`.
    """
    for name in [name for name in weights if is_lora(name) and name.endswith(".a")]:
        projection, matrix = name.removesuffix(".a").split(".lora.")
        down, up = weights.pop(name), weights.pop(f"{projection}.lora.{matrix}.b")
        matrices = list(weights[f"{projection}.weight"].split(len(up)))
        number = -_FROM_THE_END.get(matrix, 1)
        matrices[number] = matrices[number] + up @ down * (alpha / len(down))
        weights[f"{projection}.weight"] = torch.cat(matrices)
    return weights
