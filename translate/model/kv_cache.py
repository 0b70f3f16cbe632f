"""The key-value cache of step-by-step decoding: written in place, and never reordered.

A sentence's hypotheses share one row of cache slots. Each step writes one slot for each hypothesis, and a mask says
which slots a hypothesis sees: its ancestors'. When the search reorders or drops hypotheses, only the mask is
reordered. When all slots are full, those that some hypothesis still sees move to the front; the others are forgotten.

Since tensors are written in place, an old cache must not be used again once a step, `reorder` or `insert` has returned
a new one.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from translate.model.attention import KeyValue
from translate.model.device import copy_to_device, start_copy_to_host

FREE_STEPS = 8  # room left after packing: fewer slots make attention cheaper, but packing copies them


class LayerCache(NamedTuple):
    """Keys and values of one decoder layer, one row for each sentence."""

    past: KeyValue  # (batch, heads, slots, head_dim): of the target positions so far
    memory: KeyValue  # (batch, heads, source, head_dim): of the source

    def extend_past(self, new: KeyValue, *, end: int) -> KeyValue:
        """Write the newest slots, one for each hypothesis, and return all slots up to `end`, where the newest end."""
        for past, newest in zip(self.past, new, strict=True):
            past[:, :, end - newest.shape[2] : end] = newest
        return self.past.map(lambda slots: slots[:, :, :end])


class DecoderCache(NamedTuple):
    """Keys and values of all decoder layers, which hypothesis sees which of them, and the length of each sentence."""

    layers: tuple[LayerCache, ...]
    past_bias: Float[Tensor, "batch 1 beam slots"]  # 0: this hypothesis sees that slot; -inf: it does not
    slot_positions: Int[Tensor, "batch slots"]  # the target position that each slot was written at
    memory_bias: Float[Tensor, "batch 1 1 source"]  # 0 for the source, -inf for padding
    lengths: Int[Tensor, " batch"]  # target positions of each sentence's hypotheses
    source_lengths: tuple[int, ...]  # of the sentence in each row, or of the last one there if the row is free
    max_length: int  # reserved target positions
    num_slots: int  # slots written so far
    num_seen: Callable[[], Tensor] | None = None  # when all slots are full: the most that any row's hypotheses see

    @property
    def is_full(self) -> bool:
        """Whether there are no free slots for another step."""
        return self.num_slots + self.beam_size > self.past_bias.shape[3]

    @property
    def beam_size(self) -> int:
        """Number of hypotheses for each sentence."""
        return self.past_bias.shape[2]

    def with_new_slots(self) -> "DecoderCache":
        """The cache with a new slot for each hypothesis, which it alone sees; keys and values are written later."""
        cache = self._packed(num_free=FREE_STEPS * self.beam_size) if self.is_full else self
        begin, end = cache.num_slots, cache.num_slots + self.beam_size
        own = cache.past_bias.new_full((self.beam_size, self.beam_size), -math.inf).fill_diagonal_(0.0)
        cache.past_bias[..., begin:end] = own
        cache.slot_positions[:, begin:end] = cache.lengths[:, None]
        return cache._replace(num_slots=end)

    def _packed(self, *, num_free: int) -> "DecoderCache":
        """The cache with only those slots that some hypothesis sees, and with free slots after them."""
        is_seen = self._is_seen()
        num_slots = int((self.num_seen or start_copy_to_host(is_seen.sum(dim=1).max()))())
        order = is_seen.byte().argsort(dim=1, descending=True, stable=True)[:, :num_slots]
        batch, heads, length, _ = self.layers[0].past.key.shape
        rows = torch.arange(batch * heads, device=order.device).view(batch, heads, 1) * length + order[:, None, :]
        return self._replace(
            layers=tuple(
                LayerCache(past.map(lambda slots: _pack(slots, rows, num_free)), memory) for past, memory in self.layers
            ),
            past_bias=F.pad(self.past_bias.take_along_dim(order[:, None, None], 3), (0, num_free), value=-math.inf),
            slot_positions=F.pad(self.slot_positions.gather(1, order), (0, num_free)),
            num_slots=num_slots,
            num_seen=None,
        )

    def _is_seen(self) -> Bool[Tensor, "batch slots"]:
        """Which slots some hypothesis sees."""
        return (self.past_bias[..., : self.num_slots] == 0).any(dim=2)[:, 0]

    def reorder(self, beam_indices: Int[Tensor, "batch beam"]) -> "DecoderCache":
        """Hypothesis i continues the earlier hypothesis `beam_indices[:, i]`, and sees the slots that it saw."""
        if self.beam_size > 1:
            written = self.past_bias[..., : self.num_slots]
            written.copy_(written.take_along_dim(beam_indices[:, None, :, None], dim=2))
        if not self.is_full:
            return self
        # The next step packs: a GPU that is asked now has answered by then, so the host does not wait.
        return self._replace(num_seen=start_copy_to_host(self._is_seen().sum(dim=1).max()))

    def insert(self, rows: Sequence[int], new: "DecoderCache") -> "DecoderCache":
        """Put newly started sentences into these rows, which are free or follow the last one.

        Tokens that the new sentences have already read, such as tags, take the first slots of their rows.
        """
        cache, read = self, new.num_slots
        batch, source = len(self.lengths), new.memory_bias.shape[3]
        if max(rows) >= batch:  # the added rows are overwritten below
            cache = cache.select_rows([min(row, batch - 1) for row in range(max(rows) + 1)])
        missing = source - cache.memory_bias.shape[3]
        if missing > 0:
            cache = cache._replace(
                layers=tuple(
                    LayerCache(past, memory.map(lambda old: F.pad(old, (0, 0, 0, missing))))
                    for past, memory in cache.layers
                ),
                memory_bias=F.pad(cache.memory_bias, (0, missing), value=-math.inf),
            )
        source_lengths = list(cache.source_lengths)
        for row, length in zip(rows, new.source_lengths, strict=True):
            source_lengths[row] = length
        places = copy_to_device(torch.tensor(rows), self.lengths.device)
        for old_layer, new_layer in zip(cache.layers, new.layers, strict=True):
            for old, fresh in zip(old_layer.memory, new_layer.memory, strict=True):
                old[places, :, :source] = fresh
            for old, fresh in zip(old_layer.past, new_layer.past, strict=True):
                old[places, :, :read] = fresh[:, :, :read]
        cache.memory_bias.index_fill_(0, places, -math.inf)
        cache.memory_bias[places, :, :, :source] = new.memory_bias
        cache.past_bias.index_fill_(0, places, -math.inf)
        cache.past_bias[places, :, :, :read] = new.past_bias[..., :read]
        cache.slot_positions[places, :read] = new.slot_positions[:, :read]
        cache.lengths[places] = new.lengths
        num_slots, num_seen = max(cache.num_slots, read), None if read else cache.num_seen
        return cache._replace(source_lengths=tuple(source_lengths), num_slots=num_slots, num_seen=num_seen)

    def select_rows(self, rows: Sequence[int]) -> "DecoderCache":
        """The cache of only these sentences, in this order."""
        places = copy_to_device(torch.tensor(rows), self.lengths.device)

        def select(tensor: Tensor) -> Tensor:
            return tensor.index_select(0, places)

        return self._replace(
            layers=tuple(LayerCache(past.map(select), memory.map(select)) for past, memory in self.layers),
            past_bias=select(self.past_bias),
            slot_positions=select(self.slot_positions),
            memory_bias=select(self.memory_bias),
            lengths=select(self.lengths),
            source_lengths=tuple(self.source_lengths[row] for row in rows),
        )


def _pack(slots: Tensor, rows: Int[Tensor, "batch heads slots"], num_free: int) -> Tensor:
    """Keys or values in these rows of the flattened slots, at the front of a new tensor."""
    (batch, heads, num_slots), head_dim = rows.shape, slots.shape[3]
    # Slots that were never written are masked, but must be finite.
    packed = slots.new_zeros((batch, heads, num_slots + num_free, head_dim))
    packed[:, :, :num_slots] = slots.view(-1, head_dim).index_select(0, rows.flatten()).view(*rows.shape, head_dim)
    return packed
