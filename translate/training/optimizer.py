"""The optimizers, their learning rate, and the moving average of the weights."""

import math
from collections.abc import Mapping
from typing import Any, assert_never

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim import Optimizer

from translate.config.schema import TrainingConfig
from translate.model.device import explain_out_of_memory, is_asynchronous
from translate.model.precision import choose_precision
from translate.model.transformer import fused_projections

_MOMENTUM = 0.95  # of Muon
_UPDATE_SIZE = 0.2  # the root mean square of Muon's update over the rate: Adam's, so one rate suits both


def build_optimizers(model: nn.Module, config: TrainingConfig) -> list[Optimizer]:
    """Build Adam or AdamW, or Muon with AdamW, with decay on matrices only; set the learning rate before each step.

    Source: Kingma and Ba 2015, https://arxiv.org/abs/1412.6980; AdamW: Loshchilov and Hutter 2019,
    https://arxiv.org/abs/1711.05101; Muon: see `Muon`.
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    orthogonal = _orthogonal_weights(model, config)
    others = [parameter for parameter in trained if parameter not in orthogonal]
    matrices = [parameter for parameter in others if parameter.dim() > 1]
    vectors = [parameter for parameter in others if parameter.dim() <= 1]
    groups: list[dict[str, Any]] = [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]
    optimizers: list[Optimizer] = []
    if others:
        kind = torch.optim.Adam if config.optimizer == "adam" else torch.optim.AdamW
        adam = kind(
            [group for group in groups if group["params"]],
            lr=0.0,
            betas=(config.adam_beta1, config.adam_beta2),
            eps=config.adam_epsilon,
            weight_decay=config.weight_decay,
            fused=all(parameter.is_cpu or is_asynchronous(parameter.device) for parameter in trained),
        )
        optimizers.append(adam)
    if orthogonal:
        optimizers.append(Muon(orthogonal, weight_decay=config.weight_decay))
    return optimizers


def _orthogonal_weights(model: nn.Module, config: TrainingConfig) -> dict[nn.Parameter, int]:
    """The weights that Muon trains, which are matrices of the layers, and the number of projections in each."""
    if config.optimizer != "muon":
        return {}
    fused = fused_projections(model)
    return {
        parameter: fused.get(parameter, 1)
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and parameter.dim() == 2 and "layers." in name
    }


class Muon(Optimizer):
    """Moves each projection by its gradient's momentum made orthogonal.

    All singular values of such an update are about 1, so rare directions are learnt as fast as frequent ones. Updates
    are as large as Adam's.

    Args:
        weights: Matrices, and the number of projections that are the rows of each.

    Source: Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/; with the size of Adam's updates: Liu et al.
    2025, https://arxiv.org/abs/2502.16982.
    """

    found_inf: Tensor | None = None  # as of torch's fused optimizers: a step for which it is 1 changes nothing

    def __init__(self, weights: Mapping[nn.Parameter, int], *, weight_decay: float) -> None:
        alike: dict[tuple[int, int], list[nn.Parameter]] = {}
        for weight, num_projections in weights.items():
            alike.setdefault((len(weight) // num_projections, weight.shape[1]), []).append(weight)
        groups = [{"params": group, "projection_rows": rows} for (rows, _), group in alike.items()]
        super().__init__(groups, {"lr": 0.0, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Make a step with all weights that have a gradient; projections of one shape are moved together."""
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            if not weights:
                continue
            for weight in weights:
                if weight not in self.state:
                    self.state[weight] = {"exp_avg": torch.zeros_like(weight)}
            momenta = [self.state[weight]["exp_avg"] for weight in weights]
            gradients, rate = [weight.grad for weight in weights], group["lr"]
            if self.found_inf is not None:
                is_skipped, rate = self.found_inf > 0.0, rate * (1.0 - self.found_inf)
                gradients = [torch.where(is_skipped, *pair) for pair in zip(momenta, gradients, strict=True)]
            torch._foreach_lerp_(momenta, gradients, 1.0 - _MOMENTUM)
            updates = torch.cat(torch._foreach_lerp(gradients, momenta, _MOMENTUM))  # Nesterov's
            projections = updates.unflatten(0, (-1, group["projection_rows"]))
            size = rate * _UPDATE_SIZE * math.sqrt(max(projections.shape[1:]))
            # On a CPU, few enough at once to stay in its cache.
            at_once = max(1, (2**18 if updates.is_cpu else 2**27) // projections[0].numel())
            orthogonal = torch.cat([orthogonalize(some) for some in projections.split(at_once)])
            torch._foreach_mul_(weights, 1.0 - rate * group["weight_decay"])
            torch._foreach_sub_(weights, orthogonal.mul_(size).flatten(0, 1).split([len(weight) for weight in weights]))


def orthogonalize(matrices: Float[Tensor, "batch rows columns"]) -> Float[Tensor, "batch rows columns"]:
    """About the nearest matrices with orthogonal rows or columns: singular values are between 0.7 and 1.2, not 1.

    Five steps of a Newton–Schulz iteration, in bf16 where the device multiplies faster in it.

    Source: Jordan et al. 2024, with their coefficients.
    """
    is_tall = matrices.shape[1] > matrices.shape[2]
    dtype = {"bf16": torch.bfloat16, "fp32": torch.float32}[choose_precision("auto", matrices.device)]
    wide = (matrices.mT if is_tall else matrices).to(dtype).contiguous()
    wide = wide / (torch.linalg.matrix_norm(wide, keepdim=True) + 1e-7)
    for _ in range(5):
        gram = wide @ wide.mT
        factor = torch.baddbmm(gram, gram, gram, beta=-4.7750, alpha=2.0315)
        wide = torch.baddbmm(wide, factor, wide, beta=3.4445)
    return (wide.mT if is_tall else wide).to(matrices.dtype)


def expected_state(model: nn.Module, config: TrainingConfig) -> dict[str, Tensor]:
    """A tensor of the right shape and type for each entry of the optimizers' state, by `parameter/entry`."""
    orthogonal = _orthogonal_weights(model, config)
    state: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            state[f"{name}/exp_avg"] = parameter
            if parameter not in orthogonal:
                state |= {f"{name}/exp_avg_sq": parameter, f"{name}/step": torch.zeros(())}
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


def ends_at_max_steps(config: TrainingConfig) -> bool:
    """Whether the schedule falls until `max_steps`, to `final_learning_rate`; this is asked of the formula itself."""
    last, falls_to_zero = max(config.max_steps, config.warmup_steps + 1), {"final_learning_rate": 0.0}
    return learning_rate(last, config.model_copy(update=falls_to_zero), d_model=1) == 0.0


class AveragedWeights:
    """An exponential moving average of the trained weights, which usually translates better than the weights.

    In the first steps the decay is smaller, (1 + step) / (10 + step), to forget the initial weights soon.

    Source: Polyak and Juditsky 1992, https://doi.org/10.1137/0330046; the early decay: TensorFlow's
    `ExponentialMovingAverage`.
    """

    @explain_out_of_memory("the moving average of the weights", hint="Leave out training.ema_decay, or freeze more.")
    def __init__(self, model: nn.Module, *, decay: float) -> None:
        self.decay = decay
        self.tensors = {name: each.detach().clone() for name, each in model.named_parameters() if each.requires_grad}

    def update(self, model: nn.Module, *, step: int) -> None:
        """Move the average towards the weights after step number `step`."""
        decay = min(self.decay, (1 + step) / (10 + step))
        weights = [parameter.detach() for parameter in model.parameters() if parameter.requires_grad]
        torch._foreach_lerp_(list(self.tensors.values()), weights, 1.0 - decay)
