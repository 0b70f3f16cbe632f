"""Every mask of the model. All are boolean and named for what True means: this query may see that key.

Sequences are padded on the right, so position 0 is real and no query is ever left without a visible key.
Packed sequences have no padding: their mask is the pair of query and key sequences, see `varlen.VarlenMask`.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from translate.model.varlen import PackedSequences, VarlenMask


def padding_visible(ids: Int[Tensor, "batch key"], *, pad_id: int) -> Bool[Tensor, "batch 1 1 key"]:
    """Every query, of every head, may see the keys that are not padding."""
    return (ids != pad_id)[:, None, None, :]


def causal_visible(length: int, *, device: torch.device | None = None) -> Bool[Tensor, "1 1 query key"]:
    """Position i may see positions 0 to i: itself and the past.

    Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 3.2.3.
    """
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()[None, None]


def source_visible(
    source: Int[Tensor, "batch source"] | PackedSequences, *, pad_id: int
) -> Bool[Tensor, "batch 1 1 source"] | VarlenMask:
    """The encoder's self-attention sees the whole sentence, but no padding."""
    if isinstance(source, PackedSequences):
        return varlen_mask(source, source, is_causal=False)
    return padding_visible(source, pad_id=pad_id)


def target_visible(
    target: Int[Tensor, "batch target"] | PackedSequences, *, pad_id: int
) -> Bool[Tensor, "batch 1 target target"] | VarlenMask:
    """The decoder's self-attention sees neither padding nor the future."""
    if isinstance(target, PackedSequences):
        return varlen_mask(target, target, is_causal=True)
    return padding_visible(target, pad_id=pad_id) & causal_visible(target.shape[1], device=target.device)


def memory_visible(
    target: Int[Tensor, "batch target"] | PackedSequences, source: Bool[Tensor, "batch 1 1 source"] | VarlenMask
) -> Bool[Tensor, "batch 1 1 source"] | VarlenMask:
    """Cross-attention sees the same source positions as the encoder; `source` is the result of `source_visible`."""
    if isinstance(target, PackedSequences):
        assert isinstance(source, VarlenMask)
        return varlen_mask(target, source.key, is_causal=False)
    return source


def varlen_mask(query: PackedSequences, key: PackedSequences, *, is_causal: bool) -> VarlenMask:
    """The mask of packed sequences, and the mask after padding each sequence to its own row."""
    padded = None
    if not query.is_flash:
        lengths = key.cu_seqlens.diff()
        padded = (torch.arange(key.max_seqlen, device=lengths.device) < lengths[:, None])[:, None, None, :]
        if is_causal:
            padded = padded & causal_visible(key.max_seqlen, device=lengths.device)
    return VarlenMask(query, key, is_causal, padded)
