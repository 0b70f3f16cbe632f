"""Linear layers: in floating point for training, and in int8 for translating on a CPU."""

import copy

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Int8
from torch import Tensor, nn

from translate.errors import InputError


class Projection(nn.Linear):
    """A linear layer whose outputs can also be computed in part."""

    def rows(self, hidden: Float[Tensor, "*batch features"], rows: slice) -> Float[Tensor, "*batch outputs"]:
        """Some of the outputs of `forward`."""
        return F.linear(hidden, self.weight[rows], None if self.bias is None else self.bias[rows])

    def chosen(self, outputs: Int[Tensor, " outputs"]) -> "Projection":
        """A layer with only these outputs."""
        layer = Projection(self.in_features, len(outputs), bias=self.bias is not None, device="meta")
        layer.weight = nn.Parameter(self.weight[outputs], requires_grad=False)
        if self.bias is not None:
            layer.bias = nn.Parameter(self.bias[outputs], requires_grad=False)
        return layer


def quantize_rows(
    weight: Float[Tensor, "rows columns"],
) -> tuple[Int8[Tensor, "rows columns"], Float[Tensor, " rows"]]:
    """A matrix as 8-bit integers, and the scale of each row, by which they are multiplied to get it back."""
    scales = weight.abs().amax(dim=1).clamp(min=torch.finfo(torch.float).tiny) / 127
    return (weight / scales[:, None]).round().to(torch.int8), scales


class Int8Projection(nn.Module):
    """A linear layer that multiplies 8-bit integers and sums them in 32 bits.

    Each output has a fixed scale, and each input row its own, so that its result does not depend on its neighbours.

    Source: Wu et al. 2020, https://arxiv.org/abs/2004.09602, section 3 (symmetric, per-channel scales).
    """

    def __init__(self, projection: nn.Linear) -> None:
        super().__init__()
        weight, scales = quantize_rows(projection.weight.detach().float())
        bias = torch.zeros(len(weight)) if projection.bias is None else projection.bias.detach().float()
        self.register_buffer("weight", weight)
        self.register_buffer("scales", scales)
        self.register_buffer("bias", bias.to(weight.device))
        self.weight: Tensor
        self.scales: Tensor
        self.bias: Tensor

    def chosen(self, outputs: Int[Tensor, " outputs"]) -> "Int8Projection":
        """A layer with only these outputs."""
        layer = copy.copy(self)
        layer._buffers = {name: buffer[outputs] for name, buffer in self.named_buffers()}
        return layer

    def forward(self, hidden: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch outputs"]:
        return self.rows(hidden, slice(None))

    def rows(self, hidden: Float[Tensor, "*batch features"], rows: slice) -> Float[Tensor, "*batch outputs"]:
        """Some of the outputs of `forward`."""
        flat = hidden.flatten(0, -2)
        row_scales = flat.abs().amax(dim=1, keepdim=True).clamp_(min=torch.finfo(torch.float).tiny).div_(127)
        quantized = (flat / row_scales).round_().to(torch.int8)
        summed = torch._int_mm(quantized, self.weight[rows].t())
        result = torch.addcmul(self.bias[rows], summed * self.scales[rows], row_scales)
        return result.unflatten(0, hidden.shape[:-1])


def quantize_projections(module: nn.Module) -> None:
    """Replace every linear layer by one in int8, for translating on a CPU.

    Raises:
        InputError: The weights are on another device.
    """
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            if child.weight.device.type != "cpu":
                raise InputError(f"precision = int8: is for the CPU, not {child.weight.device}; use bf16 there")
            setattr(module, name, Int8Projection(child))
        else:
            quantize_projections(child)
