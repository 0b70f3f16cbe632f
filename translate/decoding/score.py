"""Forced decoding: the probabilities and the attention of given translations, by the full forward pass."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from translate.data.batching import EncodedPair, batch_by_tokens, collate
from translate.decoding.request import OnFinished, ignore_progress
from translate.model import Transformer, log_probabilities
from translate.model.device import explain_out_of_memory
from translate.model.transformer import record_attention

_POSITIONS = 512  # positions whose logits are in memory at once


class ForcedDecoding(NamedTuple):
    """The model's view of one pair. The last row, and the last column of the attention, belong to the end symbols."""

    token_log_probs: list[float]  # nats
    token_ranks: list[int]  # how many other tokens the model finds more probable
    attention: Float[Tensor, "target source"]  # cross-attention of one layer, the mean over its heads


def force_decode(
    model: Transformer,
    pairs: Sequence[EncodedPair],
    *,
    max_tokens: int,
    attention_layer: int = -1,
    on_finished: OnFinished = ignore_progress,
) -> list[ForcedDecoding]:
    """The log-probability of each token of given translations, and the attention that each was predicted with.

    Args:
        pairs: Token ids without special symbols.
        max_tokens: The most tokens in a batch on each side, padding included.
        attention_layer: The index of the decoder layer whose attention is recorded; negative ones count from the end.

    Raises:
        OutOfMemory: The device does not have enough memory.
    """
    lengths = [max(len(pair.source), len(pair.target)) + 1 for pair in pairs]
    order = sorted(range(len(pairs)), key=lambda index: -lengths[index])
    forced: dict[int, ForcedDecoding] = {}
    with explain_out_of_memory(
        f"the forced decoding of {len(pairs)} pairs of up to {max(lengths, default=0)} tokens",
        hint=f"Lower decoding.batch_tokens (now {max_tokens}), decoding.max_source_tokens (--max-source-tokens) or"
        " decoding.max_target_tokens.",
    ):
        for indices in batch_by_tokens(lengths, order=order, max_tokens=max_tokens):
            batch = collate([pairs[index] for index in indices], indices).to(model.device)
            with torch.inference_mode(), record_attention(model, layer=attention_layer) as recorded:
                hidden = model.decoder(batch.target_input_ids, model.encoder(batch.source_ids))
                log_probs, ranks = _rate_tokens(batch.target_output_ids, model=model, hidden=hidden)
            attention = recorded[0].float().mean(dim=1).cpu()
            for row, index in enumerate(indices):
                rows, columns = len(pairs[index].target) + 1, len(pairs[index].source) + 1
                forced[index] = ForcedDecoding(
                    log_probs[row, :rows].tolist(), ranks[row, :rows].tolist(), attention[row, :rows, :columns]
                )
            on_finished(len(indices))
    return [forced[index] for index in range(len(pairs))]


def _rate_tokens(
    ids: Int[Tensor, "batch target"], *, model: Transformer, hidden: Float[Tensor, "batch target d_model"]
) -> tuple[Float[Tensor, "batch target"], Int[Tensor, "batch target"]]:
    """The log-probabilities and ranks of these tokens, without holding the whole vocabulary for the whole batch."""
    found = []
    for rows, tokens in zip(hidden.flatten(0, 1).split(_POSITIONS), ids.flatten().split(_POSITIONS), strict=True):
        log_probs = log_probabilities(model.output(rows))
        given = log_probs.gather(1, tokens[:, None])
        found.append((given[:, 0].cpu(), (log_probs > given).sum(dim=1).cpu()))
    log_probs, ranks = (torch.cat(parts).view(ids.shape) for parts in zip(*found, strict=True))
    return log_probs, ranks
