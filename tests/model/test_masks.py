"""Masks, written out by hand. True (1): this query may see that key."""

import torch

from translate.model.masks import padding_visible, target_visible

PAD = 3


def test_padding_is_never_seen() -> None:
    ids = torch.tensor([[5, 0, 7, 9, 4], [5, 9, PAD, PAD, PAD], [8, 1, 2, PAD, PAD]])
    visible = padding_visible(ids, pad_id=PAD)
    expected = [[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0]]
    assert visible.shape == (3, 1, 1, 5)
    assert torch.equal(visible[:, 0, 0], torch.tensor(expected, dtype=torch.bool))


def test_a_target_sees_neither_padding_nor_the_future() -> None:
    ids = torch.tensor([[5, 0, 7, 9, 4], [5, 9, PAD, PAD, PAD], [8, 1, 2, PAD, PAD]])
    expected = [
        [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]],
        [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 0, 0, 0]],
        [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 0, 0]],
    ]
    visible = target_visible(ids, pad_id=PAD)
    assert visible.shape == (3, 1, 5, 5)
    assert torch.equal(visible[:, 0], torch.tensor(expected, dtype=torch.bool))
