"""The proof that an exported model is the trained one: on the same sentences every number of both must agree."""

import random
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from translate.config import ModelConfig
from translate.data.batching import Batch, EncodedPair, collate
from translate.data.tokenizer import EOS_ID, PAD_ID
from translate.errors import RunError
from translate.model import Transformer

TOLERANCE = 1e-4
"""The largest difference of a logit or of a log-probability, in nats."""

LENGTHS = ((1, 2), (7, 5), (13, 17), (31, 29), (67, 71))
"""Tokens of source and target; together in a batch, so that padding and masks are checked too."""


class Probes(NamedTuple):
    """Sentences of random words, and what our model says of them."""

    pairs: list[EncodedPair]
    batch: Batch
    logits: Float[Tensor, "batch target vocab"]


def probe(model: Transformer, *, max_positions: int | None) -> Probes:
    """Our model's logits for sentences of random words, always the same ones.

    Args:
        max_positions: Tokens at most on either side, the special symbol included.
    """
    generator = random.Random(17)
    vocab_sizes = model.encoder.embedder.tokens.num_embeddings, model.output.out_features
    pairs = []
    for lengths in _lengths(model.config, max_positions):
        source, target = (
            [generator.randrange(EOS_ID + 1, size) if size > EOS_ID + 1 else EOS_ID for _ in range(length)]
            for length, size in zip(lengths, vocab_sizes, strict=True)
        )
        pairs.append(EncodedPair(source, target))
    batch = collate(pairs, range(len(pairs)))
    with torch.inference_mode():
        logits = model(batch.source_ids.to(model.device), batch.target_input_ids.to(model.device))
    return Probes(pairs, batch, logits.float().cpu())


def _lengths(config: ModelConfig, max_positions: int | None) -> list[tuple[int, int]]:
    lengths = list(LENGTHS)
    if config.positions == "relative":
        # Each distance bucket takes part, as far as a model of a usual size lets us go.
        farthest = min(config.relative_max_distance + 11, 1000)
        lengths.append((farthest, farthest + 2))
    if max_positions is None:
        return lengths
    longest = max_positions - 1
    return [(min(source, longest), min(target, longest)) for source, target in lengths]


def require_agreement(ours: Sequence[Tensor], theirs: Sequence[Tensor], *, what: str) -> None:
    """Raise the RunError that says how far numbers differ, if they do.

    Args:
        what: What the numbers are: "logits".
    """
    assert len(ours) == len(theirs) and all(mine.shape == other.shape for mine, other in zip(ours, theirs, strict=True))
    difference = max(float((mine - other).abs().max()) for mine, other in zip(ours, theirs, strict=True))
    if not difference <= TOLERANCE:  # nor is a difference that is no number
        raise RunError(
            f"the exported model is not the trained one: its {what} differ by up to {difference:.2g},"
            f" and {TOLERANCE:g} is allowed; nothing was exported"
        )


def real_positions(rows: Float[Tensor, "batch target *rest"], target_ids: Int[Tensor, "batch target"]) -> list[Tensor]:
    """What stands at each sentence's own positions: the padding is cut off."""
    return [row[:length] for row, length in zip(rows, (target_ids != PAD_ID).sum(dim=1).tolist(), strict=True)]
