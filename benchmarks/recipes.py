"""The ablation table of docs/recipes.md: variants of a preset, some seeds each, on three sets.

    python benchmarks/recipes.py DIR OUT --seeds 1 2 3 --only preset vocabulary-12000

DIR holds Multi30k as plain text: train.de, train.en, val.de, val.en, test_2016_flickr.de and test_2016_flickr.en. The
last tenth of the training pairs is held out: nothing is trained on it, and no setting is chosen by it. OUT gets the
split and a run for each variant and seed; what is there already is not trained again, and a training that was
interrupted goes on, so the command can be repeated until the table is whole. Every run is `translate train` with the
overrides of VARIANTS, and every score is `translate eval` with the run's own search.

Significance is that of the first variant against each other one, by paired approximate randomisation on the held-out
set, with the translations of all seeds joined.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from translate.config.schema import EvaluationConfig
from translate.evaluation.compare import compare
from translate.runs.directory import open_run
from translate.runs.metrics import read_metrics

_HALF = ["training.max_steps=2000", "model.dropout=0.2", "decoding.length_penalty=0.6"]
VARIANTS: dict[str, list[str]] = {
    "preset": [],
    "vocabulary-12000": ["tokenizer.vocab_size=12000"],
    "vocabulary-12000-dropout": [
        "tokenizer.vocab_size=12000",
        "model.attention_dropout=0.1",
        "model.activation_dropout=0.1",
    ],
    "rate-1e-3": [*_HALF, "training.learning_rate=1e-3"],
    "rate-2e-3": [*_HALF, "training.learning_rate=2e-3"],
    "r-drop": [*_HALF, "training.learning_rate=2e-3", "training.r_drop=5"],
}
SETS = ("validation", "held_out", "test_2016_flickr")


class Run(NamedTuple):
    """A finished training with its scores and translations by test set."""

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
    held_out = "{kind: text, source: held_out.de, target: held_out.en}"
    return [f"data.root={folder.resolve()}", f"data.test.held_out={held_out}"]


def train_and_score(overrides: Sequence[str], directory: Path) -> Run:
    """Train, unless that is done already, and score."""
    translate = [sys.executable, "-m", "translate"]
    reports = [directory / "evaluation" / name / "report.json" for name in SETS]
    if not reports[-1].exists():
        resumed = [str(directory), "--resume"]
        new = ["multi30k-local", "--run", str(directory), *overrides]
        subprocess.run([*translate, "train", *(resumed if directory.exists() else new)], check=True)
        for name in SETS:
            subprocess.run([*translate, "eval", str(directory), "--set", name], check=True)
    scores = [
        {metric["name"]: metric["score"] for metric in json.loads(report.read_bytes())["metrics"]} for report in reports
    ]
    return Run(
        minutes=read_metrics(open_run(directory))[-1]["minutes_so_far"],
        bleu={name: score["BLEU"] for name, score in zip(SETS, scores, strict=True)},
        lowercased={name: score["BLEU-lc"] for name, score in zip(SETS, scores, strict=True)},
        translations={
            name: (report.parent / "hypotheses.txt").read_text("utf-8").splitlines()
            for name, report in zip(SETS, reports, strict=True)
        },
    )


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
    arguments = parser.parse_args()
    corpora = split(arguments.corpus, arguments.output / "data")
    results = {
        variant: [
            train_and_score(
                [*corpora, *VARIANTS[variant], f"training.seed={seed}"], arguments.output / f"{variant}-{seed}"
            )
            for seed in arguments.seeds
        ]
        for variant in arguments.only
    }
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


if __name__ == "__main__":
    main()
