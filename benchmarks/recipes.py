"""The ablation table of docs/recipes.md: variants of presets, each with some seeds, on three sets.

    python benchmarks/recipes.py DIR OUT --seeds 1 2 3 --only fast fast-no-weight-decay

DIR contains Multi30k as plain text: train.de, train.en, val.de, val.en, test_2016_flickr.de and test_2016_flickr.en.
The last tenth of the training pairs is held out: nothing is trained on it, and no setting is chosen by it. OUT gets the
split and a run for each variant and seed. Finished runs are not trained again, and an interrupted one continues, so the
command can be repeated until the table is complete. Every run is `translate train` with the overrides of VARIANTS, and
every score is `translate eval` with the run's own search.

Significance compares the first variant with each other one, by paired approximate randomisation on the held-out set,
with the translations of all seeds joined.

With --changed, a second table scores greedy search on copies of the validation set, each changed in one way.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from translate.config.data import Augmentation
from translate.config.schema import EvaluationConfig
from translate.evaluation.compare import compare
from translate.runs.metrics import read_metrics
from translate.runs.run import open_run

_HALF = ["training.max_steps=2000", "model.dropout=0.2", "decoding.length_penalty=0.6"]
_AUGMENT = (  # as in docs/training.md
    "{upper_case: 0.05, title_case: 0.05, lower_case: 0.05,"
    " drop_final_punctuation: 0.05, ascii_umlauts: 0.05, typos: 0.1}"
)
VARIANTS: dict[str, tuple[str, list[str]]] = {  # the preset, and what is changed in it
    "fast": ("multi30k-fast", []),
    "fast-no-weight-decay": ("multi30k-fast", ["training.weight_decay=0"]),
    "fast-vocabulary-8000": ("multi30k-fast", ["tokenizer.vocab_size=8000"]),
    "fast-rate-1e-3": ("multi30k-fast", ["training.learning_rate=1e-3"]),
    "fast-no-moving-average": ("multi30k-fast", ["training.ema_decay=null"]),
    "fast-no-label-smoothing": ("multi30k-fast", ["training.label_smoothing=0"]),
    "fast-dropout-0.3": ("multi30k-fast", ["model.dropout=0.3"]),
    "fast-post-norm": ("multi30k-fast", ["model.norm=post"]),
    "fast-sinusoidal": ("multi30k-fast", ["model.positions=sinusoidal"]),
    "fast-untied": ("multi30k-fast", ["model.tie_embeddings=none"]),
    "fast-deep-encoder": ("multi30k-fast", ["model.num_encoder_layers=6", "model.num_decoder_layers=1"]),
    "fast-augmented": ("multi30k-fast", [f"data.train.0.augment={_AUGMENT}"]),
    "preset": ("multi30k", []),
    "rate-1e-3": ("multi30k", [*_HALF, "training.learning_rate=1e-3"]),
    "rate-2e-3": ("multi30k", _HALF),
    "r-drop": ("multi30k", [*_HALF, "training.r_drop=5"]),
}
SETS = ("validation", "held_out", "test_2016_flickr")
CHANGES = {"clean": {}, **{key: {key: 1} for key in Augmentation.model_fields}}  # `augment` of the copies


class Run(NamedTuple):
    """A finished training with its scores and translations by test set."""

    directory: Path
    minutes: float  # of steps and validations
    bleu: dict[str, float]
    lowercased: dict[str, float]
    translations: dict[str, list[str]]


def split(corpus: Path, folder: Path) -> list[str]:
    """Write nine tenths to train on and one to hold out; returns the overrides that name all corpora."""
    folder.mkdir(parents=True, exist_ok=True)
    for language in ("de", "en"):
        lines = (corpus / f"train.{language}").read_bytes().splitlines(keepends=True)
        cut = len(lines) * 9 // 10
        (folder / f"train.{language}").write_bytes(b"".join(lines[:cut]))
        (folder / f"held_out.{language}").write_bytes(b"".join(lines[cut:]))
        for name in ("val", "test_2016_flickr"):
            (folder / f"{name}.{language}").write_bytes((corpus / f"{name}.{language}").read_bytes())
    train, validation, held_out, test = (
        {"kind": "text", "source": f"{name}.de", "target": f"{name}.en"} for name in ("train", "val", *SETS[1:])
    )
    changed = {change: {**validation, "augment": augment} for change, augment in CHANGES.items()}
    corpora = {
        "root": str(folder.resolve()),
        "train": [train],
        "validation": validation,
        "test": {"held_out": held_out, "test_2016_flickr": test, **changed},
    }
    return [f"data.{key}={json.dumps(corpus)}" for key, corpus in corpora.items()]


def train_and_score(preset: str, overrides: Sequence[str], directory: Path) -> Run:
    """Train, unless that is done already, and score."""
    if not (directory / "evaluation").exists():
        resumed = [str(directory), "--resume"]
        new = [preset, "--run", str(directory), *overrides]
        run_translate("train", *(resumed if directory.exists() else new))
    scores = {name: score(directory, name) for name in SETS}
    return Run(
        directory,
        minutes=read_metrics(open_run(directory).files)[-1]["minutes_so_far"],
        bleu={name: scores[name]["BLEU"] for name in SETS},
        lowercased={name: scores[name]["BLEU-lc"] for name in SETS},
        translations={
            name: (directory / "evaluation" / name / "hypotheses.txt").read_text("utf-8").splitlines() for name in SETS
        },
    )


def score(directory: Path, name: str, *options: str) -> dict[str, float]:
    """Scores of a run on one of its sets, by metric; translates the set unless that is done already."""
    report = directory / "evaluation" / name / "report.json"
    if not report.exists():
        run_translate("eval", str(directory), "--set", name, *options)
    return {metric["name"]: metric["score"] for metric in json.loads(report.read_bytes())["metrics"]}


def run_translate(*arguments: str) -> None:
    """Run the command-line program."""
    subprocess.run([sys.executable, "-m", "translate", *arguments], check=True)


def p_value(first: Sequence[Run], other: Sequence[Run], corpus: Path) -> float | None:
    """How probable so large a difference in BLEU on the held-out set is between equal variants."""
    sources, references = ((corpus / f"held_out.{side}").read_text("utf-8").splitlines() for side in ("de", "en"))
    systems = {
        name: [line for run in runs for line in run.translations["held_out"]]
        for name, runs in (("first", first), ("other", other))
    }
    comparison = compare(systems, sources * len(first), references * len(first), EvaluationConfig(), num_changes=0)
    return comparison.metrics["BLEU"][1].randomization_p


def spread(numbers: Sequence[float]) -> str:
    """Mean and, of several numbers, standard deviation."""
    deviation = f" ± {statistics.stdev(numbers):.2f}" if len(numbers) > 1 else ""
    return f"{statistics.mean(numbers):.2f}{deviation}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, metavar="DIR")
    parser.add_argument("output", type=Path, metavar="OUT")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--only", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--changed", action="store_true", help="print the second table too")
    parser.add_argument("--override", nargs="+", default=[], metavar="KEY=VALUE", help="such as training.threads=1")
    arguments = parser.parse_args()
    corpora = split(arguments.corpus, arguments.output / "data")
    results: dict[str, list[Run]] = {variant: [] for variant in arguments.only}
    for variant, runs in results.items():
        preset, changes = VARIANTS[variant]
        for seed in arguments.seeds:
            overrides = [*corpora, *changes, *arguments.override, f"training.seed={seed}"]
            runs.append(train_and_score(preset, overrides, arguments.output / f"{variant}-{seed}"))
    first = results[arguments.only[0]]
    print("| variant | minutes | validation | held out | p | test 2016 | test 2016, lowercased |")
    print("|---|---|---|---|---|---|---|")
    for variant, runs in results.items():
        cells = [
            spread([run.minutes for run in runs]),
            spread([run.bleu["validation"] for run in runs]),
            spread([run.bleu["held_out"] for run in runs]),
            "" if runs is first else f"{p_value(first, runs, arguments.output / 'data'):.3f}",
            spread([run.bleu["test_2016_flickr"] for run in runs]),
            spread([run.lowercased["test_2016_flickr"] for run in runs]),
        ]
        print(f"| {variant} | {' | '.join(cells)} |")
    if arguments.changed:
        print(f"\n| variant | {' | '.join(CHANGES)} |")
        print("|---" * (len(CHANGES) + 1) + "|")
        for variant, runs in results.items():
            scores = {key: [score(run.directory, key, "--beam-size", "1")["BLEU"] for run in runs] for key in CHANGES}
            cells = [spread(numbers) for numbers in scores.values()]
            print(f"| {variant} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
