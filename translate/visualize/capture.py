"""What every attention head of a model does with one pair: its weights, and the queries and keys behind them."""

import contextlib
import math
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from translate.data.batching import EncodedPair, collate
from translate.model import Transformer, log_probabilities
from translate.model.attention import MultiHeadAttention
from translate.model.layers import DecoderLayer, EncoderLayer
from translate.model.positions import RotaryAngles

AttentionKind = Literal["encoder", "decoder", "cross"]
KINDS: tuple[AttentionKind, ...] = ("encoder", "decoder", "cross")


class LayerAttention(NamedTuple):
    """One attention of one layer, as the model computed it for one pair."""

    kind: AttentionKind  # encoder and decoder: their self-attention
    layer: int  # counted from 0
    weights: Float[Tensor, "heads query key"]  # rows sum to one, invisible cells are exactly zero
    visible: Bool[Tensor, "query key"]
    query: Float[Tensor, "heads query head_dim"]  # turned by rotary positions, if the model has them
    key: Float[Tensor, "heads key head_dim"]  # likewise
    scores: Float[Tensor, "heads query key"]  # what the softmax is of, before the mask
    position_scores: Float[Tensor, "heads query key"] | None  # the part of `scores` that relating positions adds

    @property
    def name(self) -> str:
        """Such as `cross-attention, layer 0`."""
        return f"{describe_kind(self.kind)}, layer {self.layer}"


class Captured(NamedTuple):
    """A pair under the model."""

    layers: list[LayerAttention]  # encoder, decoder, cross; each from the first layer to the last
    token_log_probs: list[float]  # nats, of each target token and of the end symbol


def describe_kind(kind: AttentionKind) -> str:
    """The name that readers know an attention by."""
    return {
        "encoder": "encoder self-attention",
        "decoder": "decoder self-attention",
        "cross": "cross-attention",
    }[kind]


def capture_attention(model: Transformer, pair: EncodedPair) -> Captured:
    """Run the full forward pass over one pair, and keep what each head did.

    The weights are those that the model multiplied its values with, seen by a hook; nothing is computed again but
    queries and keys, by the model's own projections of the very inputs that the attention was given.

    Args:
        model: In evaluation mode.
        pair: Ids without special symbols.
    """
    batch = collate([pair], [0]).to(model.device)
    with torch.inference_mode(), _watched(model) as seen:
        log_probs = log_probabilities(model(batch.source_ids, batch.target_input_ids))
        layers = [_layer_attention(each) for each in seen.values()]
    chosen = log_probs[0].gather(1, batch.target_output_ids[0, :, None])[:, 0]
    layers.sort(key=lambda each: (KINDS.index(each.kind), each.layer))
    return Captured(layers, chosen.tolist())


class _Watched:
    """What passed by one attention: what it was called with, and the weights that it used."""

    def __init__(self, kind: AttentionKind, layer: int, attention: MultiHeadAttention) -> None:
        self.kind = kind
        self.layer = layer
        self.attention = attention
        self.hidden: Tensor
        self.memory: Tensor | None = None
        self.visible: Tensor
        self.rotary: RotaryAngles | None = None
        self.bias: Tensor | None = None
        self.weights: Tensor

    def see_call(self, module: nn.Module, inputs: tuple[Tensor, ...], keywords: dict[str, Any]) -> None:
        self.hidden, self.memory = inputs if len(inputs) == 2 else (inputs[0], None)
        self.visible = keywords["visible"]
        self.rotary, self.bias = keywords.get("rotary"), keywords.get("bias")

    def see_weights(self, module: nn.Module, inputs: object, weights: Tensor) -> None:
        self.weights = weights


@contextlib.contextmanager
def _watched(model: Transformer) -> Iterator[dict[str, _Watched]]:
    """Within the context, each attention's last call is kept under its name."""
    seen: dict[str, _Watched] = {}
    for number, layer in enumerate(model.encoder.layers):
        assert isinstance(layer, EncoderLayer)
        seen[f"encoder {number}"] = _Watched("encoder", number, layer.self_attention)
    for number, layer in enumerate(model.decoder.layers):
        assert isinstance(layer, DecoderLayer)
        seen[f"decoder {number}"] = _Watched("decoder", number, layer.self_attention)
        seen[f"cross {number}"] = _Watched("cross", number, layer.cross_attention)
    with contextlib.ExitStack() as stack:
        for each in seen.values():
            attention = each.attention
            stack.callback(attention.register_forward_pre_hook(each.see_call, with_kwargs=True).remove)
            stack.callback(attention.weights_dropout.register_forward_hook(each.see_weights).remove)
        yield seen


def _layer_attention(seen: _Watched) -> LayerAttention:
    attention, (_, _, num_queries, num_keys) = seen.attention, seen.weights.shape
    query, key = _query_and_key(seen, seen.rotary)
    scores = _scores(query, key, seen.bias)
    position_scores = None
    if seen.rotary is not None or seen.bias is not None:
        position_scores = scores - _scores(*_query_and_key(seen, None), None)
    assert query.shape[0] == attention.num_heads
    return LayerAttention(
        kind=seen.kind,
        layer=seen.layer,
        weights=seen.weights[0].float().cpu(),
        visible=seen.visible.expand(1, 1, num_queries, num_keys)[0, 0].cpu(),
        query=query.cpu(),
        key=key.cpu(),
        scores=scores.cpu(),
        position_scores=None if position_scores is None else position_scores.cpu(),
    )


def _query_and_key(seen: _Watched, rotary: RotaryAngles | None) -> tuple[Tensor, Tensor]:
    """The queries and keys of each head, (heads, position, head_dim)."""
    if seen.memory is None:
        query, key_value = seen.attention.project_query_key_value(seen.hidden, rotary=rotary)
    else:
        query, key_value = seen.attention.project_query(seen.hidden), seen.attention.project_key_value(seen.memory)
    return query[0].float(), key_value.key[0].float()


def _scores(query: Tensor, key: Tensor, bias: Tensor | None) -> Tensor:
    scores = query @ key.transpose(1, 2) / math.sqrt(query.shape[-1])
    return scores if bias is None else scores + bias.float()
