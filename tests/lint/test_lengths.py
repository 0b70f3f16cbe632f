"""Unlikely lengths are found where they are put in; histograms by hand."""

import numpy as np

from translate.lint.lengths import HISTOGRAM_ENDS, count_items, find_unlikely_lengths, length_histogram

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


def test_histogram() -> None:
    counts = length_histogram(np.array([0, 1, 5, 6, 500, 501, 9000]))
    assert len(counts) == len(HISTOGRAM_ENDS) + 1
    assert {end: count for end, count in zip((*HISTOGRAM_ENDS, None), counts, strict=True) if count} == {
        0: 1, 5: 2, 10: 1, 500: 1, None: 2,
    }  # fmt: skip
