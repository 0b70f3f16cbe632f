"""A Transformer trained with the toolkit `translate`, for Hugging Face transformers; this file needs nothing else.

    model = AutoModelForSeq2SeqLM.from_pretrained(FOLDER, trust_remote_code=True)

Tensors are (batch, position, d_model), and in attention (batch, heads, position, head_dim). Padding may be on either
side, because positions count visible tokens. The model does not return attention weights or hidden states.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.cache_utils import DynamicCache, EncoderDecoderCache
from transformers.generation import GenerationMixin
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput


def swiglu(inner: Tensor) -> Tensor:
    """SiLU of the first half, the gate, times the second half."""
    gate, inner = inner.chunk(2, dim=-1)
    return F.silu(gate) * inner


ACTIVATIONS: dict[str, tuple[Callable[[Tensor], Tensor], int]] = {  # with how much wider the inner layer is: 2 if gated
    "relu": (F.relu, 1),
    "gelu": (F.gelu, 1),
    "swish": (F.silu, 1),
    "swiglu": (swiglu, 2),
}


class TranslateConfig(PretrainedConfig):
    """The section `model` of a run's config, with the same names, and both sizes of the vocabulary."""

    model_type = "translate"
    attribute_map = {
        "hidden_size": "d_model",
        "num_attention_heads": "num_heads",
        "num_hidden_layers": "num_decoder_layers",  # of the cache
    }

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)


def sinusoids(positions: Tensor, width: int, *, last: int | None = None) -> tuple[Tensor, Tensor]:
    """Sines and cosines of p / 10000^(2i / last) for each position p, (batch, position, width / 2); last is width."""
    exact = torch.float32 if positions.device.type == "mps" else torch.float64  # far positions need float64
    wave = torch.arange(0, width, 2, dtype=exact, device=positions.device) / (last or width)
    angles = positions[..., None] * 10000.0**-wave
    return angles.sin().float(), angles.cos().float()


def rotate(heads: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
    """Turn each pair of neighbouring dimensions by its position's angle (rotary embeddings)."""
    sine, cosine = (part[:, None].to(heads.dtype) for part in angles)
    even, odd = heads[..., 0::2], heads[..., 1::2]
    return torch.stack((even * cosine - odd * sine, even * sine + odd * cosine), dim=-1).flatten(-2)


class TranslateAttention(nn.Module):
    """Multi-head attention. The cache holds keys and values of the source and of earlier target positions."""

    def __init__(self, config: TranslateConfig, layer: int) -> None:
        super().__init__()
        self.num_heads, self.layer, self.dropout = config.num_heads, layer, config.attention_dropout
        self.query, self.key, self.value, self.output_projection = (
            nn.Linear(config.d_model, config.d_model) for _ in range(4)
        )

    def forward(
        self,
        hidden: Tensor,
        memory: Tensor | None = None,  # the encoder's output; None: self-attention
        *,
        mask: Tensor,  # added to the scores
        angles: tuple[Tensor, Tensor] | None = None,
        cache: EncoderDecoderCache | None = None,
    ) -> Tensor:
        def split(projected: Tensor) -> Tensor:
            return projected.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

        query = split(self.query(hidden))
        if memory is not None and cache is not None and cache.is_updated.get(self.layer):
            stored = cache.cross_attention_cache.layers[self.layer]
            key, value = stored.keys, stored.values
        else:
            seen = hidden if memory is None else memory
            key, value = split(self.key(seen)), split(self.value(seen))
            if angles is not None:
                query, key = rotate(query, angles), rotate(key, angles)
            if cache is not None and memory is None:
                key, value = cache.self_attention_cache.update(key, value, self.layer)
            elif cache is not None:
                key, value = cache.cross_attention_cache.update(key, value, self.layer)
                cache.is_updated[self.layer] = True
        dropout = self.dropout if self.training else 0.0
        heads = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)
        return self.output_projection(heads.transpose(1, 2).flatten(2))


class TranslateFeedForward(nn.Module):
    """Two linear layers with an activation between them."""

    def __init__(self, config: TranslateConfig) -> None:
        super().__init__()
        self.activation, width = ACTIVATIONS[config.activation]
        self.inner = nn.Linear(config.d_model, config.d_ff * width)
        self.outer = nn.Linear(config.d_ff, config.d_model)
        self.dropout = nn.Dropout(config.activation_dropout)

    def forward(self, hidden: Tensor) -> Tensor:
        return self.outer(self.dropout(self.activation(self.inner(hidden))))


class TranslateLayer(nn.Module):
    """Self-attention, cross-attention in the decoder, and a feed-forward layer."""

    def __init__(self, config: TranslateConfig, layer: int, *, is_decoder: bool) -> None:
        super().__init__()
        self.is_pre_norm = config.norm == "pre"
        self.dropout = nn.Dropout(config.dropout)
        self.self_attention = TranslateAttention(config, layer)
        self.self_attention_norm = nn.LayerNorm(config.d_model, eps=config.norm_epsilon)
        if is_decoder:
            self.cross_attention = TranslateAttention(config, layer)
            self.cross_attention_norm = nn.LayerNorm(config.d_model, eps=config.norm_epsilon)
        self.feed_forward = TranslateFeedForward(config)
        self.feed_forward_norm = nn.LayerNorm(config.d_model, eps=config.norm_epsilon)

    def forward(self, hidden: Tensor, to_itself: dict[str, Any], to_memory: dict[str, Any] | None) -> Tensor:
        """The arguments after the first go to self-attention and cross-attention."""
        hidden = self._residual(hidden, self.self_attention_norm, partial(self.self_attention, **to_itself))
        if to_memory is not None:
            hidden = self._residual(hidden, self.cross_attention_norm, partial(self.cross_attention, **to_memory))
        return self._residual(hidden, self.feed_forward_norm, self.feed_forward)

    def _residual(self, hidden: Tensor, norm: nn.LayerNorm, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.is_pre_norm:
            return hidden + self.dropout(sublayer(norm(hidden)))
        return norm(hidden + self.dropout(sublayer(hidden)))


class TranslateStack(nn.Module):
    """The encoder or the decoder: embeddings with positions, and layers."""

    main_input_name = "input_ids"  # `generate` reads it from the encoder

    def __init__(self, config: TranslateConfig, vocab_size: int, num_layers: int, *, is_decoder: bool) -> None:
        super().__init__()
        self.config, self.is_decoder = config, is_decoder
        self.scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        self.tokens = nn.Embedding(vocab_size, config.d_model)
        if config.positions == "learned":
            self.positions = nn.Embedding(config.max_positions, config.d_model)
        elif config.positions == "relative":
            self.positions = nn.Embedding(config.relative_buckets, config.num_heads)
        norm = partial(nn.LayerNorm, config.d_model, config.norm_epsilon)
        self.embedding_norm = norm() if getattr(config, "embedding_norm", False) else nn.Identity()
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(
            TranslateLayer(config, number, is_decoder=is_decoder) for number in range(num_layers)
        )
        self.final_norm = norm() if config.norm == "pre" else nn.Identity()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,  # (batch, key), with earlier positions: 0 for padding; None: no padding
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: EncoderDecoderCache | None = None,
        **_: Any,
    ) -> BaseModelOutput:
        kind, length = self.config.positions, input_ids.shape[1]
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        key_positions = (attention_mask.long().cumsum(dim=1) - 1).clamp(min=0)
        positions = key_positions[:, -length:]
        hidden = self.tokens(input_ids) * self.scale
        if kind in ("sinusoidal", "fairseq"):  # fairseq begins with position 2
            width = self.config.d_model
            first, last = (0, width) if kind == "sinusoidal" else (2, max(width - 2, 1))
            sines_and_cosines = torch.stack(sinusoids(positions + first, width, last=last), dim=-1)
            hidden = hidden + sines_and_cosines.flatten(-2).to(hidden.dtype)
        elif kind == "learned":
            hidden = hidden + self.positions(positions)
        angles = sinusoids(positions, self.config.d_model // self.config.num_heads) if kind == "rotary" else None
        visible = attention_mask[:, None, None].bool()
        if self.is_decoder:  # no position sees a later one
            slots = torch.arange(attention_mask.shape[1], device=input_ids.device)
            visible = visible & (slots <= slots[-length:, None])
        mask = as_bias(visible, hidden.dtype)
        if kind == "relative":
            buckets = self._distance_buckets(key_positions[:, None, :] - positions[:, :, None])
            mask = mask + self.positions(buckets).permute(0, 3, 1, 2)
        to_itself, to_memory = {"mask": mask, "angles": angles, "cache": cache}, None
        if memory_mask is not None:
            memory_mask = as_bias(memory_mask[:, None, None].bool(), hidden.dtype)
            to_memory = {"memory": memory, "mask": memory_mask, "cache": cache}
        hidden = self.dropout(self.embedding_norm(hidden))
        for layer in self.layers:
            hidden = layer(hidden, to_itself, to_memory)
        return BaseModelOutput(last_hidden_state=self.final_norm(hidden))

    def _distance_buckets(self, distance: Tensor) -> Tensor:
        """T5's bucket of each distance, key position minus query position: exact when near, logarithmic when far."""
        num_buckets, first = self.config.relative_buckets, torch.zeros_like(distance)
        if self.is_decoder:
            distance = (-distance).clamp(min=0)
        else:
            num_buckets //= 2
            first, distance = torch.where(distance > 0, num_buckets, 0), distance.abs()
        num_exact = num_buckets // 2
        share = torch.log(distance.clamp(min=1) / num_exact) / math.log(self.config.relative_max_distance / num_exact)
        far = (num_exact + (share * (num_buckets - num_exact)).long()).clamp(max=num_buckets - 1)
        return first + torch.where(distance < num_exact, distance, far)


def as_bias(visible: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where a key is visible; elsewhere the lowest number, not -inf, because a row with only padding would be NaN."""
    return torch.zeros(visible.shape, dtype=dtype, device=visible.device).masked_fill(~visible, torch.finfo(dtype).min)


class TranslateForConditionalGeneration(PreTrainedModel, GenerationMixin):
    """The whole model: source ids and the target so far in, logits of each next target token out."""

    config_class = TranslateConfig
    main_input_name = "input_ids"
    _no_split_modules = ["TranslateLayer"]
    _supports_sdpa = True
    accepts_loss_kwargs = False  # the loss is a mean, which `Trainer` divides by the number of micro-batches

    def __init__(self, config: TranslateConfig) -> None:
        super().__init__(config)
        self.encoder = TranslateStack(config, config.source_vocab_size, config.num_encoder_layers, is_decoder=False)
        self.decoder = TranslateStack(config, config.vocab_size, config.num_decoder_layers, is_decoder=True)
        self.output = nn.Linear(config.d_model, config.vocab_size, bias=config.output_bias)
        owner = "encoder.tokens.weight" if config.tie_embeddings == "all" else "decoder.tokens.weight"
        tied = {"output.weight", "decoder.tokens.weight"} - {owner}
        self._tied_weights_keys = dict.fromkeys(tied, owner)  # used only if config.tie_word_embeddings
        self.post_init()

    def get_input_embeddings(self) -> nn.Embedding:
        return self.encoder.tokens

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        self.encoder.tokens = value

    def get_output_embeddings(self) -> nn.Linear:
        return self.output

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """The start symbol and all labels but the last; ignored labels (-100) become padding."""
        shifted = labels.roll(1, dims=1)
        shifted[:, 0] = self.config.decoder_start_token_id
        return shifted.masked_fill(shifted == -100, self.config.pad_token_id)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,  # None: everything except padding
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple[Tensor, ...] | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        labels: Tensor | None = None,  # the loss is computed where they are not -100
        use_cache: bool | None = None,
        **_: Any,
    ) -> Seq2SeqLMOutput:
        if attention_mask is None and input_ids is not None:
            attention_mask = input_ids != self.config.pad_token_id
        if encoder_outputs is None:
            encoder_outputs = self.encoder(input_ids, attention_mask)
        memory = encoder_outputs[0]
        if attention_mask is None:
            attention_mask = memory.new_ones(memory.shape[:2])
        if decoder_input_ids is None and labels is not None:
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        if decoder_input_ids is None:
            raise ValueError("give decoder_input_ids, or labels")
        if use_cache and past_key_values is None:
            past_key_values = EncoderDecoderCache(DynamicCache(), DynamicCache())
        if decoder_attention_mask is None:
            past = 0 if past_key_values is None else past_key_values.get_seq_length()
            decoder_attention_mask = memory.new_ones(len(decoder_input_ids), past + decoder_input_ids.shape[1])
        decoded = self.decoder(decoder_input_ids, decoder_attention_mask, memory, attention_mask, past_key_values)
        logits = self.output(decoded[0])
        return Seq2SeqLMOutput(
            loss=None if labels is None else F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten()),
            logits=logits,
            past_key_values=past_key_values,
            encoder_last_hidden_state=memory,
        )
