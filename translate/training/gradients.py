"""The gradient of a step's loss: of its pieces, computed at once by threads where that is faster, and summed."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from translate.data.batching import Batch
from translate.model import Transformer
from translate.model.dropout import dropout_seeded
from translate.training.loss import SummedLoss
from translate.training.pieces import Piece
from translate.training.workers import Workers, share_evenly

BatchLoss = Callable[[Batch], SummedLoss]


class StepSums(NamedTuple):
    """What a whole step's pieces add up to, in fp64."""

    loss: Float[Tensor, ""]  # summed over targets
    nll: Float[Tensor, ""]  # without label smoothing


class OwnGradients:
    """Those of this process alone.

    Args:
        loss: Of a batch on the CPU, by this very model.
    """

    def __init__(self, model: Transformer, workers: Workers, loss: BatchLoss) -> None:
        self._parameters = list(model.parameters())
        self._device = model.device
        self._workers = workers
        self._shares = share_evenly([each.numel() for each in self._parameters], shares=workers.layout.workers)
        self._loss = loss

    @property
    def num_pieces(self) -> int:
        """Into which a step should be cut at least: one for each worker."""
        return self._workers.layout.workers

    def backward(self, pieces: Sequence[Piece], *, factor: float) -> StepSums:
        """Put the gradient of a step's loss, times a factor, into `grad` of each parameter."""

        exact = torch.float32 if self._device.type == "mps" else torch.float64  # which Apple's GPU has not

        def compute(mine: Sequence[Piece]) -> tuple[list[Tensor], Tensor]:
            gradients: list[Tensor] = []
            sums = torch.zeros(2, dtype=exact, device=self._device)
            for piece in mine:
                with dropout_seeded(*piece.seed, device=self._device):
                    loss = self._loss(piece.batch)
                # Not `backward`: it would add to the same tensors from several threads, in any order.
                new = torch.autograd.grad(loss.loss * factor, self._parameters)
                if gradients:
                    torch._foreach_add_(gradients, new)
                else:
                    gradients = list(new)
                sums += torch.stack([loss.loss.detach(), loss.nll])
            return gradients, sums

        workers = min(self.num_pieces, len(pieces))
        (gradients, sums), *others = self._workers.map(compute, [pieces[first::workers] for first in range(workers)])
        self._add(gradients, [other for other, _ in others])
        for _, other_sums in others:
            sums += other_sums
        for parameter, gradient in zip(self._parameters, gradients, strict=True):
            parameter.grad = gradient
        return StepSums(*sums)

    def _add(self, gradients: Sequence[Tensor], others: Sequence[Sequence[Tensor]]) -> None:
        """To the first worker's those of the others, in their order."""

        def add(share: Sequence[int]) -> None:
            for other in others:
                torch._foreach_add_([gradients[number] for number in share], [other[number] for number in share])

        if others:
            self._workers.map(add, self._shares)
