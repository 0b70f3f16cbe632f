"""Torch's data-parallel engines: each process computes some pieces of a step, and all have the sum of the gradients.

With DDP each has all weights; with FSDP it has a part of each tensor, and of the optimizer's state, and gathers the
weights of a layer while it computes there.
"""

import contextlib
import inspect
from collections.abc import Sequence
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from translate.data.batching import Batch, EncodedPair, collate
from translate.distributed.process_group import STEP_TIMEOUT, World
from translate.model import Transformer
from translate.model.dropout import dropout_seeded
from translate.training.gradients import BatchLoss, StepSums
from translate.training.loss import SummedLoss
from translate.training.pieces import Piece

# What a process computes, with the weight zero, when there is no piece for it: no communication is left out.
_NOTHING = Piece(collate([EncodedPair([], [])], [0]), seed=(0,))


class Engine:
    """A model whose gradients are summed over all processes.

    Args:
        model: The same on all; with fsdp its parameters become sharded ones, so an optimizer is made after this.
        device: Of this process; with fsdp the model may be on the CPU yet, so that it never stands there whole.
        loss: Of a batch on the CPU, by this very model.
    """

    def __init__(
        self,
        model: Transformer,
        world: World,
        *,
        kind: Literal["ddp", "fsdp"],
        device: torch.device,
        loss: BatchLoss,
    ) -> None:
        self.world = world
        self.device = device
        if device.type == "cuda":
            torch.cuda.set_device(device)  # where FSDP puts the weights, and NCCL its buffers
        self._group = dist.new_group(backend="nccl" if device.type == "cuda" else "gloo", timeout=STEP_TIMEOUT)
        self._engine: Any
        module = _Loss(model, loss)
        if kind == "fsdp":
            self._engine = _shard(module, model, self._group, device)
            self._syncing = self._always
        else:
            self._engine = _replicate(module, self._group)
            self._syncing = self._at_last
            # Its first backward pass tells it in which order gradients come, and so how it sums them from then on: with
            # that behind it, a run that is continued sums as one that was never stopped.
            self.backward([], factor=0.0)
            self._engine.zero_grad(set_to_none=True)

    @property
    def num_pieces(self) -> int:
        """Into which a step should be cut at least: one for each process."""
        return self.world.size

    def backward(self, pieces: Sequence[Piece], *, factor: float) -> StepSums:
        """Put the gradient of a step's loss, times a factor, into `grad` of each parameter; this computes its share.

        Args:
            pieces: Of the whole step, the same on all processes.
        """
        rank, size = self.world.rank, self.world.size
        mine = [(piece, factor) for piece in pieces[rank::size]]
        rounds = max(1, -(-len(pieces) // size))
        mine += [(_NOTHING, 0.0)] * (rounds - len(mine))
        sums = torch.zeros(2, device=self.device, dtype=torch.float64)
        for number, (piece, weight) in enumerate(mine, start=1):
            with self._syncing(is_last=number == rounds), dropout_seeded(*piece.seed, device=self.device):
                loss = self._engine(piece.batch)
                # The engines take the mean over the processes.
                (loss.loss * (weight * size)).backward()
            if weight:
                sums += torch.stack([loss.loss.detach(), loss.nll])
        dist.all_reduce(sums, group=self._group)
        return StepSums(*sums)

    def _always(self, *, is_last: bool) -> contextlib.AbstractContextManager[None]:
        """Each piece's gradients are summed and sharded, for whole ones have no room."""
        return contextlib.nullcontext()

    def _at_last(self, *, is_last: bool) -> contextlib.AbstractContextManager[None]:
        """Pieces are summed here, and with the last one, while it is computed, over the processes."""
        return contextlib.nullcontext() if is_last else self._engine.no_sync()


class _Loss(nn.Module):
    """The loss as a module's output, which the engines put their hooks on."""

    def __init__(self, model: Transformer, loss: BatchLoss) -> None:
        super().__init__()
        self.model = model
        self._loss = loss

    def forward(self, batch: Batch) -> SummedLoss:
        return self._loss(batch)


def _replicate(module: nn.Module, group: dist.ProcessGroup) -> nn.Module:
    # Buffers, which are tables of positions, grow where they are needed; torch 2.13 has another word for that than 2.8.
    is_new = "forward_sync_buffers" in inspect.signature(DistributedDataParallel).parameters
    apart: dict[str, Any] = {"forward_sync_buffers" if is_new else "broadcast_buffers": False}
    return DistributedDataParallel(module, process_group=group, gradient_as_bucket_view=True, **apart)


def _shard(module: nn.Module, model: Transformer, group: dist.ProcessGroup, device: torch.device) -> nn.Module:
    """Each layer by itself, and what is left, the embeddings above all, together."""
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard

    mesh = DeviceMesh.from_group(group, device.type)
    for layer in (*model.encoder.layers, *model.decoder.layers):
        fully_shard(layer, mesh=mesh)
    fully_shard(module, mesh=mesh)
    return module
