"""Scaled dot-product attention, and multi-head attention with one fused projection."""

import math
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from translate.model.device import is_asynchronous
from translate.model.dropout import Dropout
from translate.model.positions import rotate
from translate.model.varlen import VarlenMask, flash_attention


class KeyValue(NamedTuple):
    """Keys and values, split into heads."""

    key: Float[Tensor, "batch heads key head_dim"]
    value: Float[Tensor, "batch heads key head_dim"]

    def map(self, function: Callable[[Tensor], Tensor]) -> "KeyValue":
        """Keys and values with a function applied to both."""
        return KeyValue(function(self.key), function(self.value))


class AttentionOutput(NamedTuple):
    """The output of attention and its weights."""

    output: Float[Tensor, "*batch query value_dim"]
    weights: Float[Tensor, "*batch query key"]  # before dropout; rows sum to one, and invisible keys have exactly zero


def scaled_dot_product_attention(
    query: Float[Tensor, "*batch query head_dim"],
    key: Float[Tensor, "*batch key head_dim"],
    value: Float[Tensor, "*batch key value_dim"],
    *,
    visible: Bool[Tensor, "..."] | None = None,
    bias: Float[Tensor, "..."] | None = None,
    dropout: Callable[[Tensor], Tensor] | None = None,
) -> AttentionOutput:
    """softmax(query · keyᵀ / sqrt(head_dim) + bias) · value, over the visible keys.

    Args:
        visible: The keys that each query may see, at least one; broadcastable to (*batch, query, key). None: all keys.
        bias: Numbers to add to the scores; broadcastable to (*batch, query, key).

    Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, equation 1.
    """
    scores = (query / math.sqrt(query.shape[-1])) @ key.transpose(-2, -1)
    if bias is not None:
        scores = scores + bias
    if visible is not None:
        scores = scores.masked_fill(~visible, -math.inf)
    weights = scores.softmax(dim=-1)
    return AttentionOutput((weights if dropout is None else dropout(weights)) @ value, weights)


class Projection(nn.Linear):
    """A linear layer whose outputs can also be computed in part."""

    def rows(self, hidden: Float[Tensor, "*batch features"], rows: slice) -> Float[Tensor, "*batch outputs"]:
        """Some of the outputs of `forward`."""
        return F.linear(hidden, self.weight[rows], None if self.bias is None else self.bias[rows])

    def split(self, *inputs: Float[Tensor, "..."], sizes: Sequence[int]) -> list[Float[Tensor, "..."]]:
        """The outputs of `forward` in parts of these sizes, each computed from an input of its own.

        The backward pass joins the gradients of the parts; it would fill up each gradient of `rows` with zeros.
        """
        biases = [None] * len(sizes) if self.bias is None else self.bias.split(sizes)
        return [F.linear(*part) for part in zip(inputs, self.weight.split(sizes), biases, strict=True)]


class MultiHeadAttention(nn.Module):
    """Attention in several subspaces at once, their results projected back together.

    One matrix holds the three input projections, so self-attention needs a single product. The module
    `weights_dropout` is called with the attention weights: a forward hook on it sees exactly what the model used.

    Args:
        head_dim: The width of each head; None: d_model / num_heads.
        bias: Whether the projections have biases.

    Raises:
        ValueError: There is no `head_dim`, and `num_heads` does not divide `d_model`.

    Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 3.2.2.
    """

    def __init__(
        self, *, d_model: int, num_heads: int, head_dim: int | None = None, bias: bool = True, dropout: float = 0.0
    ) -> None:
        super().__init__()
        if head_dim is None and d_model % num_heads:
            raise ValueError(f"num_heads = {num_heads} must divide d_model = {d_model}")
        self.num_heads = num_heads
        self.width = num_heads * (head_dim or d_model // num_heads)  # of all heads
        self.input_projection = Projection(d_model, 3 * self.width, bias=bias)  # rows: query, key, value
        self.output_projection = Projection(self.width, d_model, bias=bias)
        self.weights_dropout = Dropout(dropout)

    def project_query_key_value(
        self, hidden: Float[Tensor, "batch query d_model"], *, rotary: Float[Tensor, "..."] | None = None
    ) -> tuple[Float[Tensor, "batch heads query head_dim"], KeyValue]:
        """Queries, keys and values of self-attention, in one product."""
        projected = self.input_projection(hidden).unflatten(-1, (3, self.num_heads, -1))
        if rotary is None:
            query, key, value = (heads.transpose(1, 2) for heads in projected.unbind(2))
            return query, KeyValue(key, value)
        query_and_key, value = projected.split((2, 1), dim=2)
        query, key = rotate(query_and_key.permute(2, 0, 3, 1, 4), rotary)
        return query, KeyValue(key, value.squeeze(2).transpose(1, 2))

    def project_query(
        self, hidden: Float[Tensor, "batch query d_model"]
    ) -> Float[Tensor, "batch heads query head_dim"]:
        """Queries of cross-attention."""
        return self._split_query(self.input_projection.rows(hidden, slice(0, self.width)))

    def project_key_value(self, memory: Float[Tensor, "batch key d_model"]) -> KeyValue:
        """Keys and values of cross-attention: the encoder's output, projected once per sentence when decoding."""
        return self._split_key_value(self.input_projection.rows(memory, slice(self.width, None)))

    def _split_query(self, projected: Tensor) -> Tensor:
        return projected.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def _split_key_value(self, projected: Tensor) -> KeyValue:
        return KeyValue(*projected.unflatten(-1, (2, self.num_heads, -1)).unbind(2)).map(lambda x: x.transpose(1, 2))

    def attend(
        self,
        query: Float[Tensor, "batch heads query head_dim"],
        key_value: KeyValue,
        *,
        visible: Bool[Tensor, "..."] | VarlenMask | None = None,
        bias: Float[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "batch query d_model"]:
        """Attention in each head; the heads' outputs joined and projected."""
        if not isinstance(visible, VarlenMask):
            output = self._attend(query, key_value, visible=visible, bias=bias)
        elif visible.query.is_flash:
            assert bias is None  # the kernel adds none
            output = flash_attention(query, *key_value, mask=visible)
        else:
            padded_query, padded_keys = visible.query.pad(query), key_value.map(visible.key.pad)
            padded = self._attend(padded_query, padded_keys, visible=visible.padded, bias=bias)
            output = visible.query.unpad(padded)
        return self.output_projection(output.transpose(1, 2).flatten(2))

    def _attend(self, query: Tensor, key_value: KeyValue, *, visible: Tensor | None, bias: Tensor | None) -> Tensor:
        """Attention by torch's fused kernel, unless a hook wants the weights.

        On a CPU gradients are computed without it: sentences are short, and for them two products with a softmax
        between are faster.
        """
        wants_gradients = self.training or torch.is_grad_enabled()
        if self._has_hook() or (wants_gradients and not is_asynchronous(query.device)):
            return scaled_dot_product_attention(
                query, *key_value, visible=visible, bias=bias, dropout=self.weights_dropout
            ).output
        mask = visible if bias is None else bias if visible is None else bias.masked_fill(~visible, -math.inf)
        dropout = self.weights_dropout.p if self.training else 0.0
        return F.scaled_dot_product_attention(query, *key_value, attn_mask=mask, dropout_p=dropout)

    def _has_hook(self) -> bool:
        """Whether a hook wants the weights; one with a `thread` wants those of this thread alone."""
        hooks = self.weights_dropout._forward_hooks
        if not hooks:
            return False
        here = threading.get_ident()
        return any(getattr(hook, "thread", here) == here for hook in tuple(hooks.values()))

    def forward(
        self,
        hidden: Float[Tensor, "batch query d_model"],
        memory: Float[Tensor, "batch key d_model"] | None = None,
        *,
        visible: Bool[Tensor, "..."] | VarlenMask | None = None,
        rotary: Float[Tensor, "..."] | None = None,
        bias: Float[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "batch query d_model"]:
        """Self-attention, or cross-attention when there is a `memory`.

        Args:
            visible: The keys that each query may see, broadcastable to (batch, heads, query, key), as `bias` is; or the
                mask of packed sequences.
            rotary: Angles by which self-attention turns queries and keys, from `Positions.rotary`.
        """
        if memory is None:
            query, key_value = self.project_query_key_value(hidden, rotary=rotary)
        else:
            sizes = self.width, 2 * self.width
            for_query, for_key_value = self.input_projection.split(hidden, memory, sizes=sizes)
            query, key_value = self._split_query(for_query), self._split_key_value(for_key_value)
        return self.attend(query, key_value, visible=visible, bias=bias)
