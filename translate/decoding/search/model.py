"""The models as the search sees them: sentences go in by number, log-probabilities of the next token come out.

Several models can search as one, an ensemble: the mean of their probabilities decides.
"""

import dataclasses
import math
from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from translate.config.decoding import DecodingConfig
from translate.data.batching import collate_sources
from translate.data.tokenizer import BOS_ID, PAD_ID
from translate.decoding.score import record_attention
from translate.decoding.search.loop import NextTokens
from translate.model import Transformer, log_probabilities
from translate.model.device import copy_to_device
from translate.model.kv_cache import DecoderCache

Caches = tuple[DecoderCache, ...]
"""The cache of each model."""


@dataclasses.dataclass
class CachedDecoder:
    """One Transformer, or an ensemble of several, with caches of keys and values; a `NextTokenModel`.

    Args:
        models: The model, and the others of an ensemble, with the same tokenizers. A coverage penalty takes the first
            one's attention.
        source_ids: The sentences, without special symbols.
        max_length: The most target positions of any sentence.
    """

    models: Sequence[Transformer]
    source_ids: Sequence[Sequence[int]]
    config: DecodingConfig
    _: dataclasses.KW_ONLY
    beam_size: int
    max_length: int

    def start(self, sentences: Sequence[int], rows: Sequence[int], cache: Caches | None) -> Caches:
        """See `NextTokenModel.start`."""
        sources = [self.source_ids[sentence] for sentence in sentences]
        source_ids = copy_to_device(collate_sources(sources), self.models[0].device)
        started = [
            model.decoder.start(
                model.encoder(source_ids),
                beam_size=self.beam_size,
                max_length=self.max_length,
                source_lengths=[len(ids) + 1 for ids in sources],
            )
            for model in self.models
        ]
        if cache is None:
            return tuple(started)
        return tuple(old.insert(rows, new) for old, new in zip(cache, started, strict=True))

    def step(self, last_ids: Int[Tensor, "batch beam"], cache: Caches) -> tuple[NextTokens, Caches]:
        """See `NextTokenModel.step`. Padding and the start symbol are never generated."""
        caches, log_probs, attention = [], [], None
        for model, model_cache in zip(self.models, cache, strict=True):
            if self.config.coverage_penalty and attention is None:  # the first model's
                with record_attention(model, layer=self.config.alignment_layer) as recorded:
                    hidden, model_cache = model.decoder.step(last_ids, model_cache)
                attention = recorded[0].float().mean(dim=1)
            else:
                hidden, model_cache = model.decoder.step(last_ids, model_cache)
            caches.append(model_cache)
            log_probs.append(log_probabilities(model.output(hidden)))
            log_probs[-1][..., PAD_ID] = log_probs[-1][..., BOS_ID] = -torch.inf
        mean = log_probs[0]
        if len(log_probs) > 1:
            mean = torch.stack(log_probs).logsumexp(dim=0) - math.log(len(log_probs))
        return NextTokens(mean, attention), tuple(caches)

    def reorder(self, cache: Caches, beam_indices: Int[Tensor, "batch beam"]) -> Caches:
        """See `NextTokenModel.reorder`."""
        return tuple(each.reorder(beam_indices) for each in cache)

    def select_rows(self, cache: Caches, rows: Sequence[int]) -> Caches:
        """See `NextTokenModel.select_rows`."""
        return tuple(each.select_rows(rows) for each in cache)
