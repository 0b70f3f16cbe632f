"""Forced prefixes and minimum lengths, by hand."""

from typing import Any

import torch

from translate.decoding.processors.prefix_and_length import ForcedPrefix, MinimumLength

END = 3
VOCAB = 7
Lab = Any  # conftest.py's: test modules cannot import each other


def test_independence(lab: Lab) -> None:
    lab.check_independence(MinimumLength(torch.tensor([0, 3, 20, 5, 1]), end_id=END))
    lab.check_independence(ForcedPrefix([[], [4], [5, 6, 5, 4], [1] * 12, [4, 4]]))


def test_minimum_length(lab: Lab) -> None:
    # By hand: sentence 0 needs 3 tokens, sentence 1 none; the positions are swapped.
    processor = MinimumLength(torch.tensor([3, 0]), end_id=END)
    for length, expected in [(0, {END}), (2, {END}), (3, set()), (4, set())]:
        state = lab.state_of([[[4] * length], [[4] * length]], sentences=[1, 0])
        assert lab.forbidden(processor, state) == [[set()], [expected]]


def test_forced_prefix(lab: Lab) -> None:
    # By hand: sentences 0 and 2 are inside their prefixes, 1 has none, 3 is at its end.
    processor = ForcedPrefix([[4, 5, 6], [], [6], [5, 6]])
    state = lab.state_of([[[4, 5]], [[]], [[]], [[5, 6]]])
    everything = set(range(VOCAB))
    assert lab.forbidden(processor, state) == [[everything - {6}], [set()], [everything - {6}], [set()]]


def test_nothing_is_forced_without_prefixes(lab: Lab) -> None:
    processor = ForcedPrefix([[], []])
    assert lab.forbidden(processor, lab.state_of([[[]], [[4]]])) == [[set()], [set()]]
