"""Sequences of several lengths one after another in a row, without padding, and attention that stays within each.

Linear layers and norms see each token by itself, so a row serves them as it is. Attention alone must know where a
sequence begins. Flash attention for variable lengths is told so; where there is none, attention pads for itself.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from translate.model.masks import no_peek_visible


class Sequences(NamedTuple):
    """Where the sequences of a row lie."""

    starts: Int[Tensor, " sequences_and_end"]  # int32; of each sequence, and the number of all tokens at the end
    cells: Int[Tensor, " token"]  # where each token stands in the grid (sequences, longest), flattened
    longest: int  # tokens

    @property
    def num_sequences(self) -> int:
        """Sequences in the row."""
        return len(self.starts) - 1

    @property
    def positions(self) -> Int[Tensor, " token"]:
        """Of each token in its own sequence."""
        return self.cells % self.longest

    def grid(self, heads: Float[Tensor, "1 heads token head_dim"]) -> Float[Tensor, "sequence heads longest head_dim"]:
        """A sequence a row, zeros after its end."""
        _, num_heads, _, head_dim = heads.shape
        empty = heads.new_zeros(self.num_sequences * self.longest, num_heads, head_dim)
        filled = empty.index_copy(0, self.cells, heads[0].transpose(0, 1))
        return filled.unflatten(0, (self.num_sequences, self.longest)).transpose(1, 2)

    def row(self, grid: Float[Tensor, "sequence heads longest head_dim"]) -> Float[Tensor, "1 heads token head_dim"]:
        """The tokens of such a grid, one after another."""
        return grid.transpose(1, 2).flatten(0, 1).index_select(0, self.cells).transpose(0, 1)[None]


class Spans(NamedTuple):
    """What `visible` says, of rows without padding: the queries of a sequence see the keys of the same sequence."""

    query: Sequences
    key: Sequences
    no_peek: bool  # a query sees no later key
    is_flash: bool  # by flash attention for variable lengths; see `flash_refusal`

    def visible(self) -> Bool[Tensor, "sequence 1 #query key"]:
        """The same as a mask on the grids of queries and keys, where each sequence has its row."""
        lengths = self.key.starts.diff()
        keys = torch.arange(self.key.longest, device=lengths.device)
        real = (keys < lengths[:, None])[:, None, None, :]
        return real & no_peek_visible(self.key.longest, device=lengths.device) if self.no_peek else real


def flash_attention(
    query: Float[Tensor, "1 heads query head_dim"],
    key: Float[Tensor, "1 heads key head_dim"],
    value: Float[Tensor, "1 heads key head_dim"],
    *,
    spans: Spans,
) -> Float[Tensor, "1 heads query head_dim"]:
    """Scaled dot-product attention within each sequence, in bf16 or fp16 on CUDA.

    Source: Dao 2023, https://arxiv.org/abs/2307.08691; variable lengths as in its program.
    """
    from torch.nn.attention.varlen import varlen_attn  # takes seconds, and older versions have none

    output = varlen_attn(
        query[0].transpose(0, 1),
        key[0].transpose(0, 1),
        value[0].transpose(0, 1),
        spans.query.starts,
        spans.key.starts,
        spans.query.longest,
        spans.key.longest,
        window_size=(-1, 0) if spans.no_peek else (-1, -1),
    )
    assert isinstance(output, Tensor)
    return output.transpose(0, 1)[None]


def flash_refusal(device: torch.device, *, dtype: torch.dtype, num_heads: int, head_dim: int) -> str | None:
    """Why flash attention for variable lengths does not serve here; None: it does.

    Builds, drivers and GPUs differ, and nothing tells all that matters: so it is tried on two short sequences, forward
    and backward, and compared with attention that is known to be right.
    """
    cells = torch.tensor([*range(5), *range(7, 14)], device=device)
    sequences = Sequences(torch.tensor([0, 5, 12], dtype=torch.int32, device=device), cells, 7)
    generator = torch.Generator(device).manual_seed(1)
    drawn = torch.randn(4, 1, num_heads, 12, head_dim, device=device, dtype=dtype, generator=generator)
    *heads, direction = drawn.unbind()
    for no_peek in (False, True):
        spans = Spans(sequences, sequences, no_peek=no_peek, is_flash=True)
        known = _with_gradients(_grid_attention, [each.float() for each in heads], direction.float(), spans)
        try:
            flash = _with_gradients(flash_attention, heads, direction, spans)
            differences = [float((mine.float() - right).abs().max()) for mine, right in zip(flash, known, strict=True)]
        except ImportError:
            return f"torch {torch.__version__} has none"
        except (RuntimeError, TypeError, ValueError) as error:
            return f"it fails: {str(error).splitlines()[0]}"
        if not max(differences) < 0.1:
            return "its results are not those of plain attention"
    return None


def _grid_attention(query: Tensor, key: Tensor, value: Tensor, *, spans: Spans) -> Tensor:
    grids = spans.query.grid(query), spans.key.grid(key), spans.key.grid(value)
    return spans.query.row(F.scaled_dot_product_attention(*grids, attn_mask=spans.visible()))


def _with_gradients(
    attention: Callable[..., Tensor], heads: Sequence[Tensor], direction: Tensor, spans: Spans
) -> list[Tensor]:
    leaves = [each.detach().requires_grad_() for each in heads]
    output = attention(*leaves, spans=spans)
    return [output.detach(), *torch.autograd.grad(output, leaves, direction)]
