"""What it takes to train the presets of the paper, calculated from their shapes: nothing is run.

    python benchmarks/on_paper.py

The shares of the GPUs' peaks are assumptions; docs/scaling.md says where they come from.
"""

from typing import NamedTuple

import torch

from translate.config.load import load_config
from translate.config.schema import Config
from translate.data.tokenizer import PAD_ID
from translate.model import Transformer

PRESETS = ("transformer-base", "transformer-big")
LENGTH = 30  # tokens of a sentence on each side, for attention's part
BYTES_PER_WEIGHT = 16  # itself, its gradient and Adam's two moments, in fp32
GRADIENT_BYTES = 4


class Machine(NamedTuple):
    """GPUs, and the share of their peak that a training is assumed to reach: with the base model, with the big one."""

    name: str
    num_gpus: int
    peak: float  # dense bf16 FLOP/s of one, by its data sheet
    shares: tuple[float, float]


MACHINES = (
    Machine("1 x A100", 1, 312e12, (0.15, 0.25)),
    Machine("8 x A100", 8, 312e12, (0.075, 0.125)),
    Machine("1 x H100", 1, 989e12, (0.10, 0.18)),
    Machine("8 x H100", 8, 989e12, (0.05, 0.09)),
)
# Bytes per second in each direction: all links of one GPU, or all of one machine.
NETWORKS = (
    ("NVLink of an A100", 8, 300e9),
    ("NVLink of an H100", 8, 450e9),
    ("400 Gbit/s", 16, 50e9),
    ("100 Gbit/s", 16, 12.5e9),
    ("25 Gbit/s", 16, 3.125e9),
)


def flops_per_target_token(config: Config, *, length: int = LENGTH) -> float:
    """FLOP of the matrix products, forward and backward, for one target token and one source token.

    Each weight multiplies once forward and twice backward, and a multiplication with its addition is 2 FLOP.
    """
    model = config.model
    d, projection, feed_forward = model.d_model, model.d_model**2, 2 * model.d_model * model.d_ff
    encoder = 4 * projection + feed_forward + 2 * length * d  # each position looks at all: its scores, its mean
    decoder = 8 * projection + feed_forward + length * d + 2 * length * d  # at half of its own side, at all sources
    layers = model.num_encoder_layers * encoder + model.num_decoder_layers * decoder
    return 6.0 * (layers + config.tokenizer.vocab_size * d)


def num_parameters(config: Config) -> int:
    """Counted on the model itself, which takes no memory on the device `meta`."""
    vocab_size = config.tokenizer.vocab_size
    with torch.device("meta"):
        model = Transformer(config.model, source_vocab_size=vocab_size, target_vocab_size=vocab_size, pad_id=PAD_ID)
    return model.num_parameters


def all_reduce_bytes(num_weights: int, *, num_gpus: int) -> float:
    """Bytes that each GPU of a ring sends in a step, and receives."""
    return 2.0 * (num_gpus - 1) / num_gpus * num_weights * GRADIENT_BYTES


def report() -> str:
    """The whole report, as text."""
    configs = [load_config(preset).config for preset in PRESETS]
    flops = [flops_per_target_token(config) for config in configs]
    weights = [num_parameters(config) for config in configs]
    tokens = [config.training.max_steps * (config.training.step_tokens or 0) for config in configs]
    lines = [f"{'':<20}" + "".join(f"{preset:>28}" for preset in PRESETS)]
    lines.append(f"{'parameters':<20}" + "".join(f"{each:>28,}" for each in weights))
    lines.append(f"{'per target token':<20}" + "".join(f"{each / 1e6:>22,.0f} MFLOP" for each in flops))
    lines.append(
        f"{'the whole training':<20}" + "".join(f"{a * b:>23.1e} FLOP" for a, b in zip(flops, tokens, strict=True))
    )
    lines.append(f"{'weights, Adam':<20}" + "".join(f"{each * BYTES_PER_WEIGHT / 1e9:>25.1f} GB" for each in weights))
    lines += ["", f"{'assumed':<20}" + "   share  target tokens/s  hours" * 2]
    for machine in MACHINES:
        row = f"{machine.name:<20}"
        for share, each, total in zip(machine.shares, flops, tokens, strict=True):
            speed = machine.num_gpus * machine.peak * share / each
            row += f"{share:>8.1%}{speed:>17,.0f}{total / speed / 3600:>7.1f}"
        lines.append(row)
    lines += ["", f"{'gradients per step':<20}" + f"{'sent':>19}{'time':>9}" * 2]
    for name, num_gpus, speed in NETWORKS:
        row = f"{name:<20}"
        for each in weights:
            size = all_reduce_bytes(each, num_gpus=num_gpus)
            row += f"{size / 1e6:>16,.0f} MB{size / speed * 1e3:>6.0f} ms"
        lines.append(row)
    return "\n".join(lines)


if __name__ == "__main__":
    print(report())
