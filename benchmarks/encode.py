"""How fast training text becomes token ids: by one thread, by several, and the second time, from the cache.

    python benchmarks/encode.py DIR --threads 1 2 4 --turns 5

DIR contains train.de and train.en (any pair of files with these names will do; --repeat makes small files large). The
turns alternate, so that a noisy machine is noisy for all. Lines of both sides are counted. More threads than cores gain
nothing, and one part of the work, making Python's lists, is done by one thread at a time.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


def main() -> None:
    """Run the benchmark and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=1, help="how often to repeat each line")
    parser.add_argument("--vocabulary", type=int, default=8000)
    arguments = parser.parse_args()

    from translate.config.data import TextCorpus
    from translate.config.schema import TokenizerConfig
    from translate.data.cache import DataCache
    from translate.data.corpora import read_corpus
    from translate.data.token_store import encode_texts
    from translate.data.tokenizer import prepare_tokenizers

    source, target = (arguments.folder / f"train.{language}" for language in ("de", "en"))
    corpus = read_corpus(TextCorpus(source=source, target=target), key="DIR")
    tokenizer = prepare_tokenizers(TokenizerConfig(vocab_size=arguments.vocabulary), corpus.sources, corpus.targets)[0]
    lines = [*corpus.sources, *corpus.targets] * arguments.repeat

    def encode(num_threads: int, cache: DataCache | None) -> Callable[[], object]:
        return lambda: encode_texts(lines, tokenizer, num_threads=num_threads, cache=cache)

    with tempfile.TemporaryDirectory() as folder:
        os.environ["HF_DATASETS_CACHE"] = folder
        cache = DataCache()
        encode(max(arguments.threads), cache)()  # so that the cache exists, and the machine is warm
        ways = {f"{number} thread{'s' * (number > 1)}": encode(number, None) for number in arguments.threads}
        ways["from the cache"] = encode(1, cache)
        print_table(measure(ways, turns=arguments.turns), num_lines=len(lines))


def measure(ways: dict[str, Callable[[], object]], *, turns: int) -> dict[str, list[float]]:
    """Seconds of each way, turn by turn."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(turns):
        for name, work in ways.items():
            started = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - started)
    return seconds


def print_table(seconds: Mapping[str, Sequence[float]], *, num_lines: int) -> None:
    """Medians, and how many times as fast as the first way each was, turn by turn."""
    first = next(iter(seconds.values()))
    print(f"{num_lines:,} lines; medians of {len(first)} turns")
    print(f"{'':<16}{'lines/s':>11}{'(min':>11}{'max)':>11}{'ratio':>8}")
    for name, each in seconds.items():
        rates = sorted(num_lines / second for second in each)
        ratio = statistics.median(one / other for one, other in zip(first, each, strict=True))
        print(f"{name:<16}{statistics.median(rates):11,.0f}{rates[0]:11,.0f}{rates[-1]:11,.0f}{ratio:8.2f}")


if __name__ == "__main__":
    main()
