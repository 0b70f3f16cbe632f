"""Turns pairs of token ids into padded batches with a token limit, with as little padding as their order allows."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from translate.data.token_store import TokenChunk, flatten
from translate.data.tokenizer import BOS_ID, EOS_ID, PAD_ID


class EncodedPair(NamedTuple):
    """The ids of a sentence and its translation, without special symbols."""

    source: list[int]
    target: list[int]


class Batch(NamedTuple):
    """Padded pairs. At position t the decoder reads `target_input_ids[:, t]` and predicts `target_output_ids[:, t]`."""

    source_ids: Int[Tensor, "batch source"]  # tokens, EOS, padding
    target_input_ids: Int[Tensor, "batch target"]  # BOS, tokens, padding
    target_output_ids: Int[Tensor, "batch target"]  # tokens, EOS, padding
    indices: tuple[int, ...]  # the numbers of the pairs in their corpus

    @property
    def num_target_tokens(self) -> int:
        """The target tokens, including EOS and without padding: the loss is a sum over them."""
        return int((self.target_output_ids != PAD_ID).sum())

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device."""
        sources, target_inputs, target_outputs = (ids.to(device) for ids in self[:3])
        return Batch(sources, target_inputs, target_outputs, self.indices)


def make_batch(sources: TokenChunk, targets: TokenChunk, indices: Sequence[int]) -> Batch:
    """Make one batch of pairs on the CPU, padded to its longest sides with their special symbols."""
    return Batch(
        source_ids=_padded(sources, after=EOS_ID),
        target_input_ids=_padded(targets, before=BOS_ID),
        target_output_ids=_padded(targets, after=EOS_ID),
        indices=tuple(indices),
    )


def collate(pairs: Sequence[EncodedPair], indices: Sequence[int]) -> Batch:
    """Make one batch of pairs that are lists of ids; see `make_batch`."""
    return make_batch(flatten([pair.source for pair in pairs]), flatten([pair.target for pair in pairs]), indices)


def collate_sources(sources: Sequence[Sequence[int]]) -> Int[Tensor, "batch source"]:
    """Make the encoder's input: tokens, EOS and padding on the right; an empty sentence is EOS alone."""
    return _padded(flatten(sources), after=EOS_ID)


def batch_by_tokens(*lengths: Sequence[int], order: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Cut an order into batches of at most `max_tokens` tokens on each side, padding counted.

    An item joins the batch before it unless that breaks the limit, so items of similar lengths should be neighbours.

    Args:
        lengths: For each side (source; or source and target) the length of each item with its special symbol.
        order: The items, as positions in `lengths`, in the order that fills the batches.
        max_tokens: A longer item gets its own batch.

    Returns:
        The batches as lists of items, which together are `order`.
    """
    widths = np.array([max(side[item] for side in lengths) for item in order], dtype=np.int64)
    borders = cut_batches(widths, max_tokens=max_tokens).tolist()
    return [list(order[first:end]) for first, end in pairwise(borders)]


def cut_batches(widths: NDArray[np.signedinteger], *, max_tokens: int) -> NDArray[np.int64]:
    """Find the first item of each batch of an epoch, and the number of all items at the end; see `batch_by_tokens`.

    Args:
        widths: The longer side of each item, at least 1, in the order that fills the batches.
    """
    borders = [0]
    while (first := borders[-1]) < len(widths):
        # All items that could join the first one, and one more.
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
    """Draw a random order in which neighbours have similar lengths on both sides.

    The pairs are sorted by the longer side, which fills the batch, and within one length by the difference of the
    sides, upwards and downwards in turn, so that shapes are similar where one length ends and the next begins. Pairs of
    equal shape are in random order. Half of the orders are reversed at random, so that batches are cut elsewhere.

    Returns:
        A permutation of the positions.
    """
    longer = np.maximum(source_lengths, target_lengths)
    difference = source_lengths - target_lengths
    there, turned = generator.integers(2, size=2)
    back_and_forth = np.where(longer % 2 == there, difference, -difference)
    order = np.lexsort((generator.random(len(longer)), back_and_forth, longer))
    return order[::-1] if turned else order


def _padded(lines: TokenChunk, *, before: int | None = None, after: int | None = None) -> Int[Tensor, "batch length"]:
    """The ids of lines with one special symbol each, before or after them, and padding on the right."""
    lengths = lines.lengths.astype(np.int64)
    columns = np.arange(lengths.max(initial=0))
    is_token = columns < lengths[:, None]
    rows = np.full((len(lengths), len(columns) + 1), PAD_ID, dtype=np.int64)
    if before is not None:
        rows[:, 1:][is_token] = lines.ids
        rows[:, 0] = before
    elif after is not None:
        rows[:, :-1][is_token] = lines.ids
        rows[np.arange(len(lengths)), lengths] = after
    return torch.from_numpy(rows)
