"""A step's batches, cut into pieces that can be computed apart: by threads, by processes, or one after the other.

Which pieces there are and what is dropped in them depends on their number alone, not on who computes them. So the same
training comes out, but for the order in which gradients are summed.
"""

from collections.abc import Sequence
from typing import NamedTuple

from translate.data.batching import Batch


class Piece(NamedTuple):
    """Some pairs of a step."""

    batch: Batch
    seed: tuple[int, ...]  # for `dropout_seeded`


def cut_pieces(group: Sequence[Batch], *, pieces: int, seed: int, step: int) -> list[Piece]:
    """All pairs of a step, in at least so many pieces where there are so many pairs.

    Each batch is cut into equally many; a piece has every n-th pair, so that all have about as many tokens.

    Args:
        group: The batches of the step.
        seed: `training.seed`.
        step: The step's number, from 1.
    """
    parts = -(-pieces // len(group))
    cut = [part for batch in group for part in (_every(batch, parts, first) for first in range(parts)) if part.indices]
    return [Piece(batch, (seed, step, number)) for number, batch in enumerate(cut)]


def _every(batch: Batch, parts: int, first: int) -> Batch:
    if parts == 1:
        return batch
    rows = slice(first, None, parts)
    return Batch(
        batch.source_ids[rows], batch.target_input_ids[rows], batch.target_output_ids[rows], batch.indices[rows]
    )
