"""A corpus of invented words, as large as you like, and what a command needs for it: seconds, processor time, memory.

    python benchmarks/large_corpus.py DIR --pairs 450000
    python benchmarks/large_corpus.py DIR --measure check DIR/config.yaml training.threads=2

The first line writes DIR/train.de, DIR/train.en, 3,000 pairs to validate on, and DIR/config.yaml, which extends
transformer-base. Words occur as often as Zipf's law says. Each has one translation, neighbours change places, and
sentences are as long as those of WMT14. The same seed gives the same bytes. The second line runs `translate` on the
corpus, and measures the memory of its process, without the page cache, ten times per second (only on Linux).
"""

import argparse
import itertools
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

NUM_WORDS = 400_000  # different ones, the first of which are frequent and short
CHUNK_PAIRS = 50_000
LETTERS = {"de": ("bdfgklmnrstwz", "aeiouäöü", "nrst"), "en": ("bcdfghlmnprstvwy", "aeiouy", "dlns")}
CONFIG = """extends: transformer-base
data:
  train: {{kind: text, source: {folder}/train.de, target: {folder}/train.en}}
  validation: {{kind: text, source: {folder}/valid.de, target: {folder}/valid.en}}
  test: {{newstest2014: null}}
"""


def main() -> None:
    """Write a corpus, or measure a command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pairs", type=int, default=450_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--measure", nargs=argparse.REMAINDER, metavar="COMMAND", help="a command of translate")
    arguments = parser.parse_args()
    if arguments.measure:
        sys.exit(measure([sys.executable, "-m", "translate", *arguments.measure]))
    started = time.perf_counter()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.Generator(np.random.PCG64(arguments.seed))
    forms = {language: invent_words(generator, *letters) for language, letters in LETTERS.items()}
    for name, num_pairs in (("train", arguments.pairs), ("valid", 3000)):
        paths = [arguments.folder / f"{name}.{language}" for language in LETTERS]
        write_pairs(paths, list(forms.values()), num_pairs, generator)
        sizes = ", ".join(f"{path} {path.stat().st_size / 1e6:,.1f} MB" for path in paths)
        print(f"{num_pairs:,} pairs: {sizes}")
    (arguments.folder / "config.yaml").write_text(CONFIG.format(folder=arguments.folder.resolve()))
    print(f"{arguments.folder / 'config.yaml'}; all written in {time.perf_counter() - started:.1f} s")


def invent_words(generator: np.random.Generator, first: str, middle: str, last: str) -> list[bytes]:
    """Each word in four forms, one after the other: before a space, with a comma, with a capital, ending a sentence."""
    syllables = ["".join(each) for each in itertools.product(first, middle, ["", "", *last])]
    sizes = generator.poisson(np.log10(np.arange(NUM_WORDS) + 1.0) * 0.3) + 1
    parts = iter(generator.choice(syllables, sizes.sum()).tolist())
    words = ["".join(itertools.islice(parts, size)) for size in sizes.tolist()]
    return [
        form.encode() for word in words for form in (f"{word} ", f"{word}, ", f"{word.capitalize()} ", f"{word}.\n")
    ]


def write_pairs(paths: list[Path], forms: list[list[bytes]], num_pairs: int, generator: np.random.Generator) -> None:
    """Write sentences and their translations, whose words are up to two places away."""
    with paths[0].open("wb") as sources, paths[1].open("wb") as targets:
        for start in range(0, num_pairs, CHUNK_PAIRS):
            size = min(CHUNK_PAIRS, num_pairs - start)
            lengths = np.clip(generator.lognormal(2.9, 0.6, size), 1, 150).astype(int)
            ends = np.cumsum(lengths)
            # Word n has a probability in proportion to 1 / (n + 2.7): Zipf's law with Mandelbrot's constant.
            words = (2.7 * (NUM_WORDS / 2.7 + 1) ** generator.random(ends[-1]) - 2.7).astype(int)
            places = np.arange(len(words)) + generator.uniform(0, 2, len(words))
            moved = np.lexsort((places, np.repeat(np.arange(size), lengths)))  # within each sentence
            kinds = np.where(generator.random(len(words)) < 0.06, 1, 0)
            kinds[ends - lengths], kinds[ends - 1] = 2, 3
            for file, side, order in zip((sources, targets), forms, (slice(None), moved), strict=True):
                file.write(b"".join(map(side.__getitem__, (words[order] * 4 + kinds).tolist())))


def measure(command: list[str]) -> int:
    """Run a command, print what it took, and return its exit code."""
    started, most = time.perf_counter(), 0
    process = subprocess.Popen(command)
    while process.poll() is None:
        try:
            status = Path(f"/proc/{process.pid}/status").read_text().split()
        except OSError:  # it has just ended
            continue
        if "RssAnon:" in status:
            most = max(most, int(status[status.index("RssAnon:") + 1]))
        time.sleep(0.1)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds, processor = time.perf_counter() - started, used.ru_utime + used.ru_stime
    memory = f"{most / 1e6:.2f} GB without the page cache, {used.ru_maxrss / 1e6:.2f} GB with it"
    print(f"{seconds:.0f} s, {processor:.0f} s of processor time on {os.cpu_count()} cores, at most {memory}")
    return process.returncode


if __name__ == "__main__":
    main()
