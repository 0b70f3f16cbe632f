"""What step-by-step decoding keeps of the positions before: keys and values; passed and returned, never stored."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from translate.model.attention import KeyValue


class LayerCache(NamedTuple):
    """Keys and values of one decoder layer."""

    past: KeyValue  # of the target so far: one row for each hypothesis
    memory: KeyValue  # of the source: one row for each sentence

    def extended_past(self, new: KeyValue) -> KeyValue:
        """The past with the keys and values of the next position behind it."""
        return KeyValue(torch.cat((self.past.key, new.key), dim=2), torch.cat((self.past.value, new.value), dim=2))


class DecoderCache(NamedTuple):
    """Keys and values of all decoder layers, and where the next position stands."""

    layers: tuple[LayerCache, ...]
    memory_visible: Bool[Tensor, "batch 1 1 source"]
    length: int  # target positions that it holds

    def select(
        self, *, hypotheses: Int[Tensor, " new_rows"], sentences: Int[Tensor, " new_batch"] | None
    ) -> "DecoderCache":
        """The cache of chosen hypotheses: reordered, repeated or left out.

        Args:
            hypotheses: Rows of the past to keep, in their new order.
            sentences: Rows of the memory to keep; None: all, as they are.
        """
        layers = []
        for past, memory in self.layers:
            new_past = KeyValue(past.key.index_select(0, hypotheses), past.value.index_select(0, hypotheses))
            if sentences is not None:
                memory = KeyValue(memory.key.index_select(0, sentences), memory.value.index_select(0, sentences))
            layers.append(LayerCache(new_past, memory))
        visible = self.memory_visible if sentences is None else self.memory_visible.index_select(0, sentences)
        return self._replace(layers=tuple(layers), memory_visible=visible)
