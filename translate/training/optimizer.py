"""The optimizer, its learning rate, and the moving average of the weights."""

import math
from typing import assert_never

import torch
from torch import Tensor, nn

from translate.config.schema import TrainingConfig
from translate.model.device import has_streams

_MOMENTS = ("exp_avg", "exp_avg_sq")  # Adam's; it also counts its steps


def build_optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """Build Adam or AdamW, with decay on matrices only. The learning rate is set before each step.

    Source: Kingma and Ba 2015, https://arxiv.org/abs/1412.6980; AdamW: Loshchilov and Hutter 2019,
    https://arxiv.org/abs/1711.05101.
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    matrices = [parameter for parameter in trained if parameter.dim() > 1]
    vectors = [parameter for parameter in trained if parameter.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[config.optimizer]
    is_fused = all(parameter.is_cpu or has_streams(parameter.device) for parameter in trained)
    return kind(groups, lr=0.0, betas=(config.adam_beta1, config.adam_beta2), eps=config.adam_epsilon, fused=is_fused)


def expected_state(model: nn.Module) -> dict[str, Tensor]:
    """A tensor of the right shape and type for each entry of the optimizer's state, by `parameter/entry`."""
    parameters = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    moments = {f"{name}/{entry}": parameter for name, parameter in parameters.items() for entry in _MOMENTS}
    return moments | {f"{name}/step": torch.zeros(()) for name in parameters}


def learning_rate(step: int, config: TrainingConfig, *, d_model: int) -> float:
    """The learning rate of a step, counted from 1: a pure function, so there is no state to save.

    Every schedule warms up linearly over `warmup_steps`. noam is the paper's formula with `learning_rate` as a factor.
    The others reach `learning_rate` itself; then it falls as 1 / sqrt(step), is constant, or decreases to
    `final_learning_rate` at `max_steps`, linearly, as half a cosine, or only in the last `decay_share` of the steps.

    Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, equation 3; cosine: Loshchilov and Hutter 2017,
    https://arxiv.org/abs/1608.03983, equation 5; wsd: Hägele et al. 2024, https://arxiv.org/abs/2405.18392, "1-sqrt".
    """
    warmup = config.warmup_steps
    if config.schedule == "noam":
        return config.learning_rate / math.sqrt(d_model) * min(1.0 / math.sqrt(step), step / warmup**1.5)
    if step < warmup:
        return config.learning_rate * step / warmup
    fall = config.learning_rate - config.final_learning_rate
    progress = min(1.0, (step - warmup) / max(1, config.max_steps - warmup))
    match config.schedule:
        case "inverse_sqrt":
            return config.learning_rate * math.sqrt(max(1, warmup) / step)
        case "constant":
            return config.learning_rate
        case "linear":
            return config.final_learning_rate + fall * (1.0 - progress)
        case "cosine":
            return config.final_learning_rate + fall * 0.5 * (1.0 + math.cos(math.pi * progress))
        case "wsd":
            decayed = max(0.0, progress - 1.0 + config.decay_share) / config.decay_share
            return config.final_learning_rate + fall * (1.0 - math.sqrt(decayed))
        case _:
            assert_never(config.schedule)


class AveragedWeights:
    """An exponential moving average of the trained weights, which usually translates better than the weights.

    In the first steps the decay is smaller, (1 + step) / (10 + step), to forget the initial weights soon.

    Source: Polyak and Juditsky 1992, https://doi.org/10.1137/0330046; the early decay: TensorFlow's
    `ExponentialMovingAverage`.
    """

    def __init__(self, model: nn.Module, *, decay: float) -> None:
        self.decay = decay
        self.tensors = {
            name: parameter.detach().clone() for name, parameter in model.named_parameters() if parameter.requires_grad
        }

    def update(self, model: nn.Module, *, step: int) -> None:
        """Move the average towards the weights after step number `step`."""
        decay = min(self.decay, (1 + step) / (10 + step))
        weights = [parameter.detach() for parameter in model.parameters() if parameter.requires_grad]
        torch._foreach_lerp_(list(self.tensors.values()), weights, 1.0 - decay)

    def copy_from(self, model: nn.Module) -> None:
        """Set the average to the model's weights."""
        for name, parameter in model.named_parameters():
            if name in self.tensors:
                self.tensors[name].copy_(parameter.detach())
