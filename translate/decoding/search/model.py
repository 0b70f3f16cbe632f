"""A Transformer as the search sees it: sentences go in by number, log-probabilities of the next token come out."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from translate.data.batching import collate_sources
from translate.data.tokenizer import BOS_ID, PAD_ID
from translate.decoding.score import record_attention
from translate.decoding.search.loop import NextTokens
from translate.decoding.shortlist import Shortlist
from translate.model import Transformer, log_probabilities
from translate.model.kv_cache import DecoderCache
from translate.model.quantization import Int8Projection, Projection


class ShortlistColumns(NamedTuple):
    """The words that the shortlist allows any sentence of a batch, and which sentence may have which."""

    ids: Int[Tensor, " columns"]
    bias: Float[Tensor, "batch 1 columns"]  # 0: allowed; -inf: forbidden
    output: nn.Module  # the output layer of these words alone


class CachedBatch(NamedTuple):
    """What a model keeps from step to step."""

    decoder: DecoderCache
    allowed: Bool[Tensor, "batch vocab"] | None = None  # by the shortlist
    columns: ShortlistColumns | None = None  # made from `allowed` in the step after it has changed


class CachedDecoder:
    """A Transformer with a cache of keys and values; a `NextTokenModel`.

    Args:
        source_ids: The sentences, without special symbols.
        max_length: The most target positions of any sentence.
        shortlist: Leaves each sentence the words that may translate it; the others have no probability.
        also_allowed: For each sentence, tokens that are allowed beside the shortlist because a user wants them. Empty:
            none for any sentence.
        attention_layer: The decoder layer whose mean attention over heads is given too; None: no layer's.
    """

    def __init__(
        self,
        model: Transformer,
        source_ids: Sequence[Sequence[int]],
        *,
        beam_size: int,
        max_length: int,
        shortlist: Shortlist | None = None,
        also_allowed: Sequence[Sequence[int]] = (),
        attention_layer: int | None = None,
    ) -> None:
        self.model = model
        self.source_ids = source_ids
        self.beam_size = beam_size
        self.max_length = max_length
        self.shortlist = shortlist
        self.also_allowed = also_allowed
        self.attention_layer = attention_layer

    def start(
        self, sentences: Sequence[int], rows: Int[Tensor, " new_batch"], cache: CachedBatch | None
    ) -> CachedBatch:
        """See `NextTokenModel.start`."""
        source_ids = collate_sources([self.source_ids[sentence] for sentence in sentences]).to(self.model.device)
        memory = self.model.encoder(source_ids)
        new = self.model.decoder.start(memory, beam_size=self.beam_size, max_length=self.max_length)
        decoder = new if cache is None else cache.decoder.insert(rows, new)
        if self.shortlist is None:
            return CachedBatch(decoder)
        allowed = self.shortlist.allowed(source_ids)
        for row, sentence in enumerate(sentences if self.also_allowed else ()):
            allowed[row, torch.tensor(self.also_allowed[sentence], dtype=torch.long, device=source_ids.device)] = True
        if cache is None or cache.allowed is None:
            return CachedBatch(decoder, allowed)
        all_rows = cache.allowed.new_zeros(decoder.batch, allowed.shape[1])
        all_rows[: len(cache.allowed)] = cache.allowed
        all_rows[rows] = allowed
        return CachedBatch(decoder, all_rows)

    def step(self, last_ids: Int[Tensor, "batch beam"], cache: CachedBatch) -> tuple[NextTokens, CachedBatch]:
        """See `NextTokenModel.step`. Padding and the start symbol are never generated."""
        attention = None
        if self.attention_layer is None:
            hidden, decoder = self.model.decoder.step(last_ids, cache.decoder)
        else:
            with record_attention(self.model, layer=self.attention_layer) as recorded:
                hidden, decoder = self.model.decoder.step(last_ids, cache.decoder)
            attention = recorded[0].float().mean(dim=1)
        if cache.allowed is None:
            log_probs = log_probabilities(self.model.output(hidden))
            log_probs[..., PAD_ID] = log_probs[..., BOS_ID] = -torch.inf
            return NextTokens(log_probs, attention=attention), cache._replace(decoder=decoder)
        columns = cache.columns or _build_columns(cache.allowed, self.model.output)
        logits = columns.bias + columns.output(hidden)  # in fp32, as the bias is
        next_tokens = NextTokens(log_probabilities(logits), ids=columns.ids, attention=attention)
        return next_tokens, cache._replace(decoder=decoder, columns=columns)

    def reorder(self, cache: CachedBatch, beam_indices: Int[Tensor, "batch beam"]) -> CachedBatch:
        """See `NextTokenModel.reorder`."""
        return cache._replace(decoder=cache.decoder.reorder(beam_indices))

    def select_rows(self, cache: CachedBatch, rows: Int[Tensor, " new_batch"]) -> CachedBatch:
        """See `NextTokenModel.select_rows`."""
        return CachedBatch(cache.decoder.select_rows(rows), None if cache.allowed is None else cache.allowed[rows])


def _build_columns(allowed: Bool[Tensor, "batch vocab"], output: Projection | Int8Projection) -> ShortlistColumns:
    ids = allowed.any(dim=0).nonzero()[:, 0]
    bias = torch.zeros(len(allowed), 1, len(ids), device=allowed.device)
    return ShortlistColumns(ids, bias.masked_fill_(~allowed[:, None, ids], -torch.inf), output.chosen(ids))
