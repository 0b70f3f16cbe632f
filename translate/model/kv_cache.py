"""What step-by-step decoding keeps of the positions before: keys and values, written in place and never reordered.

A sentence's hypotheses share one row of cells. Each step writes one cell for each slot of the beam; a mask says which
cells a hypothesis sees: those of its own ancestors. When the search makes hypotheses continue others, or drops some,
only the mask is reordered; keys and values stay where they are. When the room is full, the cells that some hypothesis
still sees move to the front, and the others are forgotten.

The cache is passed and returned, never stored in a module; but its tensors are written in place, so an old cache is
used up when a step, `reorder` or `insert` has returned a new one.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from translate.model.attention import KeyValue

ROOM_STEPS = 8  # that fit between one packing and the next: fewer cells cost less attention, packing costs a copy


class LayerCache(NamedTuple):
    """Keys and values of one decoder layer."""

    past: KeyValue  # (batch, heads, room, head_dim): of the targets so far, one row for each sentence
    memory: KeyValue  # (batch, heads, source, head_dim): of the source, one row for each sentence

    def extend_past(self, new: KeyValue, *, end: int) -> KeyValue:
        """Write the newest cells, one for each hypothesis, to end at `end`; and all cells up to there."""
        begin = end - new.key.shape[2]
        self.past.key[:, :, begin:end] = new.key
        self.past.value[:, :, begin:end] = new.value
        return KeyValue(self.past.key[:, :, :end], self.past.value[:, :, :end])

    def memory_up_to(self, length: int) -> KeyValue:
        """The source's keys and values, without the padding behind the longest sentence."""
        return KeyValue(self.memory.key[:, :, :length], self.memory.value[:, :, :length])


class DecoderCache(NamedTuple):
    """Keys and values of all decoder layers, who sees what of them, and where each sentence stands."""

    layers: tuple[LayerCache, ...]
    past_bias: Float[Tensor, "batch 1 beam room"]  # 0: this hypothesis sees that cell; -inf: it does not
    cell_positions: Int[Tensor, "batch room"]  # the target position that each cell was written at
    memory_bias: Float[Tensor, "batch 1 1 source"]  # 0 for the source, -inf for padding
    lengths: Int[Tensor, " batch"]  # target positions of each sentence's hypotheses
    source_lengths: tuple[int, ...]  # of the sentences now in each row
    max_length: int  # target positions that were reserved
    num_cells: int  # cells written so far

    @property
    def batch(self) -> int:
        """Rows, one for each sentence."""
        return len(self.lengths)

    @property
    def beam_size(self) -> int:
        """Hypotheses for each sentence."""
        return self.past_bias.shape[2]

    def with_room(self) -> "DecoderCache":
        """The cache with room for one more cell a hypothesis: packed, if need be."""
        if self.num_cells + self.beam_size <= self.past_bias.shape[3]:
            return self
        return self._packed()

    def _packed(self) -> "DecoderCache":
        """Only the cells that some hypothesis sees, at the front of a room that has place for as many more."""
        is_seen = (self.past_bias[..., : self.num_cells] == 0).any(dim=2)[:, 0]  # (batch, cells)
        num_cells = int(is_seen.sum(dim=1).max())
        room = num_cells + ROOM_STEPS * self.beam_size
        order = is_seen.byte().argsort(dim=1, descending=True, stable=True)[:, :num_cells]
        layers = tuple(LayerCache(_moved(past, order, room=room), memory) for past, memory in self.layers)
        bias_order = order[:, None, None, :].expand(-1, 1, self.beam_size, -1)
        past_bias = self.past_bias.new_full((self.batch, 1, self.beam_size, room), -math.inf)
        past_bias[..., :num_cells] = self.past_bias.gather(3, bias_order)
        cell_positions = self.cell_positions.new_zeros((self.batch, room))
        cell_positions[:, :num_cells] = self.cell_positions.gather(1, order)
        return self._replace(layers=layers, past_bias=past_bias, cell_positions=cell_positions, num_cells=num_cells)

    def with_new_cells(self) -> "DecoderCache":
        """The cache with one more cell a hypothesis, which it alone sees; keys and values are still to be written."""
        cache = self.with_room()
        begin, end = cache.num_cells, cache.num_cells + cache.beam_size
        own = torch.eye(cache.beam_size, dtype=torch.bool, device=cache.past_bias.device)
        cache.past_bias[..., begin:end] = torch.where(own, 0.0, -math.inf)
        cache.cell_positions[:, begin:end] = cache.lengths[:, None]
        return cache._replace(num_cells=end)

    def reorder(self, beam_indices: Int[Tensor, "batch beam"]) -> "DecoderCache":
        """Each hypothesis continues the one in the slot that its index names, and sees what that one saw."""
        if self.beam_size > 1:
            written = self.past_bias[..., : self.num_cells]
            written.copy_(written.gather(2, beam_indices[:, None, :, None].expand_as(written)))
        return self

    def insert(self, rows: Int[Tensor, " new_batch"], new: "DecoderCache") -> "DecoderCache":
        """Put newly started sentences into rows that others have left; no other row is moved.

        Args:
            rows: One row for each sentence of `new`. The cache grows by those that follow its last row.
        """
        num_added = int(rows.max()) + 1 - self.batch
        cache = self
        if num_added > 0:  # the added rows are overwritten below
            all_rows = torch.arange(self.batch + num_added, device=rows.device)
            cache = cache.select_rows(all_rows.clamp(max=self.batch - 1))
        source = new.memory_bias.shape[3]
        if source > cache.memory_bias.shape[3]:
            cache = cache._with_longer_memory(source - cache.memory_bias.shape[3])
        for old_layer, new_layer in zip(cache.layers, new.layers, strict=True):
            for old, fresh in zip(old_layer.memory, new_layer.memory, strict=True):
                old[rows, :, :source] = fresh
        cache.memory_bias[rows] = -math.inf
        cache.memory_bias[rows, :, :, :source] = new.memory_bias
        cache.past_bias[rows] = -math.inf
        cache.lengths[rows] = new.lengths
        source_lengths = list(cache.source_lengths)
        for row, length in zip(rows.tolist(), new.source_lengths, strict=True):
            source_lengths[row] = length
        max_length = max(cache.max_length, new.max_length)
        return cache._replace(source_lengths=tuple(source_lengths), max_length=max_length)

    def select_rows(self, rows: Int[Tensor, " new_batch"]) -> "DecoderCache":
        """The cache of these sentences alone, in this order."""

        def chosen(pair: KeyValue) -> KeyValue:
            return KeyValue(pair.key.index_select(0, rows), pair.value.index_select(0, rows))

        return self._replace(
            layers=tuple(LayerCache(chosen(past), chosen(memory)) for past, memory in self.layers),
            past_bias=self.past_bias.index_select(0, rows),
            cell_positions=self.cell_positions.index_select(0, rows),
            memory_bias=self.memory_bias.index_select(0, rows),
            lengths=self.lengths.index_select(0, rows),
            source_lengths=tuple(self.source_lengths[row] for row in rows.tolist()),
        )

    def _with_longer_memory(self, missing: int) -> "DecoderCache":
        def longer(pair: KeyValue) -> KeyValue:
            pad = torch.nn.functional.pad
            return KeyValue(pad(pair.key, (0, 0, 0, missing)), pad(pair.value, (0, 0, 0, missing)))

        memory_bias = torch.nn.functional.pad(self.memory_bias, (0, missing), value=-math.inf)
        layers = tuple(LayerCache(past, longer(memory)) for past, memory in self.layers)
        return self._replace(layers=layers, memory_bias=memory_bias)


def _moved(pair: KeyValue, order: Int[Tensor, "batch cells"], *, room: int) -> KeyValue:
    """The cells in a given order, at the front of new tensors."""
    batch, heads, old_room, head_dim = pair.key.shape
    rows = torch.arange(batch * heads, device=order.device).view(batch, heads, 1) * old_room + order[:, None, :]

    def move(old: Tensor) -> Tensor:
        new = old.new_zeros((batch, heads, room, head_dim))  # never-written cells are masked, but must be finite
        new[:, :, : order.shape[1]] = (
            old.view(-1, head_dim).index_select(0, rows.flatten()).view(batch, heads, -1, head_dim)
        )
        return new

    return KeyValue(move(pair.key), move(pair.value))
