"""Alignments by cross-attention: pieces of lines are forced, and their words or subwords are linked and counted on."""

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from translate.data.tokenizer import Tokenizers
from translate.decoding.output.words import group_words
from translate.decoding.request import Translation
from translate.decoding.score import ForcedDecoding

Unit = Literal["words", "subwords"]


class AlignmentLink(NamedTuple):
    """A source position and a target position that belong together; links sort by source."""

    source: int
    target: int


class LineAttention(NamedTuple):
    """The attention between the units (words or subwords) of a translation and those of its source."""

    links: list[AlignmentLink]  # see `align_words`
    rows: list[dict[int, float]]  # weights of source units per target unit, of its piece and without end symbols
    num_sources: int  # source units


def line_attention(
    translation: Translation, forced: Iterator[ForcedDecoding], tokenizers: Tokenizers, *, unit: Unit
) -> LineAttention:
    """The attention of one line; `forced` begins with its pieces."""
    links: list[AlignmentLink] = []
    rows: list[dict[int, float]] = []
    num_sources = 0
    is_inside_word = False
    for part in translation.parts:
        if unit == "words":
            source_units = [word.positions for word in group_words(tokenizers.source.pieces(part.source_ids))]
            target_units = [word.positions for word in group_words(tokenizers.target.pieces(part.ids))]
            if is_inside_word and source_units and not part.source[:1].isspace():
                num_sources -= 1  # the piece before ends within this piece's first word
            is_inside_word = bool(source_units) and not part.source[-1:].isspace()
        else:
            source_units, target_units = ([[token] for token in range(len(ids))] for ids in (part.source_ids, part.ids))
        weights = next(forced).attention
        for source, target in align_words(weights, source_words=source_units, target_words=target_units):
            links.append(AlignmentLink(source + num_sources, target + len(rows)))
        merged = merge_units(weights[:-1, :-1], source_units, target_units).tolist()
        rows += [dict(enumerate(row, start=num_sources)) for row in merged]
        num_sources += len(source_units)
    return LineAttention(links, rows, num_sources)


def align_words(
    weights: Float[Tensor, "target source"],
    *,
    source_words: Sequence[Sequence[int]] | None = None,
    target_words: Sequence[Sequence[int]] | None = None,
) -> dict[AlignmentLink, float]:
    """Link each target word, in order, to the source word that it attends to most; the values are the weights.

    A source word's weight is the sum over its subwords, and a target word's attention the mean over its subwords. The
    end symbols have no links, and each target subword's weights are shares of what is not on the end symbol. A target
    word that attends only to the end symbol has no link. Of equal weights the first counts.

    Args:
        weights: The cross-attention of one sentence without padding. Row t is the attention that predicts target token
            t; the last row and column are those of the end symbols.
        source_words: The positions of each word's subwords, from `group_words`; None: each subword is a word.
        target_words: The same for the target.
    """
    kept = weights[:-1, :-1].double()
    totals = kept.sum(dim=1, keepdim=True)
    shares = merge_units(torch.where(totals > 0, kept / totals, 0.0), source_words, target_words)
    if shares.shape[1] == 0:
        return {}
    best, sources = shares.max(dim=1)
    strongest = zip(sources.tolist(), best.tolist(), strict=True)
    return {AlignmentLink(source, target): weight for target, (source, weight) in enumerate(strongest) if weight > 0}


def merge_units(
    weights: Float[Tensor, "target source"],
    source_units: Sequence[Sequence[int]] | None,
    target_units: Sequence[Sequence[int]] | None,
) -> Float[Tensor, "target_units source_units"]:
    """Weights between units: sums over the subwords of a source unit, means over those of a target unit.

    Args:
        source_units: The subwords of each unit; None: each is a unit.
        target_units: The same for the target.
    """
    if source_units is not None:
        columns = [weights[:, list(positions)].sum(dim=1) for positions in source_units]
        weights = torch.stack(columns, dim=1) if columns else weights[:, :0]
    if target_units is not None:
        rows = [weights[list(positions)].mean(dim=0) for positions in target_units]
        weights = torch.stack(rows) if rows else weights[:0]
    return weights


def format_pharaoh(links: Iterable[AlignmentLink]) -> str:
    """Write links in Pharaoh format, sorted and source before target: `0-0 1-2`."""
    return " ".join(f"{link.source}-{link.target}" for link in sorted(links))


def alignment_error_rate(
    links: Sequence[AbstractSet[AlignmentLink]], *, expected: Sequence[AbstractSet[AlignmentLink]]
) -> float:
    """Compute 1 - 2 |A ∩ E| / (|A| + |E|) over the sentences of a corpus, from the links A and the expected links E.

    It is 0 if there is no link at all.

    Source: Och and Ney 2003, https://aclanthology.org/J03-1002, the section on evaluation, with S = P = E.
    """
    hits = sum(len(found & wanted) for found, wanted in zip(links, expected, strict=True))
    total = sum(len(found) + len(wanted) for found, wanted in zip(links, expected, strict=True))
    return 1.0 - 2 * hits / total if total else 0.0
