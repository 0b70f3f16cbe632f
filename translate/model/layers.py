"""The two layers of the paper's figure 1: sub-layers, each inside an add-and-norm."""

from collections.abc import Callable
from typing import assert_never

import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from translate.config.schema import ModelConfig
from translate.model.attention import MultiHeadAttention, Projection
from translate.model.dropout import Dropout
from translate.model.kv_cache import LayerCache
from translate.model.varlen import VarlenMask


class FeedForward(nn.Module):
    """Two linear layers with a non-linearity between them, applied to each position separately.

    swiglu has a third matrix: silu(x · gate) · (x · inner); its two inner products are computed as one. geglu has GELU
    instead, by the approximation with tanh that T5 1.1 was trained with.

    Source: Vaswani et al. 2017, equation 2; GELU: https://arxiv.org/abs/1606.08415; swish, also called SiLU:
    Ramachandran et al. 2017, https://arxiv.org/abs/1710.05941; SwiGLU: Shazeer 2020, https://arxiv.org/abs/2002.05202,
    equation 6 (here with biases, unless the config has none).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.activation, self.is_gated = config.activation, config.is_gated
        width = config.d_ff * (2 if config.is_gated else 1)
        self.inner = Projection(config.d_model, width, bias=config.bias)  # rows: (gate,) inner
        self.outer = Projection(config.d_ff, config.d_model, bias=config.bias)
        self.dropout = Dropout(config.activation_dropout)

    def forward(self, hidden: Float[Tensor, "batch position d_model"]) -> Float[Tensor, "batch position d_model"]:
        inner = self.inner(hidden)
        match self.activation:
            case "relu":
                active = F.relu(inner)
            case "gelu":
                active = F.gelu(inner)
            case "swish":
                active = F.silu(inner)
            case "swiglu":
                gate, inner = inner.chunk(2, dim=-1)
                active = F.silu(gate) * inner
            case "geglu":
                gate, inner = inner.chunk(2, dim=-1)
                active = F.gelu(gate, approximate="tanh") * inner
            case _:
                assert_never(self.activation)
        return self.outer(self.dropout(active))


def build_norm(config: ModelConfig) -> nn.LayerNorm | nn.RMSNorm:
    """Layer normalisation, or RMSNorm (Zhang and Sennrich 2019, https://arxiv.org/abs/1910.07467)."""
    match config.norm_kind:
        case "layer":
            return nn.LayerNorm(config.d_model, eps=config.norm_epsilon, bias=config.bias)
        case "rms":
            return nn.RMSNorm(config.d_model, eps=config.norm_epsilon)
        case _:
            assert_never(config.norm_kind)


class AddAndNorm(nn.Module):
    """A residual connection around a sub-layer, with normalisation after the sum (post) or before it all (pre).

    Source: Vaswani et al. 2017, section 3.1 (post); Xiong et al. 2020, https://arxiv.org/abs/2002.04745 (pre).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.placement = config.norm
        self.norm = build_norm(config)
        self.dropout = Dropout(config.dropout)

    def forward(
        self,
        hidden: Float[Tensor, "batch position d_model"],
        sublayer: Callable[[Float[Tensor, "batch position d_model"]], Float[Tensor, "batch position d_model"]],
    ) -> Float[Tensor, "batch position d_model"]:
        match self.placement:
            case "pre":
                return hidden + self.dropout(sublayer(self.norm(hidden)))
            case "post":
                return self.norm(hidden + self.dropout(sublayer(hidden)))
            case _:
                assert_never(self.placement)


class EncoderLayer(nn.Module):
    """Self-attention over the source, then a feed-forward layer."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = _build_attention(config)
        self.self_attention_add_and_norm = AddAndNorm(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_add_and_norm = AddAndNorm(config)

    def forward(
        self,
        hidden: Float[Tensor, "batch source d_model"],
        *,
        visible: Bool[Tensor, "batch 1 1 source"] | VarlenMask,
        rotary: Float[Tensor, "..."] | None,
        bias: Float[Tensor, "heads query key"] | None,
    ) -> Float[Tensor, "batch source d_model"]:
        hidden = self.self_attention_add_and_norm(
            hidden, lambda x: self.self_attention(x, visible=visible, rotary=rotary, bias=bias)
        )
        return self.feed_forward_add_and_norm(hidden, self.feed_forward)


class DecoderLayer(nn.Module):
    """Self-attention over the target so far, attention to the encoder's output, then a feed-forward layer."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = _build_attention(config)
        self.self_attention_add_and_norm = AddAndNorm(config)
        self.cross_attention = _build_attention(config)
        self.cross_attention_add_and_norm = AddAndNorm(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_add_and_norm = AddAndNorm(config)

    def forward(
        self,
        hidden: Float[Tensor, "batch target d_model"],
        memory: Float[Tensor, "batch source d_model"],
        *,
        target_visible: Bool[Tensor, "batch 1 target target"] | VarlenMask,
        memory_visible: Bool[Tensor, "batch 1 1 source"] | VarlenMask,
        rotary: Float[Tensor, "..."] | None,
        bias: Float[Tensor, "heads query key"] | None,
    ) -> Float[Tensor, "batch target d_model"]:
        hidden = self.self_attention_add_and_norm(
            hidden, lambda x: self.self_attention(x, visible=target_visible, rotary=rotary, bias=bias)
        )
        hidden = self.cross_attention_add_and_norm(
            hidden, lambda x: self.cross_attention(x, memory, visible=memory_visible)
        )
        return self.feed_forward_add_and_norm(hidden, self.feed_forward)

    def step(
        self,
        hidden: Float[Tensor, "batch beam d_model"],
        cache: LayerCache,
        *,
        past_bias: Float[Tensor, "batch #heads beam slots"],
        memory_bias: Float[Tensor, "batch 1 1 source"],
        rotary: Float[Tensor, "..."] | None,
    ) -> Float[Tensor, "batch beam d_model"]:
        """One more target position of each hypothesis; its keys and values are written into the cache.

        Args:
            past_bias: 0 for the cache slots that a hypothesis sees, -inf for the others; plus the positions' bias.
        """

        def attend_to_target(x: Tensor) -> Tensor:
            query, new = self.self_attention.project_query_key_value(x, rotary=rotary)
            return self.self_attention.attend(query, cache.extend_past(new, end=past_bias.shape[3]), bias=past_bias)

        def attend_to_memory(x: Tensor) -> Tensor:
            query = self.cross_attention.project_query(x)
            memory = cache.memory.map(lambda source: source[:, :, : memory_bias.shape[3]])  # without padding for all
            return self.cross_attention.attend(query, memory, bias=memory_bias)

        hidden = self.self_attention_add_and_norm(hidden, attend_to_target)
        hidden = self.cross_attention_add_and_norm(hidden, attend_to_memory)
        return self.feed_forward_add_and_norm(hidden, self.feed_forward)


def _build_attention(config: ModelConfig) -> MultiHeadAttention:
    return MultiHeadAttention(
        d_model=config.d_model,
        num_heads=config.num_heads,
        head_dim=config.head_dim,
        bias=config.bias,
        dropout=config.attention_dropout,
    )
