"""Maps our weights to their names in other formats, for exports and imports.

Marian and MarianMT have the sines of a position before its cosines; we alternate them. So every weight there has the
dimensions of the residual stream in another order, which changes no result.
"""

from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from translate.model import Transformer

WeightNames = Literal["marian_mt", "marian"]  # M2M100 and mBART have those of MarianMT

# Our modules in a layer: MarianMT's module, Marian's weight and bias, and the side that is the residual stream.
_LAYER: dict[str, tuple[str, str, str, Literal["input", "output"]]] = {
    "self_attention.query": ("self_attn.q_proj", "self_Wq", "self_bq", "input"),
    "self_attention.key": ("self_attn.k_proj", "self_Wk", "self_bk", "input"),
    "self_attention.value": ("self_attn.v_proj", "self_Wv", "self_bv", "input"),
    "self_attention.output_projection": ("self_attn.out_proj", "self_Wo", "self_bo", "output"),
    "self_attention_norm": ("self_attn_layer_norm", "self_Wo_ln_scale", "self_Wo_ln_bias", "output"),
    "cross_attention.query": ("encoder_attn.q_proj", "context_Wq", "context_bq", "input"),
    "cross_attention.key": ("encoder_attn.k_proj", "context_Wk", "context_bk", "input"),
    "cross_attention.value": ("encoder_attn.v_proj", "context_Wv", "context_bv", "input"),
    "cross_attention.output_projection": ("encoder_attn.out_proj", "context_Wo", "context_bo", "output"),
    "cross_attention_norm": ("encoder_attn_layer_norm", "context_Wo_ln_scale", "context_Wo_ln_bias", "output"),
    "feed_forward.inner": ("fc1", "ffn_W1", "ffn_b1", "input"),
    "feed_forward.outer": ("fc2", "ffn_W2", "ffn_b2", "output"),
    "feed_forward_norm": ("final_layer_norm", "ffn_ffn_ln_scale", "ffn_ffn_ln_bias", "output"),
}
_OUTSIDE_LAYERS: dict[str, dict[WeightNames, str]] = {
    "encoder.tokens.weight": {"marian_mt": "model.encoder.embed_tokens.weight", "marian": "encoder_Wemb"},
    "decoder.tokens.weight": {"marian_mt": "model.decoder.embed_tokens.weight", "marian": "decoder_Wemb"},
    "output.weight": {"marian_mt": "lm_head.weight", "marian": "decoder_ff_logit_out_Wt"},
    "output.bias": {"marian_mt": "final_logits_bias", "marian": "decoder_ff_logit_out_b"},
}
OUTPUT_BIAS = _OUTSIDE_LAYERS["output.bias"]
# More modules of a stack, which Marian's own files do not have: MarianMT's name, and the axis of the residual stream.
_OF_STACK = {
    "positions": ("embed_positions", 1),
    "embedding_norm": ("layernorm_embedding", 0),
    "final_norm": ("layer_norm", 0),
}
RESERVED_POSITIONS = 2
"""Rows at the beginning of mBART's table of positions that no token has; ours has no such rows."""


class Weight(NamedTuple):
    """A weight, or a part of one, that has its own name in another format."""

    tensor: Tensor  # a view: what is written into it is written into our model
    axis: int | None  # the axis of the residual stream, whose dimensions have another order there
    tokens: Literal["source", "target"] | None  # the side that has one row per token, if any


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
    """Our weights by the names of another format. A tied weight has several names."""
    weights: dict[str, Weight] = {}
    for ours, tensor in split_weights(model).items():
        stack, _, place = ours.partition(".layers.")
        if not place:
            side: Literal["source", "target"] = "source" if stack.startswith("encoder") else "target"
            if (module := ours.split(".")[1]) in _OF_STACK:
                theirs, axis = _OF_STACK[module]
                weights[f"model.{ours.replace(module, theirs)}"] = Weight(tensor, axis, None)
                continue
            weights[_OUTSIDE_LAYERS[ours][weight_names]] = Weight(tensor, None if ours == "output.bias" else 1, side)
            continue
        number, _, place = place.partition(".")
        module, _, kind = place.rpartition(".")
        marian_mt, weight, bias, stream = _LAYER[module]
        if weight_names == "marian_mt":
            name = f"model.{stack}.layers.{number}.{marian_mt}.{kind}"
        else:
            name = f"{stack}_l{int(number) + 1}_{bias if kind == 'bias' else weight}"
        weights[name] = Weight(tensor, 0 if stream == "output" else 1 if kind == "weight" else None, None)
    return weights


def sines_first(d_model: int) -> Tensor:
    """The dimensions of our residual stream in Marian's order: first the sines, then the cosines."""
    return torch.arange(d_model).view(-1, 2).t().flatten()


def marian_mt_weights(model: Transformer, rows: Tensor | None = None) -> dict[str, Tensor]:
    """Our weights by MarianMT's names, sines before cosines, with `rows` of our vocabulary in another order."""
    order = sines_first(model.config.d_model).to(model.device)
    weights = {}
    for name, (tensor, axis, tokens) in named_weights(model, "marian_mt").items():
        tensor = tensor if axis is None else tensor.index_select(axis, order)
        weights[name] = (tensor if rows is None or tokens is None else tensor[rows]).float().cpu()
    if model.config.tie_embeddings == "all":
        weights["model.shared.weight"] = weights["lm_head.weight"]
    if (bias := weights.get(OUTPUT_BIAS["marian_mt"])) is not None:
        weights[OUTPUT_BIAS["marian_mt"]] = bias[None]
    for name in [name for name in weights if name.endswith("embed_positions.weight")]:
        weights[name] = F.pad(weights[name], (0, 0, RESERVED_POSITIONS, 0))
    return weights
