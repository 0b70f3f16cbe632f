"""The optimizer, its learning rate, and the moving average of the weights."""

import math
from typing import Any, assert_never

import torch
from jaxtyping import Float
from torch import Tensor, nn

from translate.config.schema import TrainingConfig
from translate.model.device import has_streams
from translate.model.precision import choose_precision
from translate.model.transformer import fused_projections

_MOMENTUM = 0.95  # of Muon
_UPDATE_SIZE = 0.2  # the root mean square of Muon's update over the rate: Adam's, so one rate suits both


def build_optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """Build Adam, AdamW or Muon, with decay on matrices only. The learning rate is set before each step.

    Source: Kingma and Ba 2015, https://arxiv.org/abs/1412.6980; AdamW: Loshchilov and Hutter 2019,
    https://arxiv.org/abs/1711.05101; Muon: see `Muon`.
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    orthogonal = _orthogonal_weights(model, config)
    others = [each for each in trained if each not in orthogonal]
    groups: list[dict[str, Any]] = [
        {"params": [each for each in others if each.dim() > 1]},
        {"params": [each for each in others if each.dim() <= 1], "weight_decay": 0.0},
        *(
            {"params": [each for each in orthogonal if orthogonal[each] == number], "num_parts": number}
            for number in sorted({*orthogonal.values()})
        ),
    ]
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "muon": Muon}[config.optimizer]
    return kind(
        groups,
        lr=0.0,
        betas=(config.adam_beta1, config.adam_beta2),
        eps=config.adam_epsilon,
        weight_decay=config.weight_decay,
        fused=all(parameter.is_cpu or has_streams(parameter.device) for parameter in trained),
    )


def _orthogonal_weights(model: nn.Module, config: TrainingConfig) -> dict[Tensor, int]:
    """The weights that Muon trains, which are matrices of the layers, and the number of projections in each."""
    if config.optimizer != "muon":
        return {}
    fused = fused_projections(model)
    return {
        parameter: fused.get(parameter, 1)
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and parameter.dim() == 2 and "layers." in name
    }


class Muon(torch.optim.AdamW):
    """Muon for groups with `num_parts`, the number of projections that each of their weights holds; AdamW for others.

    A projection moves by its gradient's momentum made orthogonal: all singular values become about 1, so rare
    directions are learnt as fast as frequent ones.

    Source: Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/; with the size of Adam's updates: Liu et al.
    2025, https://arxiv.org/abs/2502.16982.
    """

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Make a step with all weights that have a gradient."""
        for group in self.param_groups:
            for weight in group["params"] if "num_parts" in group else ():
                if weight.grad is not None:
                    self._step_matrix(weight, weight.grad, group)
                    weight.grad = None  # so AdamW leaves it alone
        super().step(closure)

    @torch.no_grad()
    def _step_matrix(self, weight: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[weight]
        if not state:
            state |= {"step": torch.zeros(()), "exp_avg": torch.zeros_like(weight)}  # AdamW wants a `step` in each
        state["step"] += 1.0
        momentum = state["exp_avg"].lerp_(gradient, 1.0 - _MOMENTUM)
        update = gradient.lerp(momentum, _MOMENTUM)  # Nesterov's
        weight.mul_(1.0 - group["lr"] * group["weight_decay"])
        for part, change in zip(weight.chunk(group["num_parts"]), update.chunk(group["num_parts"]), strict=True):
            part.sub_(orthogonalize(change), alpha=group["lr"] * _UPDATE_SIZE * math.sqrt(max(part.shape)))


def orthogonalize(matrix: Float[Tensor, "rows columns"]) -> Float[Tensor, "rows columns"]:
    """About the nearest matrix with orthogonal rows or columns: the singular values are between 0.7 and 1.2, not 1.

    Five steps of a Newton–Schulz iteration, in bf16 where the device multiplies faster in it.

    Source: Jordan et al. 2024, with their coefficients.
    """
    is_tall = matrix.shape[0] > matrix.shape[1]
    dtype = {"bf16": torch.bfloat16, "fp32": torch.float32}[choose_precision("auto", matrix.device)]
    wide = (matrix.t() if is_tall else matrix).to(dtype)
    wide = wide / (wide.norm() + 1e-7)
    for _ in range(5):
        gram = wide @ wide.t()
        wide = torch.addmm(wide, torch.addmm(gram, gram, gram, beta=-4.7750, alpha=2.0315), wide, beta=3.4445)
    return (wide.t() if is_tall else wide).to(matrix.dtype)


def expected_state(model: nn.Module, config: TrainingConfig) -> dict[str, Tensor]:
    """A tensor of the right shape and type for each entry of the optimizer's state, by `parameter/entry`."""
    orthogonal = _orthogonal_weights(model, config)
    state: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            state |= {f"{name}/exp_avg": parameter, f"{name}/step": torch.zeros(())}
            state |= {} if parameter in orthogonal else {f"{name}/exp_avg_sq": parameter}
    return state


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
