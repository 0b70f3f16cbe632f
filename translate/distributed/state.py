"""The state of a model and its optimizers as full tensors by name, however they are sharded."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from translate.distributed.process_group import World


def is_sharded(tensor: Tensor) -> bool:
    """Whether this process holds only a part of a tensor."""
    return hasattr(tensor, "full_tensor")


def full_tensor(tensor: Tensor) -> Tensor:
    """Gather a tensor from all processes; all must call this."""
    return tensor.full_tensor() if is_sharded(tensor) else tensor  # type: ignore[attr-defined]


def full_state_dict(tensors: Mapping[str, Tensor], world: World) -> dict[str, Tensor]:
    """Gather tensors on rank 0, sharded ones on its CPU, one after the other; the other ranks get none."""
    full_tensors = {}
    for name, tensor in tensors.items():
        full = full_tensor(tensor)
        if world.is_main_process:
            full_tensors[name] = full.cpu() if is_sharded(tensor) else full
    return full_tensors


def optimizer_state_dict(model: nn.Module, optimizers: Sequence[Optimizer]) -> dict[str, Tensor]:
    """The optimizers' state as `parameter/entry` tensors, which a safetensors file can hold; sharded like the model."""
    return {
        f"{name}/{entry}": tensor
        for name, parameter in model.named_parameters()
        for optimizer in optimizers
        for entry, tensor in optimizer.state.get(parameter, {}).items()
    }


def load_model_state_dict(model: nn.Module, tensors: Mapping[str, Tensor], world: World) -> None:
    """Give a model the full tensors that rank 0 has, each process its part of them.

    Args:
        tensors: The parameters by name, tied ones once; empty on the other ranks. The caller has checked the names.
    """
    from torch.distributed.checkpoint import state_dict  # which takes a second to import

    options = state_dict.StateDictOptions(full_state_dict=True, broadcast_from_rank0=world.size > 1, strict=False)
    state_dict.set_model_state_dict(model, dict(tensors), options=options)


def load_optimizer_state_dict(
    model: nn.Module, optimizers: Sequence[Optimizer], tensors: Mapping[str, Tensor], world: World
) -> None:
    """Give optimizers the full state that rank 0 has, each process its part of it.

    Args:
        tensors: The state as `optimizer_state_dict` names it; empty on the other ranks.
    """
    from torch.distributed.checkpoint import state_dict

    names = {parameter: name for name, parameter in model.named_parameters() if parameter.requires_grad}
    state: dict[str, Any] = {}
    if world.is_main_process:
        moments: dict[str, dict[str, Tensor]] = {name: {} for name in names.values()}
        for key, tensor in tensors.items():
            name, _, entry = key.rpartition("/")
            moments[name][entry] = tensor.clone()  # a tensor read from a file may share the file's memory
        groups = [
            {**group, "params": [names[parameter] for parameter in group["params"]]}
            for optimizer in optimizers
            for group in optimizer.param_groups
        ]
        state = {"state": moments, "param_groups": groups}
    options = state_dict.StateDictOptions(full_state_dict=True, broadcast_from_rank0=world.size > 1, strict=False)
    state_dict.set_optimizer_state_dict(model, optimizers, state, options=options)
