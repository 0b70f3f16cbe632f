"""Threads that share the work of a step: at once, in order, evenly, and to the last bit what one would compute."""

import copy
import functools
import threading
from typing import Literal

import pytest
import torch
from torch import Tensor, nn

from translate.config.schema import TrainingConfig
from translate.distributed.process_group import SINGLE_PROCESS
from translate.distributed.state import load_optimizer_state_dict, optimizer_state_dict
from translate.training.data_parallel import EMPTY, Backward, MicroBatch, ThreadParallel
from translate.training.optimizer import build_optimizers


def numbered(count: int) -> list[MicroBatch]:
    return [EMPTY._replace(seed=(number,)) for number in range(count)]


def threads(num_workers: int, module: nn.Module | None = None) -> ThreadParallel:
    return ThreadParallel(nn.Linear(3, 2) if module is None else module, num_workers=num_workers, num_threads=1)


def test_micro_batches_are_computed_at_once_and_summed_in_order() -> None:
    """The same gradients and sums as by one thread, which adds them one after the other; even by more threads than
    there are parameters."""
    torch.set_num_threads(4)
    module = nn.Linear(3, 2)
    inputs = torch.randn(5, 7, 3)
    both_here = threading.Barrier(2, timeout=20)

    def compute(micro_batch: MicroBatch, backward: Backward, *, wait: bool) -> Tensor:
        (number,) = micro_batch.seed
        if wait and number < 2:
            both_here.wait()  # neither goes on if they come one after the other
        loss = module(inputs[number]).square().sum()
        backward(loss)
        return torch.stack([loss.detach(), torch.tensor(float(torch.get_num_threads()))])

    results = []
    for num_workers in (1, 2, 3):
        parallel = threads(num_workers, module)
        sums = parallel.all_reduce(parallel.run(functools.partial(compute, wait=num_workers == 2), numbered(5)))
        results.append((sums, [parameter.grad for parameter in module.parameters()]))
    (alone, expected), *others = results
    for together, gradients in others:
        assert alone.tolist() == [pytest.approx(together[0].item(), rel=1e-6), 5 * 4] and together[1] == 5 * 1
        for mine, wanted in zip(gradients, expected, strict=True):
            torch.testing.assert_close(mine, wanted)
    assert torch.get_num_threads() == 4, "the caller keeps its own"


@pytest.mark.parametrize("name, num_entries", [("adamw", 15), ("muon", 11)])
@pytest.mark.parametrize("num_workers", [2, 3, 7])  # of five parameters
def test_updates_by_threads_are_the_optimizers_own(
    num_workers: int, name: Literal["adamw", "muon"], num_entries: int
) -> None:
    """To the last bit, from a state that was read in too; and the optimizer has all of it."""
    first = nn.ModuleDict({"layers": nn.Sequential(nn.Linear(31, 29), nn.LayerNorm(29), nn.Linear(29, 23, bias=False))})
    second = copy.deepcopy(first)
    settings = TrainingConfig(optimizer=name, weight_decay=0.01)
    alone, others = build_optimizers(first, settings), build_optimizers(second, settings)
    parallel = threads(num_workers, second)
    for number in range(1, 6):
        if number == 4:
            saved = optimizer_state_dict(second, others)
            load_optimizer_state_dict(second, others, saved, SINGLE_PROCESS)
        for mine, theirs in zip(first.parameters(), second.parameters(), strict=True):
            mine.grad = torch.randn_like(mine)
            theirs.grad = mine.grad.clone()
        for optimizer in (*alone, *others):
            for group in optimizer.param_groups:
                group["lr"] = 0.1 / number
        for optimizer in alone:
            optimizer.step()
        parallel.update(others)
    for mine, theirs in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    expected, found = optimizer_state_dict(first, alone), optimizer_state_dict(second, others)
    assert expected.keys() == found.keys() and len(found) == num_entries
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())
