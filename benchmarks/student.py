"""The best single models from Multi30k alone: students of two quick teachers of each direction (docs/synthetic.md).

    python benchmarks/student.py DIR OUT --seeds 1 2 3

DIR contains Multi30k as plain text: train.de, train.en, val.de, val.en, test_2016_flickr.de and test_2016_flickr.en.
OUT gets four teachers, their translations of the training data, and a student for each direction and seed. What is
there already is not made again, and an interrupted training continues, so the command can be repeated. Every part is a
command of `translate`. The students of both directions share the teachers.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from recipes import run_translate, score, spread

DIRECTIONS = (("de", "en"), ("en", "de"))
TEACHER_SEEDS = (1, 2)
STUDENT = [
    "tokenizer.vocab_size=12000",
    "tokenizer.subword_sampling=0.1",
    "model.dropout=0.2",
    "model.attention_dropout=0.1",
    "model.activation_dropout=0.1",
    "training.weight_decay=0.5",
    "training.validate_every=500",
    "training.save_every=500",
]


def text_corpora(folder: Path, source: str, target: str, *others: dict[str, Any]) -> list[str]:
    """Overrides that name the corpora of a direction, and more corpora to train on."""
    train, validation, test = (
        {"kind": "text", "source": f"{folder / name}.{source}", "target": f"{folder / name}.{target}"}
        for name in ("train", "val", "test_2016_flickr")
    )
    return [
        *(f"data.source_language={source}", f"data.target_language={target}"),
        f"data.train={json.dumps([train, *others])}",
        f"data.validation={json.dumps(validation)}",
        f"data.test.test_2016_flickr={json.dumps(test)}",
    ]


def main() -> None:
    """Train what is not there yet, and print a table of the students."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("output", type=Path, metavar="OUT")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--to", nargs="+", choices=["en", "de"], default=["en", "de"], help="the students' direction")
    parser.add_argument(
        "--override", nargs="+", default=[], metavar="KEY=VALUE", help="for all, such as training.threads=1"
    )
    arguments = parser.parse_args()
    folder, output = arguments.folder.resolve(), arguments.output.resolve()

    translated = []  # a corpus of translations, and its direction
    for (source, target), seed in ((direction, seed) for direction in DIRECTIONS for seed in TEACHER_SEEDS):
        name = f"{source}-{target}-{seed}"
        run, text = output / f"teacher-{name}", output / f"text-{name}"
        settings = [*text_corpora(folder, source, target), f"training.seed={seed}", *arguments.override]
        run_translate("train", "multi30k-fast", *settings, "--run", str(run), "--resume")
        if not (text / "corpus.jsonl").exists():
            run_translate("distill", str(run), "--beam-size", "4", "-o", str(text))
        translated.append((source, text / "corpus.jsonl"))

    rows = []
    for source, target in DIRECTIONS:
        if target not in arguments.to:
            continue
        runs = []
        for seed in arguments.seeds:
            others = [
                {"kind": "json", "path": str(path), "source_column": sides[0], "target_column": sides[1]}
                for of_source, path in translated
                for sides in [("source", "target") if of_source == source else ("target", "source")]
            ]
            settings = [
                *text_corpora(folder, source, target, *others),
                *STUDENT,
                f"training.max_steps={arguments.steps}",
            ]
            runs.append(output / f"student-{source}-{target}-{seed}")
            settings += [f"training.seed={seed}", *arguments.override, "--run", str(runs[-1]), "--resume"]
            run_translate("train", "multi30k", *settings)
        validation, test = ([score(run, name) for run in runs] for name in ("validation", "test_2016_flickr"))
        for title, scores, metric in (
            ("validation", validation, "BLEU"),
            ("test 2016", test, "BLEU"),
            ("test 2016, lowercased", test, "BLEU-lc"),
        ):
            numbers = [each[metric] for each in scores]
            each = ", ".join(f"{number:.2f}" for number in numbers)
            rows.append(f"| {source} to {target} | {title} | {spread(numbers)} | {each} |")
    print("| student | set | BLEU | of each seed |\n|---|---|---:|---|", *rows, sep="\n")


if __name__ == "__main__":
    main()
