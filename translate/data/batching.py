"""Pairs of token ids become padded batches of at most so many tokens, with as little padding as their order allows."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from translate.data.tokenizer import BOS_ID, EOS_ID, PAD_ID


class EncodedPair(NamedTuple):
    """The ids of a sentence and its translation, without special symbols."""

    source: list[int]
    target: list[int]


class Batch(NamedTuple):
    """Pairs side by side. The decoder reads `target_input_ids[:, t]` and should say `target_output_ids[:, t]`."""

    source_ids: Int[Tensor, "batch source"]  # tokens, EOS, padding
    target_input_ids: Int[Tensor, "batch target"]  # BOS, tokens, padding
    target_output_ids: Int[Tensor, "batch target"]  # tokens, EOS, padding
    indices: tuple[int, ...]  # which pairs these are, in the numbering of whoever made the batch

    @property
    def num_source_tokens(self) -> int:
        """Source tokens, EOS counted and padding not."""
        return int((self.source_ids != PAD_ID).sum())

    @property
    def num_target_tokens(self) -> int:
        """Target tokens, EOS counted and padding not: what the loss is a sum over."""
        return int((self.target_output_ids != PAD_ID).sum())

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device."""
        return self._replace(
            source_ids=self.source_ids.to(device),
            target_input_ids=self.target_input_ids.to(device),
            target_output_ids=self.target_output_ids.to(device),
        )


def collate(pairs: Sequence[EncodedPair], indices: Sequence[int]) -> Batch:
    """One batch of the given pairs.

    Args:
        indices: What to call the pairs in `Batch.indices`.

    Returns:
        A batch on the CPU; `source` and `target` are the longest sides, the special symbol counted.
    """
    return Batch(
        source_ids=collate_sources([pair.source for pair in pairs]),
        target_input_ids=_padded([[BOS_ID, *pair.target] for pair in pairs]),
        target_output_ids=_padded([[*pair.target, EOS_ID] for pair in pairs]),
        indices=tuple(indices),
    )


def collate_sources(sources: Sequence[Sequence[int]]) -> Int[Tensor, "batch source"]:
    """Sources alone, as the encoder reads them: tokens, EOS, padding on the right.

    Args:
        sources: Token ids without special symbols; an empty sentence is EOS alone.
    """
    return _padded([[*source, EOS_ID] for source in sources])


def batch_by_tokens(*lengths: Sequence[int], order: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Cuts an order into batches that have at most `max_tokens` tokens, padding counted, on each side.

    Greedy: the next item joins the batch unless that breaks the limit. So items of like lengths should stand together.

    Args:
        lengths: For each side (source; or source and target) the length of each item as it will be padded, with its
            special symbol.
        order: The items, as positions in `lengths`, in the order in which they fill batches.
        max_tokens: An item that is longer by itself gets a batch of its own.

    Returns:
        The batches, as lists of items; one after the other they are `order`.
    """
    widths = np.array([max(side[item] for side in lengths) for item in order], dtype=np.int64)
    borders = cut_batches(widths, max_tokens=max_tokens).tolist()
    return [list(order[first:end]) for first, end in pairwise(borders)]


def cut_batches(widths: NDArray[np.signedinteger], *, max_tokens: int) -> NDArray[np.int64]:
    """Where the batches of a whole epoch begin; see `batch_by_tokens`.

    Args:
        widths: The longer side of each item, at least 1, in the order in which the items fill batches.

    Returns:
        The first item of each batch, and the number of all items at the end.
    """
    borders = [0]
    while (first := borders[-1]) < len(widths):
        # All that can join the first item, and the one that cannot.
        waiting = widths[first : first + max_tokens // int(widths[first]) + 1].astype(np.int64)
        fits = np.maximum.accumulate(waiting) * np.arange(1, len(waiting) + 1) <= max_tokens
        size = len(waiting) if fits.all() else int(fits.argmin())
        borders.append(first + max(size, 1))
    return np.array(borders, dtype=np.int64)


def order_by_length(
    source_lengths: NDArray[np.signedinteger],
    target_lengths: NDArray[np.signedinteger],
    *,
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    """A random order in which neighbours have like lengths on both sides.

    Sorted by the longer side, because that one fills the batch; within it back and forth by the difference of the
    sides, so that where one length ends and the next begins the shapes are alike. Pairs of equal shape stand in random
    order, and in half of the draws the whole order is turned round, so that batches are cut elsewhere.

    Returns:
        A permutation of the positions.
    """
    longer = np.maximum(source_lengths, target_lengths)
    difference = source_lengths - target_lengths
    there, turned = generator.integers(2, size=2)
    back_and_forth = np.where(longer % 2 == there, difference, -difference)
    order = np.lexsort((generator.random(len(longer)), back_and_forth, longer))
    return order[::-1] if turned else order


def _padded(rows: Sequence[Sequence[int]]) -> Int[Tensor, "batch length"]:
    padded = np.full((len(rows), max((len(row) for row in rows), default=0)), PAD_ID, dtype=np.int64)
    for line, row in zip(padded, rows, strict=True):
        line[: len(row)] = row
    return torch.from_numpy(padded)
