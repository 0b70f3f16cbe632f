"""Write the corpus: ``python data/generate.py``; with ``--check``, compare it with the committed files instead."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from grammar.clauses import Drawing  # noqa: E402
from grammar.constructions import Sentence  # noqa: E402
from grammar.sentences import CONSTRUCTIONS, draw_sentence  # noqa: E402
from grammar.split import SIZES, assign_split  # noqa: E402

SEEDS = {"train": 2024, "validation": 2025, "test": 2026}
WORD_LIMIT = (3, 22)


def list_words(text: str) -> list[str]:
    """The words of a sentence, without punctuation."""
    return text.replace(",", "").rstrip(".?!").split()


def fill_split(split: str, size: int, seen: set[str], english_of: dict[str, str], known: set[str]) -> list[Sentence]:
    """Draw sentences of one split: none seen before, none too long; held-out ones use words of training only."""
    draw = Drawing(SEEDS[split], split)
    sentences: list[Sentence] = []
    while len(sentences) < size:
        construction = draw.weigh(CONSTRUCTIONS)
        sentence = draw_sentence(draw, construction)
        if any(assign_split(combination) != split for combination in sentence.combinations):
            continue
        words = list_words(sentence.german)
        if not WORD_LIMIT[0] <= len(words) <= WORD_LIMIT[1] or sentence.german in seen:
            continue
        used = {"de:" + word for word in words} | {"en:" + word for word in list_words(sentence.english)}
        if split == "train":
            known |= used
        elif not used <= known:
            continue
        if sentence.english in english_of and split != "train":
            # A held-out sentence whose English is known already would be easier than it looks.
            continue
        seen.add(sentence.german)
        english_of[sentence.english] = sentence.german
        sentences.append(sentence)
    return sentences


def generate_corpus() -> dict[str, list[Sentence]]:
    """All three splits as derivations, the same on every run."""
    seen: set[str] = set()
    english_of: dict[str, str] = {}
    known: set[str] = set()
    return {split: fill_split(split, size, seen, english_of, known) for split, size in SIZES.items()}


def render_files(corpus: dict[str, list[Sentence]]) -> dict[str, bytes]:
    """File name to content."""
    files = {}
    for split, sentences in corpus.items():
        for suffix, lines in (("de", [s.german for s in sentences]), ("en", [s.english for s in sentences])):
            files[f"{split}.{suffix}"] = ("\n".join(lines) + "\n").encode("utf-8")
    return files


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the committed files, change nothing")
    parser.add_argument("--show", type=int, metavar="N", help="print N training pairs of each construction instead")
    arguments = parser.parse_args()
    corpus = generate_corpus()
    if arguments.show:
        shown: Counter[str] = Counter()
        for sentence in corpus["train"]:
            shown[sentence.construction] += 1
            if shown[sentence.construction] <= arguments.show:
                print(f"[{sentence.construction}]\n  {sentence.german}\n  {sentence.english}")
        return 0
    different = 0
    for name, content in render_files(corpus).items():
        path = HERE / name
        if not arguments.check:
            path.write_bytes(content)
        elif not path.exists() or path.read_bytes() != content:
            print(f"{name} differs from what the grammar makes")
            different = 1
    return different


if __name__ == "__main__":
    sys.exit(main())
