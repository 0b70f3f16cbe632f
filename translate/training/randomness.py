"""Torch's random generators, of all devices; shuffling and subword sampling are functions of the seed and the epoch."""

from collections.abc import Mapping

import torch
from torch import Tensor


def random_states() -> dict[str, Tensor]:
    """The state of each generator that a training may draw from."""
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        states |= {f"cuda:{index}": state for index, state in enumerate(torch.cuda.get_rng_state_all())}
    if torch.backends.mps.is_available():
        states["mps"] = torch.mps.get_rng_state()
    return states


def set_random_states(states: Mapping[str, Tensor]) -> None:
    """Put the generators back; those of devices that this machine lacks are left out."""
    for name, state in states.items():
        device = torch.device(name)  # version 0.1.0 wrote `cuda`, the first one
        match device.type:
            case "cpu":
                torch.set_rng_state(state)
            case "cuda" if (device.index or 0) < torch.cuda.device_count():
                torch.cuda.set_rng_state(state, device=device.index or 0)
            case "mps" if torch.backends.mps.is_available():
                torch.mps.set_rng_state(state)
