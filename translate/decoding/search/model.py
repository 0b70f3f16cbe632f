"""The models as the search sees them: sentences go in by number, log-probabilities of the next token come out.

Several models can search as one, an ensemble: the mean of their probabilities decides.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from translate.config.decoding import DecodingConfig
from translate.data.batching import collate_sources
from translate.data.tokenizer import BOS_ID, PAD_ID
from translate.decoding.score import record_attention
from translate.decoding.search.loop import NextTokens
from translate.decoding.shortlist import Shortlist
from translate.model import Transformer, log_probabilities
from translate.model.device import copy_to_device
from translate.model.kv_cache import DecoderCache


class ShortlistColumns(NamedTuple):
    """The words that the shortlist allows any sentence of a batch, and which sentence may have which."""

    allowed: Bool[Tensor, "batch vocab"]
    ids: Int[Tensor, " columns"]
    bias: Float[Tensor, "batch 1 columns"]  # 0: allowed; -inf: forbidden
    outputs: tuple[nn.Module, ...]  # each model's output layer of these words alone


class SearchCache(NamedTuple):
    """What the models keep from step to step."""

    decoders: tuple[DecoderCache, ...]  # of each model
    columns: ShortlistColumns | None = None  # None: no shortlist


@dataclasses.dataclass
class CachedDecoder:
    """One Transformer, or several that are combined, with caches of keys and values; a `NextTokenModel`.

    Args:
        models: The model, and the others of an ensemble, with the same tokenizers. A coverage penalty takes the first
            one's attention.
        source_ids: The sentences, without special symbols.
        max_length: The most target positions of any sentence.
        shortlist: Leaves each sentence the words that may translate it; the others have no probability.
        also_allowed: For each sentence, tokens that are allowed beside the shortlist; empty: none for any sentence.
    """

    models: Sequence[Transformer]
    source_ids: Sequence[Sequence[int]]
    config: DecodingConfig
    _: dataclasses.KW_ONLY
    beam_size: int
    max_length: int
    shortlist: Shortlist | None = None
    also_allowed: Sequence[Sequence[int]] = ()

    def start(self, sentences: Sequence[int], rows: Sequence[int], cache: SearchCache | None) -> SearchCache:
        """See `NextTokenModel.start`."""
        sources, device = [self.source_ids[sentence] for sentence in sentences], self.models[0].device
        source_ids = copy_to_device(collate_sources(sources), device)
        source_lengths = [len(ids) + 1 for ids in sources]
        decoders = []
        for index, model in enumerate(self.models):
            new = model.decoder.start(
                model.encoder(source_ids),
                beam_size=self.beam_size,
                max_length=self.max_length,
                source_lengths=source_lengths,
            )
            decoders.append(new if cache is None else cache.decoders[index].insert(rows, new))
        if self.shortlist is None:
            return SearchCache(tuple(decoders))
        allowed = self.shortlist.allowed(source_ids)
        also = [(row, token) for row, sentence in enumerate(sentences) for token in self.also_allowed[sentence]]
        if also:
            allowed[copy_to_device(torch.tensor(also).T, device).unbind()] = True
        all_rows = allowed.new_zeros(len(decoders[0].lengths), allowed.shape[1])
        if cache is not None and cache.columns is not None:
            all_rows[: len(cache.columns.allowed)] = cache.columns.allowed
        all_rows[copy_to_device(torch.tensor(rows), device)] = allowed
        return SearchCache(tuple(decoders), self._build_columns(all_rows))

    def step(self, last_ids: Int[Tensor, "batch beam"], cache: SearchCache) -> tuple[NextTokens, SearchCache]:
        """See `NextTokenModel.step`. Padding and the start symbol are never generated."""
        columns = cache.columns
        decoders, log_probs, attention = [], [], None
        for index, (model, decoder_cache) in enumerate(zip(self.models, cache.decoders, strict=True)):
            if index == 0 and self.config.coverage_penalty:
                with record_attention(model, layer=self.config.alignment_layer) as recorded:
                    hidden, decoder_cache = model.decoder.step(last_ids, decoder_cache)
                attention = recorded[0].float().mean(dim=1)
            else:
                hidden, decoder_cache = model.decoder.step(last_ids, decoder_cache)
            decoders.append(decoder_cache)
            if columns is None:
                found = log_probabilities(model.output(hidden))
                found[..., PAD_ID] = found[..., BOS_ID] = -torch.inf
            else:
                found = log_probabilities(columns.bias + columns.outputs[index](hidden))  # in fp32, as the bias is
            log_probs.append(found)
        ids = None if columns is None else columns.ids
        mean = log_probs[0]
        if len(log_probs) > 1:
            mean = torch.stack(log_probs).logsumexp(dim=0) - math.log(len(log_probs))
        return NextTokens(mean, ids, attention), SearchCache(tuple(decoders), columns)

    def reorder(self, cache: SearchCache, beam_indices: Int[Tensor, "batch beam"]) -> SearchCache:
        """See `NextTokenModel.reorder`."""
        return cache._replace(decoders=tuple(each.reorder(beam_indices) for each in cache.decoders))

    def select_rows(self, cache: SearchCache, rows: Sequence[int]) -> SearchCache:
        """See `NextTokenModel.select_rows`."""
        columns = cache.columns
        if columns is not None:
            columns = self._build_columns(columns.allowed[copy_to_device(torch.tensor(rows), self.models[0].device)])
        return SearchCache(tuple(each.select_rows(rows) for each in cache.decoders), columns)

    def _build_columns(self, allowed: Bool[Tensor, "batch vocab"]) -> ShortlistColumns:
        ids = allowed.any(dim=0).nonzero()[:, 0]
        bias = torch.zeros(len(allowed), 1, len(ids), device=allowed.device)
        bias.masked_fill_(~allowed[:, None, ids], -torch.inf)
        return ShortlistColumns(allowed, ids, bias, tuple(model.output.chosen(ids) for model in self.models))
