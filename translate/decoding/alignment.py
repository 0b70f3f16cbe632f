"""Forced decoding by the full forward pass: probabilities of given translations, and alignments by cross-attention."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from translate.data.batching import EncodedPair, batch_by_tokens, collate
from translate.data.tokenizer import Tokenizers
from translate.decoding.output.words import group_words
from translate.decoding.request import OnFinished, ignore_progress
from translate.decoding.translation import Translation
from translate.model import Transformer, log_probabilities
from translate.model.device import explain_out_of_memory
from translate.model.transformer import record_attention

Unit = Literal["words", "subwords"]

_POSITIONS = 512  # positions whose logits are in memory at once


class ForcedDecoding(NamedTuple):
    """The model's view of one pair. The last row, and the last column of the attention, belong to the end symbols."""

    token_log_probs: list[float]  # nats
    attention: Float[Tensor, "target source"]  # cross-attention of one layer, the mean over its heads; or empty

    def after(self, num_target: int, num_source: int) -> "ForcedDecoding":
        """The same without the language tags, which are the first tokens of both sides."""
        return ForcedDecoding(self.token_log_probs[num_target:], self.attention[num_target:, num_source:])


def force_decode(
    model: Transformer,
    pairs: Sequence[EncodedPair],
    *,
    max_tokens: int,
    attention_layer: int | None = -1,
    on_finished: OnFinished = ignore_progress,
) -> list[ForcedDecoding]:
    """The log-probability of each token of given translations, and the attention that each was predicted with.

    Args:
        pairs: Token ids without special symbols.
        max_tokens: The most tokens in a batch on each side, padding included.
        attention_layer: The index of the decoder layer whose attention is recorded; negative ones count from the
            end. None: no attention is recorded.

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
            recorded: list[Tensor] = []
            with torch.inference_mode(), ExitStack() as hooks:
                if attention_layer is not None:
                    recorded = hooks.enter_context(record_attention(model, layer=attention_layer))
                hidden = model.decoder(batch.target_input_ids, model.encoder(batch.source_ids))
                log_probs = _rate_tokens(batch.target_output_ids, model=model, hidden=hidden)
            attention = recorded[0].float().mean(dim=1).cpu() if recorded else torch.empty(len(indices), 0, 0)
            for row, index in enumerate(indices):
                rows, columns = len(pairs[index].target) + 1, len(pairs[index].source) + 1
                forced[index] = ForcedDecoding(log_probs[row, :rows].tolist(), attention[row, :rows, :columns])
            on_finished(len(indices))
    return [forced[index] for index in range(len(pairs))]


def _rate_tokens(
    ids: Int[Tensor, "batch target"], *, model: Transformer, hidden: Float[Tensor, "batch target d_model"]
) -> Float[Tensor, "batch target"]:
    """The log-probabilities of these tokens, without holding the whole vocabulary for the whole batch."""
    found = []
    for rows, tokens in zip(hidden.flatten(0, 1).split(_POSITIONS), ids.flatten().split(_POSITIONS), strict=True):
        log_probs = log_probabilities(model.output(rows))
        found.append(log_probs.gather(1, tokens[:, None])[:, 0].cpu())
    return torch.cat(found).view(ids.shape)


class AlignmentLink(NamedTuple):
    """A source position and a target position that belong together; links sort by source."""

    source: int
    target: int


class LineAttention(NamedTuple):
    """The attention between the units (words or subwords) of a translation and of its source."""

    links: list[AlignmentLink]  # see `align_words`
    rows: list[dict[int, float]]  # per target unit, the weights of its piece's source units, without end symbols
    num_sources: int  # source units


def line_attention(
    translation: Translation, forced: Iterator[ForcedDecoding], tokenizers: Tokenizers, *, unit: Unit
) -> LineAttention:
    """The attention of one line; the next items of `forced` belong to its pieces."""
    links: list[AlignmentLink] = []
    rows: list[dict[int, float]] = []
    num_sources = 0
    is_inside_word = False
    for number, part in enumerate(translation.parts):
        if unit == "words":
            source_units = [word.positions for word in group_words(tokenizers.source.pieces(part.source_ids))]
            target_units = [word.positions for word in group_words(tokenizers.target.pieces(part.ids))]
            tag_ids, text = tokenizers.source.split_tag(part.source)
            source_units = source_units[len(tag_ids) if number else 0 :]  # later pieces repeat the language token
            if is_inside_word and source_units and not text[:1].isspace():
                num_sources -= 1  # the previous piece ends within this piece's first word
            is_inside_word = bool(source_units) and not part.source[-1:].isspace()
        else:
            source_units, target_units = ([[token] for token in range(len(ids))] for ids in (part.source_ids, part.ids))
        weights = next(forced).attention
        if part.truncated:  # without a row for the end symbol
            weights = torch.cat((weights, weights[-1:]))
        for source, target in align_words(weights, source_words=source_units, target_words=target_units):
            links.append(AlignmentLink(source + num_sources, target + len(rows)))
        merged = merge_units(weights[:-1, :-1], source_units, target_units).tolist()
        rows += [dict(enumerate(row, start=num_sources)) for row in merged]
        num_sources += len(source_units)
    return LineAttention(links, rows, num_sources)


def align_words(
    weights: Float[Tensor, "target source"],
    *,
    source_words: Sequence[Sequence[int]],
    target_words: Sequence[Sequence[int]],
) -> dict[AlignmentLink, float]:
    """Link each target word, in order, to the source word that it attends to most; the values are the weights.

    A source word's weight is the sum over its subwords, and a target word's attention the mean over its subwords. The
    end symbols have no links; each target subword's weights are normalized without the end symbol. A target
    word that attends only to the end symbol has no link. Ties go to the first word.

    Args:
        weights: The cross-attention of one sentence without padding. Row t is the attention that predicts target token
            t; the last row and column belong to the end symbols.
        source_words: The positions of each word's subwords, from `group_words`.
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
    source_units: Sequence[Sequence[int]],
    target_units: Sequence[Sequence[int]],
) -> Float[Tensor, "target_units source_units"]:
    """Weights between units: sums over the subwords of a source unit, means over those of a target unit.

    Args:
        source_units: The subwords of each unit.
        target_units: The same for the target.
    """
    columns = [weights[:, list(positions)].sum(dim=1) for positions in source_units]
    weights = torch.stack(columns, dim=1) if columns else weights[:, :0]
    rows = [weights[list(positions)].mean(dim=0) for positions in target_units]
    return torch.stack(rows) if rows else weights[:0]


def format_pharaoh(links: Iterable[AlignmentLink]) -> str:
    """Write links in Pharaoh format, sorted and source before target: `0-0 1-2`."""
    return " ".join(f"{link.source}-{link.target}" for link in sorted(links))
