"""Adam and AdamW with the paper's settings, and their state as named tensors."""

import copy

import torch
from torch import Tensor, nn

from translate.config import TrainingConfig
from translate.training.workers import Workers, share_evenly

_MOMENTS = ("exp_avg", "exp_avg_sq")  # Adam's; beside them it counts its steps


def build_optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """The optimizer of a config, with decay on matrices only. Its learning rate is set before each step.

    Source: Kingma and Ba 2015, https://arxiv.org/abs/1412.6980; AdamW: Loshchilov and Hutter 2019,
    https://arxiv.org/abs/1711.05101.
    """
    matrices = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    vectors = [parameter for parameter in model.parameters() if parameter.dim() <= 1]
    groups = [
        {"params": matrices, "weight_decay": config.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[config.optimizer]
    is_fused = all(parameter.device.type in {"cpu", "cuda"} for parameter in model.parameters())
    return kind(groups, lr=0.0, betas=(config.adam_beta1, config.adam_beta2), eps=config.adam_epsilon, fused=is_fused)


class SharedOptimizer:
    """An optimizer's steps, made by workers of which each has some of the parameters: the same numbers.

    Torch's own threads would wait for each other after each parameter, for long where other programs want the cores.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, workers: Workers) -> None:
        self._optimizer = optimizer
        self._workers = workers
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        self._parts = []
        for share in share_evenly([each.numel() for each in parameters], shares=workers.layout.workers):
            own = {id(parameters[number]) for number in share}
            part = copy.copy(optimizer)  # which has the same state, by parameter
            part.param_groups = [
                {**group, "params": [each for each in group["params"] if id(each) in own]}
                for group in optimizer.param_groups
            ]
            self._parts.append(part)

    def step(self) -> None:
        """A step with the learning rates that the optimizer has now."""
        for part in self._parts:
            for own, group in zip(part.param_groups, self._optimizer.param_groups, strict=True):
                own["lr"] = group["lr"]
            part.state = self._optimizer.state
        self._workers.map(lambda part: part.step(), self._parts)


def expected_state(model: nn.Module) -> dict[str, Tensor]:
    """A tensor of the right shape and type for each entry of the optimizer's state, by `parameter/entry`."""
    parameters = dict(model.named_parameters())
    moments = {f"{name}/{entry}": parameter for name, parameter in parameters.items() for entry in _MOMENTS}
    return moments | {f"{name}/step": torch.zeros(()) for name in parameters}
