"""Forced decoding: what the model thinks of given translations, by its full forward pass, and where it looks."""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from translate.data.batching import EncodedPair, batch_by_tokens, collate
from translate.model import Transformer, log_probabilities
from translate.model.layers import DecoderLayer

_POSITIONS = 512  # whose logits are in memory at once


@contextlib.contextmanager
def watched_attention(model: Transformer, *, layer: int) -> Iterator[list[Float[Tensor, "batch heads query source"]]]:
    """Within the context, each of this thread's calls adds the cross-attention weights of a decoder layer to the list.

    Args:
        layer: Counted as Python does.
    """
    decoder_layer = model.decoder.layers[layer]
    assert isinstance(decoder_layer, DecoderLayer)
    thread = threading.get_ident()
    seen: list[Tensor] = []

    def watch(module: nn.Module, inputs: object, weights: Tensor) -> None:
        if threading.get_ident() == thread:
            seen.append(weights)

    handle = decoder_layer.cross_attention.weights_dropout.register_forward_hook(watch)
    try:
        yield seen
    finally:
        handle.remove()


class Forced(NamedTuple):
    """One pair under the model; the last row, and the last column of the attention, are those of the end symbols."""

    token_log_probs: list[float]  # nats
    attention: Float[Tensor, "target source"]  # cross-attention of one layer, the mean over its heads


def force_decode(
    model: Transformer, pairs: Sequence[EncodedPair], *, max_tokens: int, attention_layer: int = -1
) -> list[Forced]:
    """The log-probability of each token of given translations, and the attention that each was predicted with.

    Args:
        pairs: Token ids without special symbols.
        max_tokens: In a batch, padding counted, on each side.
        attention_layer: The decoder layer to watch, counted as Python does.
    """
    lengths = [max(len(pair.source), len(pair.target)) + 1 for pair in pairs]
    order = sorted(range(len(pairs)), key=lambda index: -lengths[index])
    forced: dict[int, Forced] = {}
    for indices in batch_by_tokens(lengths, order=order, max_tokens=max_tokens):
        batch = collate([pairs[index] for index in indices], indices).to(model.device)
        with torch.inference_mode(), watched_attention(model, layer=attention_layer) as watched:
            hidden = model.decoder(batch.target_input_ids, model.encoder(batch.source_ids))
            chosen = _log_probabilities_of(batch.target_output_ids, model=model, hidden=hidden).cpu()
        attention = watched[0].float().mean(dim=1).cpu()
        for row, index in enumerate(indices):
            rows, columns = len(pairs[index].target) + 1, len(pairs[index].source) + 1
            forced[index] = Forced(chosen[row, :rows].tolist(), attention[row, :rows, :columns])
    return [forced[index] for index in range(len(pairs))]


def _log_probabilities_of(
    ids: Int[Tensor, "batch target"], *, model: Transformer, hidden: Float[Tensor, "batch target d_model"]
) -> Float[Tensor, "batch target"]:
    """Of these tokens alone; those of the whole vocabulary never stand in memory for the whole batch."""
    parts = zip(hidden.flatten(0, 1).split(_POSITIONS), ids.flatten().split(_POSITIONS), strict=True)
    found = [log_probabilities(model.output(rows)).gather(1, these[:, None])[:, 0] for rows, these in parts]
    return torch.cat(found).view_as(ids)
