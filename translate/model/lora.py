"""LoRA: instead of a trained matrix W, a frozen W and a trained update of low rank, W + (alpha / rank) · B · A.

Decoding, exports and pictures need no support for it: `merge_lora` gives the weights of a plain model.

Source: Hu et al. 2021, https://arxiv.org/abs/2106.09685, section 4.1; initialised and scaled as the library PEFT does.
"""

import contextlib
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from translate.model.attention import MultiHeadAttention, Projection
from translate.model.dropout import Dropout
from translate.model.layers import FeedForward


class LoraUpdate(nn.Module):
    """The update of one matrix, B · A. It is zero at first, because B is."""

    def __init__(self, matrix: Tensor, *, rank: int, dropout: float) -> None:
        super().__init__()
        num_outputs, num_inputs = matrix.shape
        down = torch.empty(rank, num_inputs)  # drawn on the CPU, so it is the same everywhere
        nn.init.kaiming_uniform_(down, a=math.sqrt(5))
        self.a = nn.Parameter(down.to(matrix))
        self.b = nn.Parameter(matrix.new_zeros(num_outputs, rank))
        self.dropout = Dropout(dropout)

    def forward(self, hidden: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch outputs"]:
        return F.linear(F.linear(self.dropout(hidden), self.a), self.b)


class LoraProjection(Projection):
    """A frozen projection with updates. Where it holds several matrices, one below the other, each has its own.

    Args:
        projection: Its weight and bias become this one's.
        matrices: The names of its matrices, of equal sizes.
        adapted: Those that get an update.
    """

    is_merged = False  # True while `weight` has the updates in it

    def __init__(
        self,
        projection: Projection,
        *,
        matrices: Sequence[str],
        adapted: Collection[str],
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
        """Some of the outputs of `forward`: of one or more whole matrices."""
        output = super().rows(hidden, rows)
        if not self.is_merged:
            size = self.out_features // len(self.matrices)
            for name, update in self.lora.items():
                first = self.matrices.index(name) * size - (rows.start or 0)
                if 0 <= first < output.shape[-1]:
                    output[..., first : first + size] += update(hidden) * self.scale
        return output

    def merge(self, weights: Mapping[str, Tensor]) -> Float[Tensor, "outputs features"]:
        """The weight with the updates added.

        Args:
            weights: Values for the parameters of this module, by their names in it.
        """
        matrices = list(weights["weight"].chunk(len(self.matrices)))
        for number, name in enumerate(self.matrices):
            if name in self.lora:
                update = weights[f"lora.{name}.b"] @ weights[f"lora.{name}.a"]
                matrices[number] = matrices[number] + update * self.scale
        return torch.cat(matrices)


def add_lora(
    layers: Iterable[nn.Module], *, targets: Collection[str], rank: int, alpha: float, dropout: float = 0.0
) -> None:
    """Give the projections of layers updates, in place; the weights that are there keep their names.

    Args:
        targets: Which matrices are adapted: `query`, `key`, `value` and `output` of each attention, `feed_forward`.
        rank: The number of rows of A and columns of B.
        alpha: The updates are scaled by alpha / rank.
        dropout: Dropout on the input of the updates.
    """
    adapted = {*targets} | ({"gate", "inner", "outer"} if "feed_forward" in targets else set())

    def adapt(module: nn.Module, name: str, *matrices: str) -> None:
        if adapted & {*matrices}:
            projection = LoraProjection(
                getattr(module, name), matrices=matrices, adapted=adapted, rank=rank, alpha=alpha, dropout=dropout
            )
            setattr(module, name, projection)

    for module in [module for layer in layers for module in layer.modules()]:
        if isinstance(module, MultiHeadAttention):
            adapt(module, "input_projection", "query", "key", "value")
            adapt(module, "output_projection", "output")
        elif isinstance(module, FeedForward):
            adapt(module, "inner", *(("gate", "inner") if module.is_gated else ("inner",)))
            adapt(module, "outer", "outer")


def is_lora(name: str) -> bool:
    """Whether a parameter of this name belongs to an update."""
    return ".lora." in name


def merged_matrices(model: nn.Module, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of all projections that have updates, with the updates added.

    Args:
        weights: Values for the parameters of the model, by name.
    """
    merged = {}
    for name, projection in _lora_projections(model):
        mine = {each.removeprefix(name): tensor for each, tensor in weights.items() if each.startswith(name)}
        merged[f"{name}weight"] = projection.merge(mine)
    return merged


def merge_lora(model: nn.Module, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of the same model without LoRA: `merged_matrices`, and all others as they are."""
    return {name: weights[name] for name in weights if not is_lora(name)} | merged_matrices(model, weights)


@contextlib.contextmanager
def lending(model: nn.Module, weights: Mapping[str, Tensor]) -> Iterator[None]:
    """A context in which a model computes with other weights, without updates; afterwards it has its own back.

    Args:
        weights: As `merge_lora` gives them.
    """
    own = {name: parameter.data for name, parameter in model.named_parameters()}
    try:
        for name, parameter in model.named_parameters():
            parameter.data = weights.get(name, parameter.data)
        for _, projection in _lora_projections(model):
            projection.is_merged = True
        yield
    finally:
        for name, parameter in model.named_parameters():
            parameter.data = own[name]
        for _, projection in _lora_projections(model):
            projection.is_merged = False


def _lora_projections(model: nn.Module) -> list[tuple[str, LoraProjection]]:
    """Each of them with its name and a dot."""
    return [(f"{name}.", module) for name, module in model.named_modules() if isinstance(module, LoraProjection)]
