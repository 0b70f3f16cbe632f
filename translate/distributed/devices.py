"""What of its machine is a process's own, of several that train together: a GPU, and its part of the CPU threads."""

import torch

from translate.distributed.environment import DistributedEnvironment
from translate.errors import InputError
from translate.model.device import choose_device, threads_per_process


def choose_own_device(name: str, environment: DistributedEnvironment) -> torch.device:
    """The device that a config names; of several processes on a machine each takes a GPU of its own.

    Raises:
        InputError: There is none for this process.
    """
    device = choose_device(name, key="training.device")
    if environment.world_size == 1:
        return device
    if device.type == "mps":
        raise InputError("training.device: only one process can train on Apple's GPU; use training.device=cpu")
    if device.type != "cuda":
        return device
    if ":" in name:
        raise InputError(
            f"training.device = {name}: of {environment.world_size} processes each takes a GPU of its own; use"
            " training.device=cuda, and CUDA_VISIBLE_DEVICES to choose among them"
        )
    count = torch.cuda.device_count()
    if environment.local_rank >= count:
        raise InputError(
            f"training.device = {name}: there are {environment.local_world_size} processes on this machine, and it has"
            f" {count} GPU{'s' * (count > 1)}; start with --nproc-per-node {count}, or use training.device=cpu"
        )
    return torch.device("cuda", environment.local_rank)


def settle_threads(wanted: int | None, environment: DistributedEnvironment) -> None:
    """Give torch the CPU threads that are wanted; None: as it chooses, or what falls to one of several processes."""
    if wanted is None and environment.world_size > 1:
        wanted = threads_per_process(environment.local_world_size)
    if wanted is not None:
        torch.set_num_threads(wanted)
