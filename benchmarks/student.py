"""The best single models from Multi30k alone: students of models that translate both ways (docs/synthetic.md).

    python benchmarks/student.py DIR OUT --seeds 1 2 3

DIR contains Multi30k as plain text: train.de, train.en, val.de, val.en, test_2016_flickr.de and test_2016_flickr.en.
OUT gets the teachers, which are `multi30k-both` with several seeds, their translations of the training data in both
directions, and a student for each direction and seed, which starts from the teacher of that seed. What is there already
is not made again, and an interrupted training continues, so the command can be repeated. Every part is a command of
`translate`. The students of both directions share the teachers.
"""

import argparse
import json
from pathlib import Path

from recipes import run_translate, score, spread

DIRECTIONS = (("de", "en"), ("en", "de"))
STUDENT = [
    "training.learning_rate=1e-3",
    "training.warmup_steps=100",
    "training.validate_every=500",
    "training.save_every=250",
]


def text_corpora(folder: Path, source: str, target: str, others: list[dict[str, str]], **keys: bool) -> list[str]:
    """Overrides that name the corpora of a direction, and more corpora to train on."""
    train, validation, test = (
        {"kind": "text", "source": f"{folder / name}.{source}", "target": f"{folder / name}.{target}", **keys}
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
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="of the students")
    parser.add_argument("--teachers", type=int, nargs="+", default=[1, 2, 3], help="the teachers' seeds")
    parser.add_argument("--steps", type=int, default=2000, help="of a student")
    parser.add_argument("--to", nargs="+", choices=["en", "de"], default=["en", "de"], help="the students' direction")
    parser.add_argument(
        "--override", nargs="+", default=[], metavar="KEY=VALUE", help="for all, such as training.threads=1"
    )
    arguments = parser.parse_args()
    folder, output = arguments.folder.resolve(), arguments.output.resolve()

    texts = []  # a corpus of translations, and its source language
    for seed in arguments.teachers:
        teacher = output / f"teacher-{seed}"
        if not (teacher / "evaluation").exists():
            settings = [*text_corpora(folder, "de", "en", [], both_directions=True), f"training.seed={seed}"]
            run_translate("train", "multi30k-both", *settings, *arguments.override, "--run", str(teacher), "--resume")
        for source, target in DIRECTIONS:
            texts.append((output / f"text-{seed}-{target}" / "corpus.jsonl", source))
            if not texts[-1][0].exists():
                options = ["--to", target, "--beam-size", "4", "--precision", "int8"]
                run_translate("distill", str(teacher), *options, "-o", str(texts[-1][0].parent))

    rows = []
    for source, target in DIRECTIONS:
        if target not in arguments.to:
            continue
        others = []
        for path, language in texts:
            sides = ("source", "target") if language == source else ("target", "source")
            others.append({"kind": "json", "path": str(path), "source_column": sides[0], "target_column": sides[1]})
        runs = [output / f"student-{source}-{target}-{seed}" for seed in arguments.seeds]
        for seed, run in zip(arguments.seeds, runs, strict=True):
            settings = [
                *text_corpora(folder, source, target, others),
                *STUDENT,
                f"training.max_steps={arguments.steps}",
                f"training.initialize_from={output / f'teacher-{seed}'}",
                f"training.seed={seed}",
            ]
            run_translate("train", "multi30k-fast", *settings, *arguments.override, "--run", str(run), "--resume")
        for title, name, metric in (
            ("validation", "validation", "BLEU"),
            ("test 2016", "test_2016_flickr", "BLEU"),
            ("test 2016, lowercased", "test_2016_flickr", "BLEU-lc"),
        ):
            numbers = [score(run, name)[metric] for run in runs]
            each = ", ".join(f"{number:.2f}" for number in numbers)
            rows.append(f"| {source} to {target} | {title} | {spread(numbers)} | {each} |")
    print("| student | set | BLEU | of each seed |\n|---|---|---:|---|", *rows, sep="\n")


if __name__ == "__main__":
    main()
