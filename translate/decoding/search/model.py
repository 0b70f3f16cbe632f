"""Models as the search sees them: sentence numbers go in, log-probabilities of the next token come out.

Several models can search as one, an ensemble: the mean of their probabilities decides.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from translate.data.batching import collate_sources
from translate.data.tokenizer import BOS_ID, PAD_ID
from translate.decoding.search.shortlist import Shortlist
from translate.model import Transformer, flatten
from translate.model.device import compiles_for_each_shape, copy_to_device
from translate.model.kv_cache import DecoderCache


class AllowedTokens(NamedTuple):
    """The tokens that the shortlist allows the sentences of a batch."""

    of_rows: Bool[Tensor, "batch vocab"]
    ids: Int[Tensor, " ids"]  # allowed in any row
    bias: Float[Tensor, "batch 1 ids"]  # 0: allowed in that row; -inf: forbidden
    outputs: tuple[tuple[Float[Tensor, "ids d_model"], Float[Tensor, " ids"] | None], ...]  # each model's weight, bias


class Caches(NamedTuple):
    """The models' state between steps."""

    decoders: tuple[DecoderCache, ...]  # of each model
    allowed: AllowedTokens | None = None  # None: all tokens


@dataclasses.dataclass
class CachedDecoder:
    """One Transformer, or an ensemble of several, with caches of keys and values; a `NextTokenModel`.

    Args:
        models: The model, and the others of an ensemble, with the same tokenizers.
        source_ids: The sentences, without special symbols.
        max_length: The most target positions of any sentence.
        shortlist: Allows each sentence only the tokens that may translate it; the others get no probability.
        also_allowed: For each sentence, tokens that are allowed in addition to the shortlist.
        num_read: Start symbols that the decoder reads before the one with which the search begins.
    """

    models: Sequence[Transformer]
    source_ids: Sequence[Sequence[int]]
    _: dataclasses.KW_ONLY
    beam_size: int
    max_length: int
    shortlist: Shortlist | None = None
    also_allowed: Sequence[Sequence[int]] = ()
    num_read: int = 0

    def start(self, sentences: Sequence[int], rows: Sequence[int], cache: Caches | None) -> Caches:
        """See `NextTokenModel.start`."""
        sources = [self.source_ids[sentence] for sentence in sentences]
        weight = self.models[0].output.weight
        source_ids = copy_to_device(collate_sources(sources), weight.device)
        is_flattened = compiles_for_each_shape(weight.device, weight.dtype)
        encoder_input = flatten(source_ids, pad_id=PAD_ID) if is_flattened else source_ids
        started = []
        for model in self.models:
            new_cache = model.decoder.start(
                model.encoder(encoder_input),
                beam_size=self.beam_size,
                max_length=self.max_length + self.num_read,
                source_lengths=[len(ids) + 1 for ids in sources],
            )
            for _ in range(self.num_read):
                start_ids = torch.full((len(sources), self.beam_size), BOS_ID, device=model.device)
                _, new_cache = model.decoder.step(start_ids, new_cache)
            started.append(new_cache)
        if cache is not None:
            started = [old.insert(rows, new) for old, new in zip(cache.decoders, started, strict=True)]
        if self.shortlist is None:
            return Caches(tuple(started))
        new = self.shortlist.allowed(source_ids)
        vocab = new.shape[1]
        also = [row * vocab + token for row, sentence in enumerate(sentences) for token in self.also_allowed[sentence]]
        if also:
            new.view(-1).index_fill_(0, copy_to_device(torch.tensor(also), new.device), True)
        of_rows = new.new_zeros(len(started[0].lengths), vocab)
        if cache is not None and cache.allowed is not None:
            of_rows[: len(cache.allowed.of_rows)] = cache.allowed.of_rows
        of_rows[copy_to_device(torch.tensor(rows), new.device)] = new
        return Caches(tuple(started), self._allow(of_rows))

    def _allow(self, of_rows: Bool[Tensor, "batch vocab"]) -> AllowedTokens:
        ids = of_rows.any(dim=0).nonzero()[:, 0]
        bias = torch.zeros(len(of_rows), 1, len(ids), device=of_rows.device)
        bias.masked_fill_(~of_rows[:, None, ids], -torch.inf)
        layers = [model.output for model in self.models]
        outputs = tuple((layer.weight[ids], None if layer.bias is None else layer.bias[ids]) for layer in layers)
        return AllowedTokens(of_rows, ids, bias, outputs)

    def step(
        self, last_ids: Int[Tensor, "batch beam"], cache: Caches
    ) -> tuple[Float[Tensor, "batch beam vocab"], Caches]:
        """See `NextTokenModel.step`. Padding and the start symbol are never generated."""
        caches, log_probs = [], []
        allowed = cache.allowed
        for number, (model, model_cache) in enumerate(zip(self.models, cache.decoders, strict=True)):
            hidden, model_cache = model.decoder.step(last_ids, model_cache)
            caches.append(model_cache)
            if allowed is None:
                logits = model.output(hidden).float()
            else:
                logits = allowed.bias + F.linear(hidden, *allowed.outputs[number])
            # In place: on a CPU, memory takes longer than the arithmetic.
            log_probs.append(torch.log_softmax(logits, dim=-1, out=logits))
            if allowed is None:
                logits[..., PAD_ID] = logits[..., BOS_ID] = -torch.inf
        mean = log_probs[0]
        if len(log_probs) > 1:
            mean = torch.stack(log_probs).logsumexp(dim=0) - math.log(len(log_probs))
        if allowed is not None:
            of_all = mean.new_full((*mean.shape[:2], allowed.of_rows.shape[1]), -torch.inf)
            mean = of_all.index_copy_(2, allowed.ids, mean)
        return mean, Caches(tuple(caches), allowed)

    def reorder(self, cache: Caches, beam_indices: Int[Tensor, "batch beam"]) -> Caches:
        """See `NextTokenModel.reorder`."""
        return cache._replace(decoders=tuple(decoder.reorder(beam_indices) for decoder in cache.decoders))

    def select_rows(self, cache: Caches, rows: Sequence[int]) -> Caches:
        """See `NextTokenModel.select_rows`."""
        decoders = tuple(decoder.select_rows(rows) for decoder in cache.decoders)
        if cache.allowed is None:
            return Caches(decoders)
        of_rows = cache.allowed.of_rows
        return Caches(decoders, self._allow(of_rows[copy_to_device(torch.tensor(rows), of_rows.device)]))
