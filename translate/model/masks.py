"""Every mask of the model. All are boolean and named for what True means: this query may see that key.

Sequences are padded on the right, so position 0 is real and no query is ever left without a visible key.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def padding_visible(ids: Int[Tensor, "batch key"], *, pad_id: int) -> Bool[Tensor, "batch 1 1 key"]:
    """Every query, of every head, may see the keys that are not padding.

    Returns:
        (batch, heads = 1, query = 1, key), to be broadcast.
    """
    return (ids != pad_id)[:, None, None, :]


def no_peek_visible(length: int, *, device: torch.device | None = None) -> Bool[Tensor, "1 1 query key"]:
    """Position i may see positions 0 to i: itself and the past.

    Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 3.2.3.
    """
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()[None, None]


def target_visible(ids: Int[Tensor, "batch target"], *, pad_id: int) -> Bool[Tensor, "batch 1 target target"]:
    """The conjunction that the decoder's self-attention needs: neither padding nor the future."""
    return padding_visible(ids, pad_id=pad_id) & no_peek_visible(ids.shape[1], device=ids.device)
