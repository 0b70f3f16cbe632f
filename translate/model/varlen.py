"""Variable-length attention, over several sequences laid end to end in one row.

Linear layers and norms treat each token separately, so a row is fine for them. Only attention must know where a
sequence begins and ends. Flash attention takes these offsets (`cu_seqlens`); without it, attention pads internally.

`pack` removes the padding. `flatten` keeps it and pads the row, so products have few different sizes.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

_ROUNDED_TOKENS = 64


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
    return PackedSequences(row, _cu_seqlens(ids != pad_id), torch.arange(row.shape[1]), ids.shape[1], is_padded=True)


def pack(ids: Int[Tensor, "batch position"], *, pad_id: int, is_flash: bool = False) -> PackedSequences:
    """Remove the padding of a batch.

    Args:
        ids: On the CPU, where the resulting sizes are known without waiting for a device. Each sequence has at least
            one token, and its padding on the right.
    """
    real = ids != pad_id
    cu_seqlens = _cu_seqlens(real)
    max_seqlen = int(cu_seqlens.diff().max())
    slots = real[:, :max_seqlen].flatten().nonzero()[:, 0]
    return PackedSequences(ids[real][None], cu_seqlens, slots, max_seqlen, is_flash)


def _cu_seqlens(real: Bool[Tensor, "batch position"]) -> Int[Tensor, " sequences_and_end"]:
    return F.pad(real.sum(dim=1).cumsum(dim=0), (1, 0)).int()


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
    causal: dict[str, Any] = {"window_size": (-1, 0) if mask.is_causal else (-1, -1)}
    if "window_size" not in (varlen_attn.__kwdefaults__ or {}):  # PyTorch 2.10
        causal = {"is_causal": mask.is_causal}
    output = varlen_attn(query, key, value, q.cu_seqlens, k.cu_seqlens, q.max_seqlen, k.max_seqlen, **causal)
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
