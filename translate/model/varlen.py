"""Variable-length attention, over several sequences laid end to end in one row.

Linear layers and norms treat each token separately, so a row is fine for them. Only attention must know where a
sequence begins and ends. Flash attention takes these offsets (`cu_seqlens`); without it, attention pads internally.

`pack` removes the padding. `flatten` keeps it and pads the row, so products have few different sizes. `fill_up` pads a
packed row, so that batches have few shapes on a GPU too.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

_ROUNDED_TOKENS = 64
_FLASH_BLOCK = 128  # queries that a flash kernel takes at once, so a longer `max_seqlen` up to there costs nothing


class PackedSequences(NamedTuple):
    """Token ids of several sequences, one after another in one row, and where each sequence starts."""

    ids: Int[Tensor, "1 token"]
    cu_seqlens: Int[Tensor, " sequences_and_end"]  # int32; where each sequence starts without padding, then their end
    slots: Int[Tensor, " token"]  # place of each token in the padded (sequence, max_seqlen), flattened
    max_seqlen: int
    is_flash: bool = False  # attention runs flash kernels; otherwise it pads for itself
    is_padded: bool = False  # the row has the padding too, in its place, and may be longer

    @property
    def positions(self) -> Int[Tensor, " token"]:
        """The position of each token in its own sequence."""
        return self.slots % self.max_seqlen

    def map(self, function: Callable[[Tensor], Tensor]) -> "PackedSequences":
        """The same sequences with a function applied to each tensor, such as a copy to a device."""
        return self._replace(ids=function(self.ids), cu_seqlens=function(self.cu_seqlens), slots=function(self.slots))

    def pad(self, row: Float[Tensor, "1 heads token head_dim"]) -> Float[Tensor, "sequence heads max_seqlen head_dim"]:
        """Give each sequence its own row, with zeros after its end if the padding was removed."""
        num_slots, tokens = (len(self.cu_seqlens) - 1) * self.max_seqlen, row[0].transpose(0, 1)
        if self.is_padded:
            padded, _ = tokens.split([num_slots, len(tokens) - num_slots])
        else:
            padded = row.new_zeros(num_slots, *tokens.shape[1:]).index_copy(0, self.slots, tokens)
        return padded.unflatten(0, (-1, self.max_seqlen)).transpose(1, 2)

    def unpad(
        self, padded: Float[Tensor, "sequence heads max_seqlen head_dim"]
    ) -> Float[Tensor, "1 heads token head_dim"]:
        """Undo `pad`."""
        tokens = padded.transpose(1, 2).flatten(0, 1)
        if self.is_padded:
            row = F.pad(tokens, (0, 0, 0, 0, 0, self.ids.shape[1] - len(tokens)))
        else:
            row = tokens.index_select(0, self.slots)
        return row.transpose(0, 1)[None]


def flatten(ids: Int[Tensor, "batch position"], *, pad_id: int) -> PackedSequences:
    """Put a padded batch into one row, and fill it up with padding to a multiple of 64 tokens.

    On a CPU a product of a new size in bf16 takes several times as long as the next one of that size, because oneDNN
    compiles a kernel for it. Sequences on the CPU, as for `pack`.
    """
    row = F.pad(ids.flatten(), (0, -ids.numel() % _ROUNDED_TOKENS), value=pad_id)[None]
    cu_seqlens, slots = _cu_seqlens(ids.numpy() != pad_id), torch.arange(row.shape[1])
    return PackedSequences(row, cu_seqlens, slots, ids.shape[1], is_padded=True)


def pack(ids: Int[Tensor, "batch position"], *, pad_id: int, is_flash: bool = False) -> PackedSequences:
    """Remove the padding of a batch.

    Args:
        ids: On the CPU, where the resulting sizes are known without waiting for a device. Each sequence has at least
            one token, and its padding on the right.
    """
    rows = ids.numpy()
    real = rows != pad_id
    max_seqlen = int(real.sum(axis=1).max())
    row, slots = (torch.from_numpy(each) for each in (rows[real], np.flatnonzero(real[:, :max_seqlen])))
    return PackedSequences(row[None], _cu_seqlens(real), slots, max_seqlen, is_flash)


def fill_up(packed: PackedSequences, *, pad_id: int, batch_tokens: int) -> PackedSequences:
    """Add sequences of padding to packed ones, so that few shapes occur; for flash attention, which skips empty ones.

    Rows have lengths that are a sixteenth of a full batch apart, and the number of sequences is a power of two. As the
    backward pass reserves memory for each sequence, there is no fixed number, which would be several times as large.
    Real tokens keep their places. Padding comes after them, in as many sequences on both sides of a batch, none of
    which is empty on one side alone: the kernels divide by a sum over keys.

    Args:
        batch_tokens: The tokens of a full batch. A row may be longer.
    """
    num_tokens, num_sequences = packed.ids.shape[1], len(packed.cu_seqlens) - 1
    spacing = max(8, batch_tokens // 128 * 8)
    num_added = 1 + spacing // 120  # sequences of padding: of 1 to 128 tokens each
    full = -(-(batch_tokens + num_added) // 8) * 8
    length = full - (full - num_tokens - num_added) // spacing * spacing
    ends = num_tokens + np.arange(1, num_added + 1) * (length - num_tokens) // num_added
    num_empty = 2 ** (num_sequences + num_added - 1).bit_length() - num_sequences - num_added
    cu_seqlens = np.concatenate([packed.cu_seqlens.numpy(), ends, np.full(num_empty, length)])
    return packed._replace(
        ids=F.pad(packed.ids, (0, length - num_tokens), value=pad_id),
        cu_seqlens=torch.from_numpy(cu_seqlens.astype(np.int32)),
        slots=F.pad(packed.slots, (0, length - num_tokens)),  # at position 0
    )


def _cu_seqlens(real: NDArray[np.bool_]) -> Int[Tensor, " sequences_and_end"]:
    return torch.from_numpy(np.concatenate([[0], real.sum(axis=1).cumsum()]).astype(np.int32))


class VarlenMask(NamedTuple):
    """The attention mask of packed sequences: the queries of a sequence see the keys of the same sequence."""

    query: PackedSequences
    key: PackedSequences
    is_causal: bool  # a query sees no later key
    padded: Bool[Tensor, "sequence 1 #query key"] | None  # the same after padding; None: flash attention needs none


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

    query, key, value = (heads.squeeze(0).transpose(0, 1) for heads in (query, key, value))  # (token, heads, head_dim)
    q, k = mask.query, mask.key
    max_q, max_k = (-(-longest // _FLASH_BLOCK) * _FLASH_BLOCK for longest in (q.max_seqlen, k.max_seqlen))
    causal: dict[str, Any] = {"window_size": (-1, 0) if mask.is_causal else (-1, -1)}
    if "window_size" not in (varlen_attn.__kwdefaults__ or {}):  # PyTorch 2.10
        causal = {"is_causal": mask.is_causal}
    output = varlen_attn(query, key, value, q.cu_seqlens, k.cu_seqlens, max_q, max_k, **causal)
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
            flash_attention(*heads, mask=VarlenMask(sequences, sequences, is_causal, None)).sum().backward()
    except ImportError:
        return f"it needs PyTorch 2.10 or newer, and this is {torch.__version__}"
    except (AttributeError, RuntimeError, TypeError, ValueError) as error:
        return f"it fails: {(str(error) or repr(error)).splitlines()[0]}"
    return None
