"""Filters, on lengths that can be counted by hand."""

import numpy as np
import pytest

from translate.config.data import DataConfig
from translate.data.filtering import filter_pairs
from translate.errors import InputError


def test_each_pair_is_counted_under_the_first_rule_it_breaks() -> None:
    limits = DataConfig(max_source_tokens=7, max_target_tokens=11, max_length_ratio=3.0)
    #                  ok  ok  no source  no target  both none  long source  long target  both long  unequal  unequal
    sources = np.array([7, 2, 0, 5, 0, 8, 7, 8, 7, 1])
    targets = np.array([11, 6, 5, 0, 0, 7, 12, 12, 2, 4])
    kept, report = filter_pairs(sources, targets, limits=limits, batch_tokens=99, name="news")
    assert kept.tolist() == [0, 1]
    assert report.lines() == [
        "news: 2 of 10 pairs kept",
        "  2 left out: empty source",
        "  1 left out: empty target",
        "  2 left out: source over data.max_source_tokens = 7",
        "  1 left out: target over data.max_target_tokens = 11",
        "  2 left out: lengths over data.max_length_ratio = 3.0",
    ]
    without_ratio = limits.model_copy(update={"max_length_ratio": None})
    assert filter_pairs(sources, targets, limits=without_ratio, batch_tokens=99, name="news")[0].tolist() == [
        0,
        1,
        8,
        9,
    ]


def test_a_pair_longer_than_a_batch_is_an_error() -> None:
    def check(lengths: list[tuple[int, int]]) -> None:
        sources, targets = np.array(lengths).T
        filter_pairs(sources, targets, limits=DataConfig(), batch_tokens=29, name="b")

    check([(28, 28)])  # 28 and one special symbol are just 29
    with pytest.raises(InputError) as caught:
        check([(3, 3), (23, 29), (99, 1)])  # the last one is left out by the ratio of its lengths
    assert str(caught.value) == (
        "training.batch_tokens = 29: the target of pair 2 of b has 30 tokens with its special symbol;"
        " raise training.batch_tokens to at least that, or lower data.max_target_tokens = 256"
    )
