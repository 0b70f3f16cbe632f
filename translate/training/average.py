"""An exponential moving average of the weights: smoother, and as a rule better, than the last ones."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


class AveragedWeights:
    """Follows a model's weights.

    In the first steps the decay is smaller, (1 + step) / (10 + step), so that the initial weights are soon forgotten.

    Source: Polyak and Juditsky 1992, https://doi.org/10.1137/0330046; the early decay: TensorFlow's
    `ExponentialMovingAverage`.
    """

    def __init__(self, model: nn.Module, *, decay: float) -> None:
        self.decay = decay
        self.tensors = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}

    def update(self, model: nn.Module, *, step: int) -> None:
        """Move the average towards the weights after step number `step`."""
        decay = min(self.decay, (1 + step) / (10 + step))
        weights = [parameter.detach() for parameter in model.parameters()]
        torch._foreach_lerp_(list(self.tensors.values()), weights, 1.0 - decay)

    def copy_from(self, model: nn.Module) -> None:
        """Take the model's weights for the average."""
        for name, parameter in model.named_parameters():
            self.tensors[name].copy_(parameter.detach())

    @contextmanager
    def lent_to(self, model: nn.Module) -> Iterator[None]:
        """For a while the model computes with the average; afterwards it has its own weights back."""
        own = {name: parameter.data for name, parameter in model.named_parameters()}
        try:
            for name, parameter in model.named_parameters():
                parameter.data = self.tensors[name]
            yield
        finally:
            for name, parameter in model.named_parameters():
                parameter.data = own[name]
