"""Batches of ids that can be counted by hand."""

import numpy as np
import torch

from translate.data.batching import EncodedPair, batch_by_tokens, collate, collate_sources, cut_batches, order_by_length


def test_collate() -> None:
    batch = collate([EncodedPair([11, 13], [17]), EncodedPair([19], [23, 29, 31])], [7, 5])
    assert batch.source_ids.tolist() == [[11, 13, 3], [19, 3, 0]]
    assert batch.target_input_ids.tolist() == [[2, 17, 0, 0], [2, 23, 29, 31]]
    assert batch.target_output_ids.tolist() == [[17, 3, 0, 0], [23, 29, 31, 3]]
    assert batch.source_ids.dtype == batch.target_input_ids.dtype == batch.target_output_ids.dtype == torch.int64
    assert batch.indices == (7, 5)
    assert batch.num_target_tokens == 6
    moved = batch.to("meta")
    assert {tensor.device.type for tensor in moved[:3]} == {"meta"}
    assert moved.indices == (7, 5)


def test_collate_sources() -> None:
    assert collate_sources([[], [11, 13]]).tolist() == [[3, 0, 0], [11, 13, 3]]


def test_batch_by_tokens() -> None:
    # By hand, at most 12: two of 5 and 4 are 10 wide, a third would be 15; two of 6 are 12; 13 is a batch by itself.
    assert batch_by_tokens([5, 4, 6, 6, 13, 1], order=[1, 0, 2, 3, 4, 5], max_tokens=12) == [[1, 0], [2, 3], [4], [5]]
    # The wider side counts: targets of 7 forbid what sources of 3 would allow.
    assert batch_by_tokens([3, 3, 3], [2, 7, 2], order=[2, 1, 0], max_tokens=13) == [[2], [1], [0]]
    assert batch_by_tokens([3, 3, 3], [2, 4, 2], order=[2, 1, 0], max_tokens=12) == [[2, 1, 0]]
    assert batch_by_tokens([], order=[], max_tokens=12) == []


def test_cut_batches_cuts_as_one_by_one() -> None:
    generator = np.random.default_rng(3)
    for max_tokens in (1, 2, 7, 29, 97):
        for _ in range(97):
            widths = generator.integers(1, 31, size=generator.integers(41))
            expected = [0]
            for end in range(1, len(widths) + 1):
                begin = expected[-1]
                if end - begin > 1 and (end - begin) * widths[begin:end].max() > max_tokens:
                    expected.append(end - 1)
            borders = [*expected, len(widths)] if len(widths) else [0]
            assert cut_batches(widths, max_tokens=max_tokens).tolist() == borders
    wide = np.array([1, 2**31 - 1, 1], dtype=np.int32)  # twice that exceeds 32 bits
    assert cut_batches(wide, max_tokens=2**31 + 5).tolist() == [0, 1, 2, 3]


def test_order_by_length_keeps_alike_together_and_shuffles_ties() -> None:
    sources, targets = np.array([2, 3, 2, 5, 2, 2, 3]), np.array([2, 1, 2, 5, 2, 2, 1])
    orders = [order_by_length(sources, targets, generator=np.random.default_rng(seed)).tolist() for seed in range(29)]
    for order in orders:
        assert sorted(order) == list(range(7))
        assert [sources[item] for item in order] in ([2, 2, 2, 2, 3, 3, 5], [5, 3, 3, 2, 2, 2, 2])
    assert len({tuple(order) for order in orders}) > 13
