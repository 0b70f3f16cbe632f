"""The learning rate as a pure function of the step, so that there is no state to save."""

import math

from translate.config import TrainingConfig


def learning_rate(step: int, config: TrainingConfig, *, d_model: int) -> float:
    """The rate of the step with this number, counted from 1.

    Every schedule warms up linearly over `warmup_steps`. noam then is the paper's formula with `learning_rate` as a
    factor; the others reach `learning_rate` itself and then fall as 1 / sqrt(step), stay, or go down to
    `final_learning_rate` at `max_steps` in a line or half a cosine.

    Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, equation 3; cosine: Loshchilov and Hutter 2017,
    https://arxiv.org/abs/1608.03983, equation 5.
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
