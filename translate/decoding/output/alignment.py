"""Word alignments from cross-attention: links between source and target words, their notation and their error rate."""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor


class Link(NamedTuple):
    """A source position and a target position that belong together; links sort by source."""

    source: int
    target: int


def align_subwords(weights: Float[Tensor, "target source"]) -> dict[Link, float]:
    """Link each target subword to the source subword that it attends to most; the values are the weights.

    The end symbols have no links, and each target subword's weights are shares of what is not on the end symbol. A
    target subword that attends only to the end symbol has no link. Of equal weights the first counts.

    Args:
        weights: The cross-attention of one sentence without padding, averaged over heads and layers as the caller
            likes. Row t is the attention that predicts target token t; the last row and column are those of the end
            symbols.

    Returns:
        The links in the order of the target.
    """
    return _strongest_links(_without_end(weights))


def align_words(
    weights: Float[Tensor, "target source"],
    *,
    source_words: Sequence[Sequence[int]],
    target_words: Sequence[Sequence[int]],
) -> dict[Link, float]:
    """Link each target word to the source word that it attends to most; see `align_subwords`.

    A source word's weight is the sum over its subwords, and a target word's attention the mean over its subwords.

    Args:
        source_words: The positions of each word's subwords, from `words.group_words`. Each subword is in one word.
        target_words: The same for the target.
    """
    shares = _without_end(weights)
    num_target, num_source = shares.shape
    assert sorted(position for word in source_words for position in word) == list(range(num_source))
    assert sorted(position for word in target_words for position in word) == list(range(num_target))
    by_source = shares.new_zeros(num_target, len(source_words))
    for column, positions in enumerate(source_words):
        by_source[:, column] = shares[:, list(positions)].sum(dim=1)
    by_word = shares.new_zeros(len(target_words), len(source_words))
    for row, positions in enumerate(target_words):
        by_word[row] = by_source[list(positions)].mean(dim=0)
    return _strongest_links(by_word)


def format_pharaoh(links: Iterable[Link]) -> str:
    """Write links in Pharaoh format, sorted and source before target: `0-0 1-2`."""
    return " ".join(f"{link.source}-{link.target}" for link in sorted(links))


def alignment_error_rate(links: Sequence[AbstractSet[Link]], *, expected: Sequence[AbstractSet[Link]]) -> float:
    """Compute 1 - 2 |A ∩ E| / (|A| + |E|) over a corpus: 0 if the links are exactly the expected ones.

    Args:
        links: The links A of each sentence.
        expected: The expected links E of each sentence, all of them sure.

    Raises:
        ValueError: The numbers of sentences differ, or there is no link at all.

    Source: Och and Ney 2003, https://aclanthology.org/J03-1002, the section on evaluation, with S = P = E.
    """
    hits = sum(len(found & wanted) for found, wanted in zip(links, expected, strict=True))
    total = sum(len(found) + len(wanted) for found, wanted in zip(links, expected, strict=True))
    if total == 0:
        raise ValueError("there is neither a link nor an expected link, so the error rate is undefined")
    return 1.0 - 2 * hits / total


def _without_end(weights: Tensor) -> Tensor:
    """Each target subword's attention as shares that sum to 1, or to 0 if all attention was on the end symbol."""
    if not bool((weights.isfinite() & (weights >= 0)).all()):
        raise ValueError("attention weights must be finite and not negative")
    kept = weights[:-1, :-1].double()
    totals = kept.sum(dim=1, keepdim=True)
    return torch.where(totals > 0, kept / totals, 0.0)


def _strongest_links(shares: Tensor) -> dict[Link, float]:
    if shares.shape[1] == 0:
        return {}
    best, sources = shares.max(dim=1)
    strongest = zip(sources.tolist(), best.tolist(), strict=True)
    return {Link(source, target): weight for target, (source, weight) in enumerate(strongest) if weight > 0}
