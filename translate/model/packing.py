"""A batch without padding: all sequences of a side one after another in one row, and the model's way through it.

The numbers are those of `Encoder.forward` and `Decoder.forward` at the real positions; those two say what the model is.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from translate.model.positions import Relation
from translate.model.spans import Sequences, Spans
from translate.model.transformer import Embedder, Transformer


class Packed(NamedTuple):
    """Sequences of token ids, one after another."""

    ids: Int[Tensor, " token"]
    sequences: Sequences

    def map(self, function: Callable[[Tensor], Tensor]) -> "Packed":
        """The same with each tensor as the function gives it: a copy on a device, say."""
        starts, cells, longest = self.sequences
        return Packed(function(self.ids), Sequences(function(starts), function(cells), longest))


def pack(ids: Int[Tensor, "batch position"], *, pad_id: int) -> Packed:
    """Padded sequences as one row.

    Args:
        ids: On the CPU, where the sizes of what comes out are known without waiting for a device; each sequence has a
            token, and padding on the right.
    """
    real = ids != pad_id
    lengths = real.sum(dim=1)
    longest = int(lengths.max())
    starts = torch.zeros(len(ids) + 1, dtype=torch.int32)
    torch.cumsum(lengths, dim=0, out=starts[1:])
    return Packed(ids[real], Sequences(starts, real[:, :longest].flatten().nonzero()[:, 0], longest))


def decode_packed(
    model: Transformer, source: Packed, target: Packed, *, is_flash: bool
) -> Float[Tensor, "target d_model"]:
    """One vector for each target position: what the decoder gives of it, with the encoder's output of its source.

    Args:
        source: On the model's device.
        target: What the decoder reads: the start symbol and the translation.
        is_flash: See `flash_refusal`.
    """
    encoder, decoder = model.encoder, model.decoder
    visible = Spans(source.sequences, source.sequences, no_peek=False, is_flash=is_flash)
    hidden, relation = _embed(encoder.embedder, source)
    for layer in encoder.layers:
        hidden = layer(hidden, visible=visible, relation=relation)
    memory = encoder.final_norm(hidden)

    target_visible = Spans(target.sequences, target.sequences, no_peek=True, is_flash=is_flash)
    memory_visible = Spans(target.sequences, source.sequences, no_peek=False, is_flash=is_flash)
    hidden, relation = _embed(decoder.embedder, target)
    for layer in decoder.layers:
        hidden = layer(hidden, memory, target_visible=target_visible, memory_visible=memory_visible, relation=relation)
    return decoder.final_norm(hidden)[0]


def _embed(embedder: Embedder, packed: Packed) -> tuple[Float[Tensor, "1 token d_model"], Relation]:
    """As `Embedder.forward`; and what positions change in self-attention."""
    positions, longest = packed.sequences.positions, packed.sequences.longest
    embedded = embedder.tokens(packed.ids)[None] * embedder.scale
    hidden = embedder.dropout(embedder.positions.embed_packed(embedded, positions=positions, longest=longest))
    return hidden, embedder.positions.relate_packed(positions=positions, longest=longest)
