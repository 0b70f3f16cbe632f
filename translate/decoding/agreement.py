"""Checks shared by all exports: the other program is installed and computes the same numbers on the same sentences."""

import random
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from translate.data.batching import Batch, EncodedPair, collate
from translate.data.tokenizer import EOS_ID
from translate.errors import RunError
from translate.model import Transformer

TOLERANCE = 1e-4
"""The largest difference that is allowed between two logits, or two log-probabilities in nats, of up to 50."""
_ROUNDING = 2e-6  # of the largest number, up to 500: some 16 roundings in fp32. The logits of T5 may be above 100.

# Tokens of source and target. All are in one batch, so that padding and masks are checked too.
_LENGTHS = ((1, 2), (7, 5), (13, 17), (31, 29), (67, 71))


class Probes(NamedTuple):
    """Sentences of random words, and our model's logits for them."""

    pairs: list[EncodedPair]
    batch: Batch
    logits: Float[Tensor, "batch target vocab"]


def probe(model: Transformer, *, position_limit: int | None) -> Probes:
    """Compute our model's logits for sentences of random words, which are the same in each call.

    Args:
        position_limit: The most tokens on either side, with the special symbol; None: no limit.
    """
    generator = random.Random(17)

    def draw(length: int, vocab_size: int) -> list[int]:
        ids = [generator.randrange(EOS_ID + 1, vocab_size) for _ in range(length)]
        return ids if position_limit is None else ids[: position_limit - 1]

    source_size, target_size = model.encoder.embedder.tokens.num_embeddings, model.output.out_features
    lengths = list(_LENGTHS)
    if model.config.positions == "relative":
        # Long enough for every distance bucket, unless that takes more than 1,000 tokens.
        farthest = min(model.config.relative_max_distance + 11, 1000)
        lengths.append((farthest, farthest + 2))
    pairs = [EncodedPair(draw(source, source_size), draw(target, target_size)) for source, target in lengths]
    batch = collate(pairs, range(len(pairs)))
    with torch.inference_mode():
        logits = model(batch.source_ids.to(model.device), batch.target_input_ids.to(model.device))
    return Probes(pairs, batch, logits.float().cpu())


def check_agreement(
    ours: Float[Tensor, "*numbers"],
    theirs: Float[Tensor, "*numbers"],
    *,
    what: str,
    made: Literal["exported", "imported"] = "exported",
) -> None:
    """Check that no number computed by the exported or imported model differs by more than the tolerance.

    Args:
        ours: Numbers of target positions, without padding.
        what: What the numbers are, such as "logits".

    Raises:
        RunError: A number differs more, or is not finite.
    """
    difference = float((ours - theirs).abs().max())  # NaN or infinite if one is
    allowed = max(TOLERANCE, _ROUNDING * min(float(theirs.abs().max()), 500.0))
    if not difference <= allowed:
        raise RunError(
            f"the {made} model is not the original one: its {what} differ by up to {difference:.2g},"
            f" and at most {allowed:.2g} is allowed; nothing was {made}"
        )
