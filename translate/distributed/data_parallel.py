"""Data parallelism: the micro-batches of a step are computed at once, by threads or by the ranks of a world.

Both classes offer the same: a training step calls `forward` in `run`, then `all_reduce`, then `update`.
"""

import copy
import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, Literal, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from translate.distributed.process_group import STEP_TIMEOUT, World

T = TypeVar("T")
R = TypeVar("R")
MicroBatch = TypeVar("MicroBatch")

Backward = Callable[[Tensor], None]
"""Computes the gradients of a loss and adds them to those of the micro-batches before."""
ForwardBackward = Callable[[MicroBatch, Backward], Tensor]
"""Computes a micro-batch with the given backward pass, and returns numbers to be summed over the whole step."""
WorkerResult = tuple[Tensor, Sequence[Tensor]]
"""A worker's sums, and its gradients. There is one for each parameter, or none if all are in `grad` already."""


class ThreadParallel(Generic[MicroBatch]):
    """Micro-batches computed by threads that share one copy of the weights; one thread is the caller's own.

    On a CPU several matrix products on one core each are faster than one after the other on several cores: the cores
    need not wait for each other after each product, and all other operations run on all cores too. PyTorch releases
    Python's lock while it computes.

    Args:
        forward: The module whose call is the forward pass.
        num_workers: Micro-batches computed at once.
        num_threads: Torch's threads for each of them.
    """

    def __init__(self, forward: nn.Module, *, num_workers: int, num_threads: int) -> None:
        self.forward, self.num_workers = forward, num_workers
        self._parameters = [parameter for parameter in forward.parameters() if parameter.requires_grad]
        self._shares = share_evenly([parameter.numel() for parameter in self._parameters], num_shares=num_workers)
        self._pool: ThreadPoolExecutor | None = None
        if num_workers > 1:
            self._pool = ThreadPoolExecutor(num_workers, "micro-batch", torch.set_num_threads, (num_threads,))

    def run(
        self, forward_backward: ForwardBackward[MicroBatch], micro_batches: Sequence[MicroBatch]
    ) -> list[WorkerResult]:
        """Compute the micro-batches, of n threads each every n-th; returns a result for each thread."""

        def work(mine: Sequence[MicroBatch]) -> WorkerResult:
            gradients: list[Tensor] = []

            def backward(loss: Tensor) -> None:
                # Not `loss.backward()`, which would add to the same tensors from several threads, in any order.
                new = torch.autograd.grad(loss, self._parameters)
                if gradients:
                    torch._foreach_add_(gradients, new)
                else:
                    gradients.extend(new)

            return _sum(forward_backward(micro_batch, backward) for micro_batch in mine), gradients

        num_workers = min(self.num_workers, len(micro_batches))
        return self._map(work, [micro_batches[first::num_workers] for first in range(num_workers)])

    def all_reduce(self, results: Sequence[WorkerResult]) -> Tensor:
        """Sum the threads' gradients, always in the same order, into each parameter's `grad`; returns the sums."""
        (sums, gradients), *others = results

        def add(share: Sequence[int]) -> None:
            for _, more in others:
                torch._foreach_add_([gradients[number] for number in share], [more[number] for number in share])

        if others:
            self._map(add, self._shares)
        for more_sums, _ in others:
            sums += more_sums
        for parameter, gradient in zip(self._parameters, gradients, strict=True):
            parameter.grad = gradient
        return sums

    def update(self, optimizer: torch.optim.Optimizer) -> None:
        """Make the optimizer's step, with the same numbers as `optimizer.step()`.

        Each thread updates some of the parameters, because torch's own threads would wait for each other after every
        parameter, for long where other programs want the cores.
        """
        if self._pool is None:
            optimizer.step()
            return

        def step(share: Sequence[int]) -> None:
            mine = {id(self._parameters[number]) for number in share}
            part = copy.copy(optimizer)  # shares the state
            part.param_groups = [
                {**group, "params": [each for each in group["params"] if id(each) in mine]}
                for group in optimizer.param_groups
            ]
            part.step()

        self._map(step, self._shares)

    def _map(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        return [work(item) for item in items] if self._pool is None else list(self._pool.map(work, items))


class RankParallel(Generic[MicroBatch]):
    """Micro-batches computed by the ranks of a world, each with all weights (DDP) or a part of them (FSDP).

    With FSDP a rank gathers the weights of a layer while it computes there, and keeps its part of the optimizer's
    state. An optimizer must be built after this, because the parameters become sharded ones.

    Args:
        forward: The module whose call is the forward pass; the same on all ranks. For FSDP it may still be on the
            CPU, so that a device never holds all of it.
        layers: The modules whose weights FSDP gathers one after the other; all others are gathered together.
        device: The device of this rank.
        empty: A micro-batch without any effect, which a rank computes to take part in the others' communication.
    """

    def __init__(
        self,
        forward: nn.Module,
        world: World,
        *,
        kind: Literal["ddp", "fsdp"],
        layers: Iterable[nn.Module],
        device: torch.device,
        empty: MicroBatch,
    ) -> None:
        self.num_workers = world.size
        self._rank, self._empty = world.rank, empty
        torch.get_device_module(device).set_device(device)  # where FSDP puts the weights and NCCL its buffers
        self._group = dist.new_group(backend=dist.get_default_backend_for_device(device), timeout=STEP_TIMEOUT)
        self._is_first_step = kind == "ddp"
        if kind == "ddp":
            # Buffers, which are tables of positions, grow where they are needed; torch 2.8 has another word for that.
            is_new = "forward_sync_buffers" in inspect.signature(DistributedDataParallel).parameters
            options: dict[str, Any] = {"forward_sync_buffers" if is_new else "broadcast_buffers": False}
            forward = DistributedDataParallel(
                forward, process_group=self._group, gradient_as_bucket_view=True, **options
            )
        else:
            from torch.distributed.device_mesh import DeviceMesh  # which takes seconds, as the next one does
            from torch.distributed.fsdp import fully_shard

            mesh = DeviceMesh.from_group(self._group, device.type)
            for module in (*layers, forward):
                fully_shard(module, mesh=mesh)
        self.forward = forward

    def run(
        self, forward_backward: ForwardBackward[MicroBatch], micro_batches: Sequence[MicroBatch]
    ) -> list[WorkerResult]:
        """Compute this rank's micro-batches, every n-th of n ranks; gradients are summed over the ranks meanwhile."""
        if self._is_first_step:
            # DDP learns from its first backward pass in which order gradients come, and sums them so from then on.
            # With that behind it, a run that is continued sums in the same order as one that was never stopped.
            self._is_first_step = False
            self.run(forward_backward, micro_batches)
            self.forward.zero_grad(set_to_none=True)
        num_rounds = -(-len(micro_batches) // self.num_workers)
        mine = list(micro_batches[self._rank :: self.num_workers])
        mine += [self._empty] * (num_rounds - len(mine))

        def backward(loss: Tensor) -> None:
            (loss * self.num_workers).backward()

        def compute(number: int, micro_batch: MicroBatch) -> Tensor:
            # DDP sums gradients with the last micro-batch; FSDP with each, for there is no room for whole ones.
            if number < num_rounds and isinstance(self.forward, DistributedDataParallel):
                with self.forward.no_sync():
                    return forward_backward(micro_batch, backward)
            return forward_backward(micro_batch, backward)

        return [(_sum(compute(number, each) for number, each in enumerate(mine, start=1)), ())]

    def all_reduce(self, results: Sequence[WorkerResult]) -> Tensor:
        """Sum the ranks' numbers; the gradients are summed already."""
        ((sums, _),) = results
        dist.all_reduce(sums, group=self._group)
        return sums

    def update(self, optimizer: torch.optim.Optimizer) -> None:
        """Make the optimizer's step."""
        optimizer.step()


DataParallel = ThreadParallel[MicroBatch] | RankParallel[MicroBatch]


def share_evenly(sizes: Sequence[int], *, num_shares: int) -> list[list[int]]:
    """The numbers of the items in each share, so that their sizes add up to about the same; some may be empty."""
    shares: list[list[int]] = [[] for _ in range(num_shares)]
    loads = [0] * num_shares
    for item in sorted(range(len(sizes)), key=lambda item: -sizes[item]):
        lightest = loads.index(min(loads))
        shares[lightest].append(item)
        loads[lightest] += sizes[item]
    return shares


def _sum(numbers: Iterable[Tensor]) -> Tensor:
    return functools.reduce(torch.add, numbers)
