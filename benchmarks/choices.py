"""Do the choices that make training fast cost quality? A config, trained with and without them, from several seeds.

    python benchmarks/choices.py demo --seeds 1 2 3

The choices are bf16, against fp32; batches of similar lengths, against as many batches of as many pairs in a random
order, as a shuffling loader makes them; and the number of batches in a step, each of another length. All else is the
same: the pairs of an epoch, the tokens of a step, the number of steps, the seed. The scores are those of the validation
set at the end of training; after ± is the standard deviation over seeds.
"""

import argparse
import importlib
import json
import multiprocessing
import statistics
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

SPLITS = {"one batch": 1, "two batches": 2, "four batches": 4}
CHOICES = ("as it is", "fp32", "random batches", *SPLITS)


class Outcome(NamedTuple):
    """The end of a training."""

    bleu: float
    loss: float  # nats per target token
    padding: float  # of all tokens computed in an epoch


def shuffle_pairs() -> None:
    """Make this process put pairs into batches regardless of their lengths."""
    import numpy as np

    epochs: Any = importlib.import_module("translate.data.epochs")

    cut_batches = epochs.cut_batches

    def shuffle(lengths: Any, _: Any, *, generator: Any) -> Any:
        return generator.permutation(len(lengths))

    def cut_evenly(widths: Any, *, max_tokens: int) -> Any:
        """As many batches as the order of lengths would make."""
        borders = cut_batches(np.sort(widths), max_tokens=max_tokens)
        return np.linspace(0, len(widths), len(borders)).round().astype(np.int64)

    epochs.order_by_length, epochs.cut_batches = shuffle, cut_evenly


def train_once(preset: str, overrides: list[str], seed: int, choice: str, folder: Path) -> Outcome:
    """A whole training, in a process of its own."""
    from translate.config.load import load_config
    from translate.training import train

    if choice == "random batches":
        shuffle_pairs()
    settings = [*overrides, f"training.seed={seed}"]
    if choice == "fp32":
        settings.append("training.precision=fp32")
    if choice in SPLITS:
        given = load_config(preset, overrides).config.training
        step_tokens = given.step_tokens or given.num_batch_tokens * given.accumulate_batches
        settings += ["training.accumulate_batches=1", f"training.step_tokens={step_tokens}"]
        settings.append(f"training.batch_tokens={step_tokens // SPLITS[choice]}")
    config = load_config(preset, settings, require_files=True).config
    train(config, folder, resume=False, command=["benchmarks/choices.py"])
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    last = [record for record in records if record["kind"] == "validation"][-1]
    return Outcome(last["BLEU"], last["loss"], padding_share(config))


def padding_share(config: Any) -> float:
    """Padding of the first epoch."""
    from translate.training.preparation import make_batches, make_tokenizers, read_corpora

    corpora = read_corpora(config)
    tokenizers = make_tokenizers(config, corpora)
    return make_batches(config, corpora, tokenizers).epoch(0).padding.share


def main() -> None:
    """Train with each choice from each seed, and print what validation says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config")
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--choices", nargs="+", default=CHOICES, choices=CHOICES)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    arguments = parser.parse_args()
    outcomes: dict[str, list[Outcome]] = {choice: [] for choice in arguments.choices}
    with tempfile.TemporaryDirectory() as folder:
        for seed in arguments.seeds:
            for choice in arguments.choices:
                run = Path(folder) / f"{choice} {seed}"
                with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
                    given = (arguments.config, arguments.overrides, seed, choice, run)
                    outcome = process.submit(train_once, *given).result()
                outcomes[choice].append(outcome)
                print(f"seed {seed}, {choice}: BLEU {outcome.bleu:.2f}, loss {outcome.loss:.4f}", flush=True)
    print(f"{'':>15} {'BLEU':>15} {'loss':>8} {'padding':>8}")
    for choice, these in outcomes.items():
        bleu, loss, padding = ([getattr(each, name) for each in these] for name in Outcome._fields)
        spread = f" ± {statistics.stdev(bleu):.2f}" if len(bleu) > 1 else ""
        print(
            f"{choice:>15} {f'{statistics.mean(bleu):.2f}{spread}':>15} {statistics.mean(loss):8.4f}"
            f" {statistics.mean(padding):8.1%}"
        )


if __name__ == "__main__":
    main()
