import pytest
import torch

from translate.data.batching import Batch, EncodedPair, collate
from translate.training.pieces import Piece, cut_pieces


def batch(first: int, num_pairs: int) -> Batch:
    pairs = [EncodedPair([5] * (1 + number % 4), [6 + number] * (1 + number % 3)) for number in range(num_pairs)]
    return collate(pairs, range(first, first + num_pairs))


def indices(pieces: list[Piece]) -> list[tuple[int, ...]]:
    return [piece.batch.indices for piece in pieces]


def test_a_batch_is_cut_into_every_nth_pair() -> None:
    assert indices(cut_pieces([batch(10, 5)], pieces=2, seed=1, step=1)) == [(10, 12, 14), (11, 13)]


def test_rows_stay_with_their_pair() -> None:
    whole = batch(0, 7)
    for piece in cut_pieces([whole], pieces=3, seed=1, step=1):
        rows = list(piece.batch.indices)
        assert torch.equal(piece.batch.source_ids, whole.source_ids[rows])
        assert torch.equal(piece.batch.target_input_ids, whole.target_input_ids[rows])
        assert torch.equal(piece.batch.target_output_ids, whole.target_output_ids[rows])


@pytest.mark.parametrize(
    ("num_batches", "pieces", "expected"),
    [(1, 1, 1), (3, 1, 3), (3, 2, 3), (3, 3, 3), (3, 4, 6), (2, 4, 4), (2, 5, 6)],
)
def test_at_least_so_many_and_nothing_is_lost(num_batches: int, pieces: int, expected: int) -> None:
    group = [batch(100 * number, 9) for number in range(num_batches)]
    cut = cut_pieces(group, pieces=pieces, seed=1, step=1)
    assert len(cut) == expected >= pieces
    assert sorted(sum(indices(cut), ())) == sorted(index for each in group for index in each.indices)


def test_fewer_where_there_are_not_so_many_pairs() -> None:
    assert indices(cut_pieces([batch(0, 2)], pieces=4, seed=1, step=1)) == [(0,), (1,)]


def test_each_piece_of_each_step_has_its_own_seed() -> None:
    seeds = [
        piece.seed
        for seed in (1, 2)
        for step in (1, 2)
        for piece in cut_pieces([batch(0, 4)], pieces=2, seed=seed, step=step)
    ]
    assert len(set(seeds)) == len(seeds) == 8
    again = cut_pieces([batch(0, 4)], pieces=2, seed=1, step=1)
    assert [piece.seed for piece in again] == seeds[:2]


def test_pieces_have_about_as_many_tokens() -> None:
    pairs = [EncodedPair([5] * (1 + number // 10), [6]) for number in range(200)]  # by length, as batches may be
    tokens = [
        piece.batch.num_source_tokens for piece in cut_pieces([collate(pairs, range(200))], pieces=4, seed=1, step=1)
    ]
    assert max(tokens) - min(tokens) <= 0.03 * max(tokens)
