"""Which source word a target word comes from, as cross-attention has it: links, their notation, their error rate."""

import re
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from translate.errors import InputError


class Link(NamedTuple):
    """A source and a target position that belong together; links sort by source."""

    source: int
    target: int


def align_subwords(weights: Float[Tensor, "target source"]) -> dict[Link, float]:
    """The source subword that each target subword attends to most, in the order of the target, with its weight.

    The end symbols are left out, and each target subword's weights are shares of what is not on the end symbol. One
    that attends to the end symbol alone has no link. Of equal weights the first counts.

    Args:
        weights: One sentence's cross-attention, without padding, over heads and layers as the caller chose: row t is
            the attention that predicts target token t; the last row and column are those of the end symbols.

    Raises:
        ValueError: There is no row or column for an end symbol, or a weight is negative or not finite.
    """
    return _strongest_links(_without_end(weights))


def align_words(
    weights: Float[Tensor, "target source"],
    *,
    source_words: Sequence[Sequence[int]],
    target_words: Sequence[Sequence[int]],
) -> dict[Link, float]:
    """The source word that each target word attends to most, in the order of the target, with its weight.

    A source word's weight is the sum over its subwords, and a target word's attention the mean over its subwords.

    Args:
        weights: See `align_subwords`.
        source_words: The positions of each word's subwords, as `words.group_words` gives them.
        target_words: Likewise.

    Raises:
        ValueError: As in `align_subwords`, or the words do not hold each subword exactly once.
    """
    shares = _without_end(weights)
    num_target, num_source = shares.shape
    _check_words("source", source_words, num_source)
    _check_words("target", target_words, num_target)
    by_source = shares.new_zeros(num_target, len(source_words))
    for column, positions in enumerate(source_words):
        by_source[:, column] = shares[:, list(positions)].sum(dim=1)
    by_word = shares.new_zeros(len(target_words), len(source_words))
    for row, positions in enumerate(target_words):
        by_word[row] = by_source[list(positions)].mean(dim=0)
    return _strongest_links(by_word)


def format_pharaoh(links: Iterable[Link]) -> str:
    """Links as `0-0 1-2`, source before target and sorted: one line a sentence, as aligners write them."""
    return " ".join(f"{link.source}-{link.target}" for link in sorted(links))


def parse_pharaoh(text: str) -> set[Link]:
    """The links that `format_pharaoh` wrote, or an aligner.

    Raises:
        InputError: Something is not two numbers joined by a hyphen.
    """
    links = set()
    for written in text.split():
        numbers = re.fullmatch(r"([0-9]+)-([0-9]+)", written)
        if numbers is None:
            raise InputError(f"{written!r} is no link of an alignment: 0-0 is, source before target, counted from 0")
        links.add(Link(int(numbers[1]), int(numbers[2])))
    return links


def alignment_error_rate(
    links: Sequence[AbstractSet[Link]], *, sure: Sequence[AbstractSet[Link]], possible: Sequence[AbstractSet[Link]]
) -> float:
    """1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|) over a corpus: 0 where all sure links and none but possible ones are there.

    Args:
        links: A, those to judge, of each sentence.
        sure: S, those that must be there.
        possible: P, those that may be there; sure ones count as possible without being repeated here.

    Raises:
        ValueError: Different numbers of sentences, or neither a link nor a sure one in any.

    Source: Och and Ney 2003, https://aclanthology.org/J03-1002, the section on evaluation.
    """
    if not len(links) == len(sure) == len(possible):
        raise ValueError(
            f"{len(links)} alignments, {len(sure)} of sure links, {len(possible)} of possible links:"
            " they must belong to the same sentences"
        )
    hits = total = 0
    for found, certain, allowed in zip(links, sure, possible, strict=True):
        hits += len(found & certain) + len(found & (certain | allowed))
        total += len(found) + len(certain)
    if total == 0:
        raise ValueError("there is no link to judge and no sure link: the error rate of nothing is not defined")
    return 1.0 - hits / total


def _without_end(weights: Tensor) -> Tensor:
    """Each target subword's attention as shares that add up to 1, or to 0 where all was on the end symbol."""
    num_target, num_source = weights.shape
    if num_target == 0 or num_source == 0:
        raise ValueError(f"weights of shape {num_target} x {num_source} have no row or no column for an end symbol")
    if not bool((weights.isfinite() & (weights >= 0)).all()):
        raise ValueError("attention weights must be finite and not negative")
    kept = weights[:-1, :-1].double()
    totals = kept.sum(dim=1, keepdim=True)
    return torch.where(totals > 0, kept / totals, 0.0)


def _strongest_links(shares: Tensor) -> dict[Link, float]:
    if shares.shape[1] == 0:
        return {}
    best, sources = shares.max(dim=1)
    chosen = zip(sources.tolist(), best.tolist(), strict=True)
    return {Link(source, target): weight for target, (source, weight) in enumerate(chosen) if weight > 0}


def _check_words(side: str, words: Sequence[Sequence[int]], num_subwords: int) -> None:
    positions = sorted(position for word in words for position in word)
    if positions != list(range(num_subwords)) or not all(words):
        raise ValueError(
            f"the {side} words hold the positions {positions}, but must hold each of the {num_subwords} subwords once,"
            " and each word at least one"
        )
