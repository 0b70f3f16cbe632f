"""Variable-length attention: sequences packed one after another in a row, without padding.

Linear layers and norms treat each token separately, so a packed row is fine for them. Only attention must know where
a sequence begins and ends. Flash attention takes these offsets (`cu_seqlens`); without it, attention pads for itself.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor


class PackedSequences(NamedTuple):
    """Token ids of several sequences, one after another in one row, and where each sequence starts."""

    ids: Int[Tensor, "1 token"]
    cu_seqlens: Int[Tensor, " sequences_and_end"]  # int32; where each sequence starts, then the number of all tokens
    slots: Int[Tensor, " token"]  # place of each token in the padded (sequence, max_seqlen), flattened
    max_seqlen: int
    is_flash: bool  # attention runs flash kernels; otherwise it pads for itself

    @property
    def positions(self) -> Int[Tensor, " token"]:
        """The position of each token in its own sequence."""
        return self.slots % self.max_seqlen

    def map(self, function: Callable[[Tensor], Tensor]) -> "PackedSequences":
        """The same sequences with a function applied to each tensor, such as a copy to a device."""
        return self._replace(ids=function(self.ids), cu_seqlens=function(self.cu_seqlens), slots=function(self.slots))

    def pad(self, row: Float[Tensor, "1 heads token head_dim"]) -> Float[Tensor, "sequence heads max_seqlen head_dim"]:
        """Give each sequence a row of its own, with zeros after its end."""
        empty = row.new_zeros((len(self.cu_seqlens) - 1) * self.max_seqlen, row.shape[1], row.shape[3])
        padded = empty.index_copy(0, self.slots, row[0].transpose(0, 1))
        return padded.unflatten(0, (-1, self.max_seqlen)).transpose(1, 2)

    def unpad(
        self, padded: Float[Tensor, "sequence heads max_seqlen head_dim"]
    ) -> Float[Tensor, "1 heads token head_dim"]:
        """Undo `pad`."""
        return padded.transpose(1, 2).flatten(0, 1).index_select(0, self.slots).transpose(0, 1)[None]


def pack(ids: Int[Tensor, "batch position"], *, pad_id: int, is_flash: bool = False) -> PackedSequences:
    """Remove the padding of a batch.

    Args:
        ids: On the CPU, where the resulting sizes are known without waiting for a device. Each sequence has at least
            one token, and its padding on the right.
    """
    real = ids != pad_id
    lengths = real.sum(dim=1)
    max_seqlen = int(lengths.max())
    cu_seqlens = torch.zeros(len(ids) + 1, dtype=torch.int32)
    torch.cumsum(lengths, dim=0, out=cu_seqlens[1:])
    slots = real[:, :max_seqlen].flatten().nonzero()[:, 0]
    return PackedSequences(ids[real][None], cu_seqlens, slots, max_seqlen, is_flash)


class VarlenMask(NamedTuple):
    """The attention mask of packed sequences: the queries of a sequence see the keys of the same sequence."""

    query: PackedSequences
    key: PackedSequences
    is_causal: bool  # a query sees no later key


def flash_attention(
    query: Float[Tensor, "1 heads query head_dim"],
    key: Float[Tensor, "1 heads key head_dim"],
    value: Float[Tensor, "1 heads key head_dim"],
    *,
    mask: VarlenMask,
) -> Float[Tensor, "1 heads query head_dim"]:
    """Scaled dot-product attention within each sequence, in bf16 or fp16 on CUDA.

    Source: Dao 2023, https://arxiv.org/abs/2307.08691.
    """
    from torch.nn.attention.varlen import varlen_attn  # takes seconds to import, and older versions do not have it

    query, key, value = (each[0].transpose(0, 1) for each in (query, key, value))  # (token, heads, head_dim)
    q, k = mask.query, mask.key
    window = (-1, 0) if mask.is_causal else (-1, -1)
    output = varlen_attn(query, key, value, q.cu_seqlens, k.cu_seqlens, q.max_seqlen, k.max_seqlen, window_size=window)
    assert isinstance(output, Tensor)
    return output.transpose(0, 1)[None]


def why_no_flash_attention(device: torch.device, *, dtype: torch.dtype, num_heads: int, head_dim: int) -> str | None:
    """The reason why flash attention for variable lengths does not work on a device; None where it works.

    No query covers all builds, drivers and GPUs, so the kernel is tried on two short sequences, forward and backward.
    """
    ids = torch.tensor([[1] * 5 + [0] * 2, [1] * 7])
    sequences = pack(ids, pad_id=0, is_flash=True).map(lambda tensor: tensor.to(device))
    heads = torch.ones(3, 1, num_heads, 12, head_dim, device=device, dtype=dtype, requires_grad=True)
    try:
        for is_causal in (False, True):
            flash_attention(*heads, mask=VarlenMask(sequences, sequences, is_causal)).sum().backward()
    except ImportError:
        return f"torch {torch.__version__} does not have it"
    except (RuntimeError, TypeError, ValueError) as error:
        return f"it fails: {str(error).splitlines()[0]}"
    return None
