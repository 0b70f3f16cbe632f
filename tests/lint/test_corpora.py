"""The part of a corpus that the slow inspections look at; and real text, if it is there."""

from pathlib import Path

import numpy as np
import pytest

from translate.config import TokenizerConfig
from translate.data.text import read_lines
from translate.data.tokenizer import train_tokenizer
from translate.lint.corpora import take_sample
from translate.lint.languages import find_wrong_languages, learn_languages
from translate.lint.lengths import count_items, find_unlikely_lengths
from translate.lint.misalignment import find_shifted_lines

MULTI30K = Path(__file__).resolve().parents[3] / "shared" / "multi30k"


def test_a_sample_is_runs_of_neighbours() -> None:
    lines = [str(number) for number in range(10_000)]
    sample = take_sample(lines, lines, max_pairs=1500)
    assert sample.sources == sample.targets == [str(number) for number in sample.numbers]
    # Three runs of 500: the first, the last, and one in the middle.
    assert sample.numbers.tolist() == [*range(500), *range(4750, 5250), *range(9500, 10_000)]
    assert len(take_sample(lines[:1500], lines[:1500], max_pairs=1500).numbers) == 1500


@pytest.mark.skipif(not MULTI30K.is_dir(), reason="Multi30k is not here")
def test_multi30k_is_clean() -> None:
    """Of 29,000 pairs of captions two are suspicious by their lengths, rightly, and none by language or place."""
    sources, targets = (list(read_lines(MULTI30K / f"train.{side}")) for side in ("de", "en"))
    unlikely = find_unlikely_lengths(count_items(sources), count_items(targets)).tolist()
    assert [sources[line] for line in unlikely] == ["@@", "@@"]
    learnt = learn_languages(sources, targets)
    assert learnt is not None
    assert [len(side) for side in find_wrong_languages(sources, targets, learnt, is_own=True).values()] == [0, 0, 0, 0]
    sources, targets = sources[:8000], targets[:8000]
    tokenizer = train_tokenizer([*sources, *targets], TokenizerConfig(vocab_size=4000))
    ids = [tokenizer.encode_lines(side, num_threads=1) for side in (sources, targets)]
    numbers = np.arange(8000)
    assert find_shifted_lines(*ids, numbers=numbers, vocab_size=4000) == []
    ids[1] = [*ids[1][:5000], *ids[1][5001:5020], tokenizer.encode("x"), *ids[1][5020:]]  # 19 lines
    (run,) = find_shifted_lines(*ids, numbers=numbers, vocab_size=4000)
    assert run.offset == -1 and abs(run.first - 5001) <= 1 and abs(run.last - 5019) <= 1
