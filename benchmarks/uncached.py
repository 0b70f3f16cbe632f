"""A model that computes the whole prefix again for each token: what decoding costs without a cache."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from translate.data.batching import collate_sources
from translate.data.tokenizer import BOS_ID, PAD_ID
from translate.decoding.search.loop import NextTokens
from translate.model import Memory, Transformer, log_probabilities


class Prefixes(NamedTuple):
    """Everything so far."""

    memory: Memory  # one row for each hypothesis
    ids: Tensor  # (batch, beam, length)


class RecomputingDecoder:
    """See `translate.decoding.search.loop.NextTokenModel`; all sentences must be started together."""

    def __init__(self, model: Transformer, source_ids: Sequence[Sequence[int]], *, beam_size: int) -> None:
        self.model, self.source_ids, self.beam_size = model, source_ids, beam_size

    def start(self, sentences: Sequence[int], rows: Sequence[int], cache: Prefixes | None) -> Prefixes:
        """Encodes sentences."""
        if cache is not None:
            raise NotImplementedError("all sentences must be started together")
        memory = self.model.encoder(collate_sources([self.source_ids[sentence] for sentence in sentences]))
        repeated = Memory(*(part.repeat_interleave(self.beam_size, 0) for part in memory))
        return Prefixes(repeated, torch.zeros(len(sentences), self.beam_size, 0, dtype=torch.long))

    def step(self, last_ids: Tensor, cache: Prefixes) -> tuple[NextTokens, Prefixes]:
        """Decodes all positions, for the last."""
        ids = torch.cat((cache.ids, last_ids[:, :, None]), dim=2)
        hidden = self.model.decoder(ids.flatten(0, 1), cache.memory)[:, -1]
        log_probs = log_probabilities(self.model.output(hidden)).view(*last_ids.shape, -1)
        log_probs[..., PAD_ID] = log_probs[..., BOS_ID] = -torch.inf
        return NextTokens(log_probs), cache._replace(ids=ids)

    def reorder(self, cache: Prefixes, beam_indices: Tensor) -> Prefixes:
        """Copies prefixes."""
        return cache._replace(ids=cache.ids.gather(1, beam_indices[:, :, None].expand_as(cache.ids)))

    def select_rows(self, cache: Prefixes, rows: Sequence[int]) -> Prefixes:
        """Keeps fewer rows."""
        hypotheses = (torch.tensor(rows)[:, None] * self.beam_size + torch.arange(self.beam_size)).flatten()
        return Prefixes(Memory(*(part[hypotheses] for part in cache.memory)), cache.ids[list(rows)])
