"""Filters, on lengths that can be counted by hand."""

import numpy as np
import pytest

from translate.config.data import DataConfig
from translate.data.corpora import ParallelCorpus
from translate.data.filtering import filter_pairs, find_new, hash_lines, hash_pairs
from translate.errors import InputError

NEWS = ParallelCorpus("news", [], [], 1.0)


def test_each_pair_is_counted_under_the_first_rule_it_breaks() -> None:
    limits = DataConfig(max_source_tokens=7, max_target_tokens=11, max_length_ratio=3.0)
    #                  ok  ok  no source  no target  both none  long source  long target  both long  unequal  unequal
    sources = np.array([7, 2, 0, 5, 0, 8, 7, 8, 7, 1])
    targets = np.array([11, 6, 5, 0, 0, 7, 12, 12, 2, 4])
    kept, report = filter_pairs(NEWS, sources, targets, limits=limits, batch_tokens=99)
    assert kept.tolist() == [0, 1]
    assert report.lines() == [
        "news: 2 of 10 pairs kept",
        "  2 left out: empty source",
        "  1 left out: empty target",
        "  2 left out: source over data.max_source_tokens = 7",
        "  1 left out: target over data.max_target_tokens = 11",
        "  2 left out: lengths over data.max_length_ratio = 3.0",
    ]
    lengths = np.array([2, 3]), np.array([5, 5])
    kept, report = filter_pairs(NEWS, *lengths, num_tags=(2, 0), limits=limits, batch_tokens=99)
    assert (kept.tolist(), report.left_out["empty source"]) == ([1], 1)
    without_ratio = limits.model_copy(update={"max_length_ratio": None})
    kept, _ = filter_pairs(NEWS, sources, targets, limits=without_ratio, batch_tokens=99)
    assert kept.tolist() == [0, 1, 8, 9]


def test_a_pair_longer_than_a_batch_is_an_error() -> None:
    def check(lengths: list[tuple[int, int]]) -> None:
        sources, targets = np.array(lengths).T
        filter_pairs(NEWS, sources, targets, limits=DataConfig(), batch_tokens=29)

    check([(28, 28)])  # 28 and one special symbol are just 29
    with pytest.raises(
        InputError, match="batch_tokens = 29: .*target of pair 2 of news has 30 .*max_target_tokens = 256"
    ):
        check([(3, 3), (23, 29), (99, 1)])  # the last one is left out by the ratio of its lengths


def test_copies_and_repetitions_are_left_out_if_asked() -> None:
    pairs = [("Ja", "yes"), ("OK", "ok "), ("ja", " Yes"), ("Ja", "no"), ("", "ok"), ("ok", "Ok"), ("Ja ye", "s")]
    corpus = ParallelCorpus("b", *map(list, zip(*pairs, strict=True)), 1.0)
    hashes = [hash_lines(side) for side in corpus[1:3]]
    assert (hashes[0] == hashes[1]).nonzero()[0].tolist() == [1, 5]
    assert (~find_new(hash_pairs(*hashes))).nonzero()[0].tolist() == [2, 5]
    lengths = np.array([len(source) for source, _ in pairs]), np.array([2] * len(pairs))
    for rules, kept, num_equal, num_repeated in (
        ((), [0, 1, 2, 3, 5, 6], 0, 0),
        (("equal",), [0, 2, 3, 6], 2, 0),
        (("repeated",), [0, 1, 3, 6], 0, 2),
        (("repeated", "equal"), [0, 3, 6], 2, 1),
    ):
        limits = DataConfig(leave_out=rules)
        found, report = filter_pairs(corpus, *lengths, limits=limits, batch_tokens=99)
        assert found.tolist() == kept and report.num_kept == len(kept)
        counts = dict.fromkeys(report.left_out, 0) | {"empty source": 1}
        counts |= {"source and target equal (data.leave_out)": num_equal, "repeated (data.leave_out)": num_repeated}
        assert report.left_out == counts
    assert find_new(hash_lines([])).tolist() == []
