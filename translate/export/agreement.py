"""The check that an exported model is the trained one: on the same sentences their numbers must agree."""

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
"""The largest difference that is allowed between two logits, or two log-probabilities in nats."""

LENGTHS = ((1, 2), (7, 5), (13, 17), (31, 29), (67, 71))
"""Tokens of source and target. All are in one batch, so that padding and masks are checked too."""


class Probes(NamedTuple):
    """Sentences of random words, and our model's logits for them."""

    pairs: list[EncodedPair]
    batch: Batch
    logits: Float[Tensor, "batch target vocab"]


def probe(model: Transformer, *, max_positions: int | None) -> Probes:
    """Compute our model's logits for sentences of random words, which are the same in each call.

    Args:
        max_positions: The most tokens on either side, with the special symbol; None: no limit.
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
        # Long enough for every distance bucket, as far as a model of a usual size allows.
        farthest = min(config.relative_max_distance + 11, 1000)
        lengths.append((farthest, farthest + 2))
    if max_positions is None:
        return lengths
    longest = max_positions - 1
    return [(min(source, longest), min(target, longest)) for source, target in lengths]


def check_agreement(ours: Sequence[Tensor], theirs: Sequence[Tensor], *, what: str) -> None:
    """Check that no number of the exported model differs by more than the tolerance.

    Args:
        what: What the numbers are, such as "logits".

    Raises:
        RunError: Some numbers differ more, or are not finite.
    """
    assert len(ours) == len(theirs) and all(mine.shape == other.shape for mine, other in zip(ours, theirs, strict=True))
    difference = max(float((mine - other).abs().max()) for mine, other in zip(ours, theirs, strict=True))
    if not difference <= TOLERANCE:  # true for nan too
        raise RunError(
            f"the exported model is not the trained one: its {what} differ by up to {difference:.2g},"
            f" and {TOLERANCE:g} is allowed; nothing was exported"
        )


def real_positions(rows: Float[Tensor, "batch target *rest"], target_ids: Int[Tensor, "batch target"]) -> list[Tensor]:
    """Rows of each sentence's own positions, without padding."""
    return [row[:length] for row, length in zip(rows, (target_ids != PAD_ID).sum(dim=1).tolist(), strict=True)]
