"""What full training, LoRA and frozen parts cost: parameters, bytes of gradients and optimizer, and time per step.

    python benchmarks/partial_tuning.py --turns 5

All train copies of one model on the same random batches in one process; their turns alternate, so that a noisy machine
is noisy for all. Times are processor time, as shares of full training's.
"""

import argparse
import statistics
import time
from typing import Any

import torch

from translate.config.load import override_config
from translate.config.schema import Config
from translate.data.batching import Batch, EncodedPair, collate
from translate.data.tokenizer import PAD_ID
from translate.memory import configure_memory
from translate.model import Transformer
from translate.training.setup import build_train_step
from translate.training.step import TrainStep

ALL_TARGETS = ["query", "key", "value", "output", "feed_forward"]
WAYS: dict[str, dict[str, Any]] = {
    "full": {},
    "full again": {},
    "LoRA 8, query and value": {"training.lora_rank": 8},
    "LoRA 8, all targets": {"training.lora_rank": 8, "training.lora_targets": ALL_TARGETS},
    "LoRA 8, all targets, decoder": {
        "training.lora_rank": 8,
        "training.lora_targets": ALL_TARGETS,
        "training.freeze": ["encoder"],
    },
    "freeze embeddings": {"training.freeze": ["embeddings"]},
    "freeze encoder": {"training.freeze": ["encoder"]},
    "freeze encoder, embeddings": {"training.freeze": ["encoder", "embeddings"]},
    "freeze decoder, embeddings": {"training.freeze": ["decoder", "embeddings"]},
}


def build(settings: dict[str, Any], options: argparse.Namespace) -> TrainStep:
    """A step that trains a new model in one of the ways."""
    sizes = {"d_model": options.d_model, "d_ff": 4 * options.d_model, "num_heads": 4, "dropout": 0.1}
    sizes |= {"num_encoder_layers": options.layers, "num_decoder_layers": options.layers}
    precision = {"training.precision": options.precision, "training.device": "cpu"}
    config = override_config(Config(), {f"model.{name}": size for name, size in sizes.items()} | precision | settings)
    torch.manual_seed(1)
    vocabulary = {"source_vocab_size": options.vocabulary, "target_vocab_size": options.vocabulary}
    model = Transformer(config.model, **vocabulary, pad_id=PAD_ID).train()
    return build_train_step(model, config.training, device=torch.device("cpu"))


def draw_batches(options: argparse.Namespace) -> list[Batch]:
    """Batches of random sentences of 10 to 29 tokens."""
    batches = []
    for _ in range(options.steps):
        lengths = torch.randint(10, 30, (options.pairs, 2)).tolist()
        sides = [[torch.randint(5, options.vocabulary, (length,)).tolist() for length in pair] for pair in lengths]
        batches.append(collate([EncodedPair(*pair) for pair in sides], range(options.pairs)))
    return batches


def main() -> None:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in {
        "turns": 5,
        "steps": 2,
        "pairs": 100,
        "d-model": 256,
        "layers": 3,
        "vocabulary": 8000,
    }.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    options = parser.parse_args()
    configure_memory()
    batches, steps = draw_batches(options), {way: build(settings, options) for way, settings in WAYS.items()}
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    number = 0
    for turn in range(options.turns + 1):  # the first one is not counted
        for batch in batches:
            number += 1
            for way, step in steps.items():
                started = time.process_time()
                step([batch], number=number, learning_rate=1e-4)
                if turn:
                    times[way].append(time.process_time() - started)
    print("| | trained parameters | optimizer and gradients | time per step |\n|---|---|---|---|")
    for way, step in steps.items():
        moments = sum(each.nbytes for state in step.optimizer.state.values() for each in state.values())
        gradients = 4 * step.model.num_trained_parameters
        share = statistics.median(mine / full for mine, full in zip(times[way], times["full"], strict=True))
        trained = f"{step.model.num_trained_parameters:,} of {step.model.num_parameters:,}"
        print(f"| {way} | {trained} | {(moments + gradients) / 2**20:.1f} MiB | {share:.2f} |")


if __name__ == "__main__":
    main()
