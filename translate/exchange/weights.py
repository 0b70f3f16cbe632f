"""Maps our weights to their names in other formats, for exports and imports.

Marian and MarianMT have the sines of a position before its cosines; we alternate them. So every weight there has the
dimensions of the residual stream in another order, which changes no result.
"""

import math
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from translate.decoding.counterparts import Format
from translate.model import Transformer

WeightNames = Literal["marian_mt", "marian", "t5"]
WEIGHT_NAMES: dict[Format, WeightNames] = {
    "marian_mt": "marian_mt", "m2m_100": "marian_mt", "mbart": "marian_mt", "t5": "t5",
}  # fmt: skip
"""The names of weights in each format of transformers."""

# Our modules in a layer: MarianMT's module; Marian's weight, whose name also gives that of the bias; the side that is
# the residual stream; and T5's module, where {} is the number of the feed-forward layer. There a gate and what it
# multiplies have the suffixes _0 and _1.
_LAYER: dict[str, tuple[str, str, Literal["input", "output"], str]] = {
    "self_attention.query": ("self_attn.q_proj", "self_Wq", "input", "layer.0.SelfAttention.q"),
    "self_attention.key": ("self_attn.k_proj", "self_Wk", "input", "layer.0.SelfAttention.k"),
    "self_attention.value": ("self_attn.v_proj", "self_Wv", "input", "layer.0.SelfAttention.v"),
    "self_attention.output_projection": ("self_attn.out_proj", "self_Wo", "output", "layer.0.SelfAttention.o"),
    "self_attention_norm": ("self_attn_layer_norm", "self_Wo_ln_scale", "output", "layer.0.layer_norm"),
    "cross_attention.query": ("encoder_attn.q_proj", "context_Wq", "input", "layer.1.EncDecAttention.q"),
    "cross_attention.key": ("encoder_attn.k_proj", "context_Wk", "input", "layer.1.EncDecAttention.k"),
    "cross_attention.value": ("encoder_attn.v_proj", "context_Wv", "input", "layer.1.EncDecAttention.v"),
    "cross_attention.output_projection": ("encoder_attn.out_proj", "context_Wo", "output", "layer.1.EncDecAttention.o"),
    "cross_attention_norm": ("encoder_attn_layer_norm", "context_Wo_ln_scale", "output", "layer.1.layer_norm"),
    "feed_forward.inner": ("fc1", "ffn_W1", "input", "layer.{}.DenseReluDense.wi"),
    "feed_forward.outer": ("fc2", "ffn_W2", "output", "layer.{}.DenseReluDense.wo"),
    "feed_forward_norm": ("final_layer_norm", "ffn_ffn_ln_scale", "output", "layer.{}.layer_norm"),
}
OUTPUT_BIAS = "final_logits_bias"
"""The name of the output's bias in each format; Marian's own name of it is replaced when its files are read."""
_OUTSIDE_LAYERS: dict[str, dict[WeightNames, str]] = {
    "encoder.tokens.weight": {
        "marian_mt": "model.encoder.embed_tokens.weight", "marian": "encoder_Wemb", "t5": "shared.weight",
    },
    "decoder.tokens.weight": {
        "marian_mt": "model.decoder.embed_tokens.weight", "marian": "decoder_Wemb", "t5": "shared.weight",
    },
    "output.weight": {"marian_mt": "lm_head.weight", "marian": "decoder_ff_logit_out_Wt", "t5": "lm_head.weight"},
    "output.bias": dict.fromkeys(("marian_mt", "marian", "t5"), OUTPUT_BIAS),
}  # fmt: skip
# More modules of a stack, which Marian's own files do not have: MarianMT's name, the axis of the residual stream, and
# T5's name.
_OF_STACK = {
    "positions": ("embed_positions", 1, "block.0.layer.0.SelfAttention.relative_attention_bias"),
    "embedding_norm": ("layernorm_embedding", 0, ""),
    "final_norm": ("layer_norm", 0, "final_layer_norm"),
}
RESERVED_POSITIONS = 2
"""Rows at the beginning of mBART's table of positions that no token has; ours has no such rows."""


class Weight(NamedTuple):
    """A weight, or a part of one, that has its own name in another format."""

    tensor: Tensor  # a view: what is written into it is written into our model
    axis: int | None  # the axis of the residual stream, whose dimensions have another order there
    tokens: Literal["source", "target"] | None  # the side that has one row per token, if any
    scale: float = 1.0  # ours is theirs times this


def split_weights(model: Transformer) -> dict[str, Tensor]:
    """Views of our weights by the names in the modelling file, where query, key and value are separate layers."""
    weights: dict[str, Tensor] = {}
    for name, tensor in model.state_dict().items():
        name = name.replace("embedder.", "").replace("positions.table", "positions.weight")
        name = name.replace("_add_and_norm.norm", "_norm")
        is_fused = "input_projection" in name
        parts = zip(("query", "key", "value"), tensor.chunk(3), strict=True) if is_fused else [(name, tensor)]
        weights |= {name.replace("input_projection", part): rows for part, rows in parts}
    return weights


def named_weights(model: Transformer, weight_names: WeightNames) -> dict[str, Weight]:
    """Our weights by the names of another format. A tied weight has several names.

    T5's attention does not divide by the square root of the width of a head, so our queries are as much larger.
    """
    weights: dict[str, Weight] = {}
    head_dim, is_t5 = model.config.attention_dim // model.config.num_heads, weight_names == "t5"
    for ours, tensor in split_weights(model).items():
        stack, _, place = ours.partition(".layers.")
        if not place:
            side: Literal["source", "target"] = "source" if stack.startswith("encoder") else "target"
            if (module := ours.split(".")[1]) in _OF_STACK:
                theirs, axis, in_t5 = _OF_STACK[module]
                name = ours.replace(module, in_t5) if is_t5 else f"model.{ours.replace(module, theirs)}"
                weights[name] = Weight(tensor, None if is_t5 else axis, None)
                continue
            axis_of_tokens = None if is_t5 or ours == "output.bias" else 1
            weights[_OUTSIDE_LAYERS[ours][weight_names]] = Weight(tensor, axis_of_tokens, side)
            continue
        number, _, place = place.partition(".")
        module, _, kind = place.rpartition(".")
        marian_mt, marian, stream, t5 = _LAYER[module]
        if is_t5:
            name = f"{stack}.block.{number}.{t5.format(1 if stack == 'encoder' else 2)}"
            suffixes = ("_0", "_1") if module == "feed_forward.inner" and model.config.is_gated else ("",)
            scale = math.sqrt(head_dim) if module.endswith("query") else 1.0
            parts = zip(suffixes, tensor.chunk(len(suffixes)), strict=True)
            weights |= {f"{name}{suffix}.weight": Weight(part, None, None, scale) for suffix, part in parts}
            continue
        if weight_names == "marian_mt":
            name = f"model.{stack}.layers.{number}.{marian_mt}.{kind}"
        else:
            bias = marian.replace("scale", "bias") if "scale" in marian else marian.replace("W", "b")
            name = f"{stack}_l{int(number) + 1}_{bias if kind == 'bias' else marian}"
        weights[name] = Weight(tensor, 0 if stream == "output" else 1 if kind == "weight" else None, None)
    return weights


def sines_first(d_model: int) -> Tensor:
    """The dimensions of our residual stream in Marian's order: first the sines, then the cosines."""
    return torch.arange(d_model).view(-1, 2).t().flatten()


def foreign_weights(model: Transformer, weight_names: WeightNames, rows: Tensor | None = None) -> dict[str, Tensor]:
    """Our weights by the names in transformers and in its layout, with `rows` of our vocabulary in another order."""
    weights = {}
    for name, (tensor, axis, tokens, scale) in named_weights(model, weight_names).items():
        if axis is not None:
            tensor = tensor.index_select(axis, sines_first(tensor.shape[axis]).to(tensor.device))
        tensor = tensor if rows is None or tokens is None else tensor[rows]
        weights[name] = (tensor if scale == 1.0 else tensor / scale).float().cpu()
    if weight_names == "marian_mt" and model.config.tie_embeddings == "all":
        weights["model.shared.weight"] = weights["lm_head.weight"]
    if (bias := weights.get(OUTPUT_BIAS)) is not None:
        weights[OUTPUT_BIAS] = bias[None]
    for name in [name for name in weights if name.endswith("embed_positions.weight")]:
        weights[name] = F.pad(weights[name], (0, 0, RESERVED_POSITIONS, 0))
    return weights
