"""Unlikely lengths and shifted lines are found where they are put in, and none in clean text."""

import random

import numpy as np
import pytest

from translate.data.corpora import ParallelCorpus
from translate.data.tokenizer import Tokenizer
from translate.lint.corpora import take_sample
from translate.lint.misalignment import (
    Ints,
    Misaligned,
    ShiftedLines,
    count_items,
    find_misaligned,
    find_unlikely_lengths,
)

Text = tuple[list[str], list[str]]


def test_unlikely_lengths(embedded: Text) -> None:
    sources, targets = list(embedded[0]), list(embedded[1])
    assert find_unlikely_lengths(count_items(sources), count_items(targets)).tolist() == []
    targets[7] = "Yes."  # its source has 72 characters
    targets[11] = f"{targets[11]} {targets[12]} {targets[13]}"
    sources[19] = ""  # empty is another matter
    found = find_unlikely_lengths(count_items(sources), count_items(targets)).tolist()
    assert found == [7, 11], (sources[7], targets[11])


def test_few_or_uniform_pairs_have_no_unlikely_lengths() -> None:
    assert find_unlikely_lengths(np.arange(1, 20), np.arange(19, 0, -1)).tolist() == []
    assert find_unlikely_lengths(np.full(100, 7), np.full(100, 7)).tolist() == []
    assert find_unlikely_lengths(np.full(100, 0), np.full(100, 7)).tolist() == []


def misaligned(sources: list[str], targets: list[str], tokenizer: Tokenizer, numbers: Ints | None = None) -> Misaligned:
    ids = [tokenizer.encode_lines(side, num_threads=1) for side in (sources, targets)]
    places = np.arange(len(sources)) if numbers is None else numbers
    return find_misaligned(*ids, numbers=places, vocab_size=tokenizer.vocab_size)


def shifted(sources: list[str], targets: list[str], tokenizer: Tokenizer) -> list[ShiftedLines]:
    return misaligned(sources, targets, tokenizer).shifts


@pytest.mark.parametrize("size", [12, 700])
def test_a_shift_in_the_middle(some: Text, tokenizer: Tokenizer, size: int) -> None:
    """A line too many among the targets at 1500, and one too few `size` lines later."""
    sources, targets = some
    targets = [*targets[:1500], "This is new.", *targets[1500 : 1500 + size], *targets[1501 + size :]]
    (run,) = shifted(sources, targets, tokenizer)
    assert run.offset == 1
    assert abs(run.first - 1500) <= 1 and abs(run.last - (1500 + size - 1)) <= 2


@pytest.mark.parametrize("lost", [1, 2])
def test_a_shift_until_the_end(some: Text, tokenizer: Tokenizer, lost: int) -> None:
    sources, targets = some
    targets = [*targets[:1000], *targets[1000 + lost :], *("",) * lost]
    (run,) = shifted(sources, targets, tokenizer)
    assert run.offset == -lost
    assert abs(run.first - (1000 + lost)) <= 3 and run.last == 2999


def test_all_lines_shifted(some: Text, tokenizer: Tokenizer) -> None:
    sources, targets = some
    assert shifted(sources, ["Title", *targets[:-1]], tokenizer) == [ShiftedLines(0, 2999, 1)]


def test_lines_that_are_no_translations_at_all(some: Text, tokenizer: Tokenizer) -> None:
    sources, targets = some[0], list(some[1])
    middle = targets[1000:2000]
    random.Random(3).shuffle(middle)
    targets[1000:2000] = middle
    (run,) = shifted(sources, targets, tokenizer)
    assert run == ShiftedLines(1000, 1999, None)


def test_a_shift_in_runs_of_a_sample(embedded: Text, tokenizer: Tokenizer) -> None:
    sources, targets = embedded
    corpus = ParallelCorpus("any", sources, [*targets[:5000], *targets[5001:], "End."], 1.0)
    numbers, *sides = take_sample(corpus, max_pairs=4000)
    (run,) = misaligned(*sides, tokenizer, numbers).shifts
    # The sample has no line between 3,786 and 4,928; then one is found in which 5,000 lies.
    assert run.offset == -1 and abs(run.first - 5001) <= 1 and run.last >= 11_990


def test_single_pairs_that_are_no_translations(some: Text, tokenizer: Tokenizer) -> None:
    sources, targets = some[0], list(some[1])
    assert misaligned(sources, targets, tokenizer).pairs.tolist() == []
    wrong = [100, 900, 2000]
    for line in wrong:  # whose words are not among those of the line itself
        targets[line] = some[1][line + 500]
    block = targets[1500:1520]
    targets[1500:1520] = block[::-1]
    found = misaligned(sources, targets, tokenizer).pairs.tolist()
    assert {*wrong} <= {*found} <= {*wrong, *range(1498, 1522)} and len(found) >= len(wrong) + 12


def test_a_line_of_100000_characters(some: Text, tokenizer: Tokenizer) -> None:
    """Its 30,000 by 30,000 tokens would be 900 million cells."""
    assert shifted(some[0][:499], some[1][1:500], tokenizer) == []  # few lines are not judged
    sources, targets = list(some[0]), list(some[1])
    sources[5], targets[5] = "Der faule Hund. " * 6250, "The lazy dog. " * 7143
    assert shifted(sources, targets, tokenizer) == []
