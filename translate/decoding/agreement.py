"""Checks shared by all exports: the other program is installed and computes the same numbers on the same sentences."""

import random
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from translate.data.batching import Batch, EncodedPair, collate
from translate.data.tokenizer import EOS_ID, PAD_ID
from translate.errors import RunError
from translate.model import Transformer
from translate.model.varlen import pack

TOLERANCE = 1e-4
"""Two logits, or two log-probabilities in nats, may always differ by this much."""
_TIMES_NOISE = torch.tensor([4.0, 8.0])  # at the quantiles below. Correct models have shown up to 1.8 and 2.9.

# Tokens of source and target. All are in one batch, so that padding and masks are checked too.
_LENGTHS = ((1, 2), (7, 5), (13, 17), (31, 29), (67, 71))


class Probes(NamedTuple):
    """Sentences of random words, and our model's logits for them."""

    pairs: list[EncodedPair]
    batch: Batch
    logits: Float[Tensor, "batch target vocab"]
    noise: Float[Tensor, " quantiles"]  # rounding errors of the logits: the median of the tokens, and the largest


def probe(model: Transformer, *, position_limit: int | None) -> Probes:
    """Compute our model's logits for sentences of random words, which are the same in each call.

    The noise is how much they change if each product is rounded to 21 or 22 bits instead of fp32's 24. From the first
    product on, all rounding errors are then other ones, as in another program; some models amplify them a lot.

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
    ids = [each.to(model.device) for each in (batch.source_ids, batch.target_input_ids)]
    with torch.inference_mode():
        logits = model(*ids).float().cpu()
        hooks = [module.register_forward_hook(_round) for module in model.modules() if isinstance(module, nn.Linear)]
        rounded = model(*(pack(each, pad_id=PAD_ID) for each in ids))[0].float().cpu()
    for hook in hooks:
        hook.remove()
    return Probes(pairs, batch, logits, _quantiles(rounded - logits[batch.target_output_ids != PAD_ID]))


def _round(module: nn.Module, inputs: object, output: Tensor) -> Tensor:
    return 5 * output - 4 * output


def _quantiles(differences: Float[Tensor, "token numbers"]) -> Float[Tensor, " quantiles"]:
    # Some faults change all tokens a little, and others change a few a lot.
    return differences.abs().amax(dim=1).quantile(torch.tensor([0.5, 1.0]))


def check_agreement(
    ours: Float[Tensor, "token numbers"],
    theirs: Float[Tensor, "token numbers"],
    *,
    noise: Float[Tensor, " quantiles"],
    what: str,
) -> None:
    """Check that the numbers of the written model differ from the original's by the tolerance, or by rounding errors.

    Args:
        ours: Numbers of target positions, without padding.
        noise: The rounding errors of `Probes`.
        what: What the numbers are, such as "logits".

    Raises:
        RunError: A number differs more, or is not finite.
    """
    found = _quantiles(ours - theirs)  # NaN or infinite if a number is
    # A model whose rounding errors are above 1 % cannot be checked.
    allowed = (_TIMES_NOISE * noise).minimum(theirs.abs().max() / 100).clamp(min=TOLERANCE)
    if not (found <= allowed).all():
        raise RunError(
            f"the written model is not the original one: its {what} differ by up to {found[1]:.2g} (median of the"
            f" tokens: {found[0]:.2g}), and at most {allowed[1]:.2g} ({allowed[0]:.2g}) is allowed; nothing is kept"
        )
