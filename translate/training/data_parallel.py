"""Data parallelism: a step's batches are split into micro-batches, which threads or the ranks of a world compute.

Both classes have the same methods: a step calls `run`, which calls `forward`; then `all_reduce`, then `update`.
"""

import contextlib
import copy
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NamedTuple, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from translate.config.schema import TrainingConfig
from translate.data.batching import Batch, EncodedPair, collate
from translate.distributed.process_group import STEP_TIMEOUT, World
from translate.model.transformer import product_weights

T = TypeVar("T")
R = TypeVar("R")

_MIN_TOKENS = 512  # of a micro-batch on each side: with fewer, Python's own time weighs too much


class MicroBatch(NamedTuple):
    """Some of a step's pairs, which are computed together."""

    batch: Batch
    seed: tuple[int, ...]  # for `dropout_seeded`
    weight: float = 1.0  # of its loss; zero if it only keeps this rank in sync with the others


EMPTY = MicroBatch(collate([EncodedPair([], [])], [0]), seed=(0,), weight=0.0)

Backward = Callable[[Tensor], None]
"""Computes the gradients of a loss and adds them to the gradients of earlier micro-batches."""
ForwardBackward = Callable[[MicroBatch, Backward], Tensor]
"""Computes a micro-batch with the given backward pass, and returns numbers to sum over the whole step."""
WorkerResult = tuple[Tensor, Sequence[Tensor]]
"""A worker's sums, and one gradient per parameter; no gradients if all are in `grad` already."""


def split_into_micro_batches(batches: Sequence[Batch], num: int, *, seed: int, step: int) -> list[MicroBatch]:
    """Split the batches of a step so that `num` workers are as busy as possible.

    Every batch is split into the same number of parts. A part has every n-th pair, so all parts have about equally many
    tokens. Its pairs and its dropout masks depend only on its number, not on who computes it. So training is the same
    wherever the number of parts is the same, except for the order in which gradients are summed.
    """
    least = -(-num // len(batches))
    # The time of a step: the rounds of micro-batches, times the share of a batch that each of them is.
    num_parts = min(range(least, least + 4), key=lambda parts: (-(-len(batches) * parts // num) / parts, parts))
    parts = [Batch._make(rows[first::num_parts] for rows in batch) for batch in batches for first in range(num_parts)]
    full_parts = [part for part in parts if part.indices]
    return [MicroBatch(part, (seed, step, number)) for number, part in enumerate(full_parts)]


def choose_workers(settings: TrainingConfig, device: torch.device, *, world_size: int = 1) -> tuple[int, int]:
    """Choose how many micro-batches this process computes at once, and torch's threads for each.

    On a CPU each thread has its own micro-batch if the batches are large enough; elsewhere, and with several ranks,
    there is one at a time.
    """
    threads = torch.get_num_threads()
    if world_size > 1 or device.type != "cpu" or settings.compile:  # a compiled program has its own threads
        return 1, threads
    workers = max(1, min(threads, settings.num_batch_tokens * settings.accumulate_batches // _MIN_TOKENS))
    return workers, max(1, threads // workers)


class ThreadParallel:
    """Micro-batches computed by threads that share one copy of the weights; a single thread is the caller's own.

    On a CPU, several matrix products on one core each are faster than one product at a time on several cores: cores do
    not wait for each other after each product, and all other operations run on all cores too.

    Each of the workers computes one micro-batch at a time, with `num_threads` threads of torch.

    Args:
        dtype: The type of matrix products. If it is not the weights' own, each step copies the weights of the layers
            once; autocast would cast each of them in the forward pass of each micro-batch, and its gradient in the
            backward pass.
    """

    def __init__(
        self, forward: nn.Module, *, num_workers: int, num_threads: int, dtype: torch.dtype = torch.float32
    ) -> None:
        self.forward, self.num_workers = forward, num_workers
        self._parameters = [parameter for parameter in forward.parameters() if parameter.requires_grad]
        self._products = [weight for weight in product_weights(forward) if weight.dtype != dtype]
        self._exact = [weight.detach() for weight in self._products]  # with the same memory
        self._copies: list[Tensor] = []
        self._dtype = dtype
        # Parameters by number, the largest first and every n-th: each thread has about as many weights.
        order = sorted(range(len(self._parameters)), key=lambda number: -self._parameters[number].numel())
        self._shares = [order[first::num_workers] for first in range(min(num_workers, len(order)))]
        self._pool: ThreadPoolExecutor | None = None
        if num_workers > 1:
            self._pool = ThreadPoolExecutor(num_workers, "micro-batch", torch.set_num_threads, (num_threads,))

    def run(self, forward_backward: ForwardBackward, micro_batches: Sequence[MicroBatch]) -> list[WorkerResult]:
        """Compute the micro-batches; each of n threads takes every n-th, and returns one result."""

        def work(mine: Sequence[MicroBatch]) -> WorkerResult:
            gradients: list[Tensor] = []

            def backward(loss: Tensor) -> None:
                # Not `loss.backward()`, which would add to the same tensors from several threads, in any order.
                new = _widen(torch.autograd.grad(loss, self._parameters))
                if gradients:
                    torch._foreach_add_(gradients, new)
                else:
                    gradients.extend(new)

            numbers = [forward_backward(micro_batch, backward) for micro_batch in mine]
            return functools.reduce(torch.add, numbers), gradients

        num_workers = min(self.num_workers, len(micro_batches))
        with self._weights_copied():
            return self._map(work, [micro_batches[first::num_workers] for first in range(num_workers)])

    @contextlib.contextmanager
    def _weights_copied(self) -> Iterator[None]:
        """Within the context, the weights of products are copies in the type of these products."""
        if self._products:
            self._copies = self._copies or [torch.empty_like(weight, dtype=self._dtype) for weight in self._exact]
            torch._foreach_copy_(self._copies, self._exact)
        try:
            for weight, narrow in zip(self._products, self._copies, strict=True):
                weight.data = narrow
            yield
        finally:
            for weight, exact in zip(self._products, self._exact, strict=True):
                weight.data = exact

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

    def update(self, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        """Make the optimizers' step; each thread updates some of the parameters.

        Torch's own threads would synchronize after every parameter.
        """
        if self._pool is None:
            for optimizer in optimizers:
                optimizer.step()
            return

        def step(share: Sequence[int]) -> None:
            mine = {id(self._parameters[number]) for number in share}
            for optimizer in optimizers:
                part = copy.copy(optimizer)  # shares the state
                part.param_groups = [
                    {**group, "params": [weight for weight in group["params"] if id(weight) in mine]}
                    for group in optimizer.param_groups
                ]
                part.step()

        self._map(step, self._shares)

    def _map(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        return [work(item) for item in items] if self._pool is None else list(self._pool.map(work, items))


def _widen(gradients: Sequence[Tensor]) -> list[Tensor]:
    """The same gradients, with those in bf16 or fp16 copied to fp32, in which micro-batches are summed."""
    wide = [torch.empty_like(each, dtype=torch.float32) if each.itemsize < 4 else each for each in gradients]
    copied = [pair for pair in zip(wide, gradients, strict=True) if pair[0] is not pair[1]]
    if copied:
        torch._foreach_copy_([new for new, _ in copied], [narrow for _, narrow in copied])
    return wide


class RankParallel:
    """Micro-batches computed by the ranks of a world; each rank has all weights (DDP) or a part of them (FSDP).

    Build the optimizer after this, because FSDP replaces the parameters by sharded ones.

    Args:
        forward: The same on all ranks. For FSDP it may still be on the CPU, so a device never holds all of it.
        layers: The modules whose weights FSDP gathers one at a time; all other weights are gathered together.
    """

    def __init__(
        self,
        forward: nn.Module,
        world: World,
        *,
        kind: Literal["ddp", "fsdp"],
        layers: Iterable[nn.Module],
        device: torch.device,
    ) -> None:
        self.num_workers = world.size
        self._rank = world.rank
        torch.get_device_module(device).set_device(device)  # where FSDP puts the weights and NCCL its buffers
        self._group = dist.new_group(backend=dist.get_default_backend_for_device(device), timeout=STEP_TIMEOUT)
        self._is_first_step = kind == "ddp"
        if kind == "ddp":
            # Buffers, which are tables of positions, grow on demand; torch 2.8 has another name for the option.
            is_new = "forward_sync_buffers" in inspect.signature(DistributedDataParallel).parameters
            options: dict[str, Any] = {"forward_sync_buffers" if is_new else "broadcast_buffers": False}
            forward = DistributedDataParallel(
                forward, process_group=self._group, gradient_as_bucket_view=True, **options
            )
        else:
            from torch.distributed.device_mesh import DeviceMesh  # takes seconds, like the next one
            from torch.distributed.fsdp import fully_shard

            mesh = DeviceMesh.from_group(self._group, device.type)
            for module in (*layers, forward):
                fully_shard(module, mesh=mesh)
        self.forward = forward

    def run(self, forward_backward: ForwardBackward, micro_batches: Sequence[MicroBatch]) -> list[WorkerResult]:
        """Compute every n-th micro-batch on each of n ranks, which sum their gradients at the same time."""
        if self._is_first_step:
            # DDP learns the order of gradients from its first backward pass, and sums them in that order from then on.
            # This extra pass makes a resumed run sum in the same order as one that was never stopped.
            self._is_first_step = False
            self.run(forward_backward, micro_batches)
            self.forward.zero_grad(set_to_none=True)
        num_rounds = -(-len(micro_batches) // self.num_workers)
        mine = list(micro_batches[self._rank :: self.num_workers])
        mine += [EMPTY] * (num_rounds - len(mine))

        def backward(loss: Tensor) -> None:
            (loss * self.num_workers).backward()

        def compute(number: int, micro_batch: MicroBatch) -> Tensor:
            # DDP sums gradients with the last micro-batch; FSDP with each, as it has no room for whole gradients.
            if number < num_rounds and isinstance(self.forward, DistributedDataParallel):
                with self.forward.no_sync():
                    return forward_backward(micro_batch, backward)
            return forward_backward(micro_batch, backward)

        numbers = [compute(number, micro_batch) for number, micro_batch in enumerate(mine, start=1)]
        return [(functools.reduce(torch.add, numbers), ())]

    def all_reduce(self, results: Sequence[WorkerResult]) -> Tensor:
        """Sum the ranks' numbers; the gradients have been summed already."""
        ((sums, _),) = results
        dist.all_reduce(sums, group=self._group)
        return sums

    def update(self, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        """Make the optimizers' step."""
        for optimizer in optimizers:
            optimizer.step()


DataParallel = ThreadParallel | RankParallel
