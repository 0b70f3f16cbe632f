"""Setting up a training: the device and threads of each process, and how a step is shared."""

import pytest
import torch

from translate.config import TrainingConfig
from translate.distributed.process_group import DistributedEnvironment
from translate.errors import InputError
from translate.training.setup import choose_training_device, choose_workers

CPU = torch.device("cpu")


def test_each_process_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for name in ("auto", "cuda"):
        assert choose_training_device(name, DistributedEnvironment(5, 8, 1, 2)) == torch.device("cuda", 1)
        with pytest.raises(InputError, match="4 processes on this machine, and it has 2 GPUs; .* --nproc-per-node 2"):
            choose_training_device(name, DistributedEnvironment(2, 4, 2, 4))
    assert choose_training_device("cpu", DistributedEnvironment(2, 4, 2, 4)) == torch.device("cpu")
    assert choose_training_device("cuda:1", DistributedEnvironment()) == torch.device("cuda", 1)
    with pytest.raises(InputError, match="training.device = cuda:1: each of 2 processes takes a GPU of its own"):
        choose_training_device("cuda:1", DistributedEnvironment(0, 2, 0, 2))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, (4, 1)),
        ({"batch_tokens": 1100}, (2, 2)),
        ({"batch_tokens": 550, "accumulate_batches": 2}, (2, 2)),
        ({"batch_tokens": 300}, (1, 4)),
        ({"batch_tokens": 1600}, (3, 1)),
        ({"compile": True}, (1, 4)),
    ],
)
def test_a_worker_for_each_thread_if_batches_are_large(settings: dict[str, int], expected: tuple[int, int]) -> None:
    torch.set_num_threads(4)
    assert choose_workers(TrainingConfig(**settings), CPU) == expected


def test_one_on_a_gpu_and_where_processes_share_the_work() -> None:
    torch.set_num_threads(4)
    assert choose_workers(TrainingConfig(), torch.device("cuda")) == (1, 4)
    assert choose_workers(TrainingConfig(), CPU, world_size=2) == (1, 4)
