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

    def start(self, sentences: Sequence[int]) -> Prefixes:
        """Encodes sentences."""
        memory = self.model.encoder(collate_sources([self.source_ids[sentence] for sentence in sentences]))
        repeated = Memory(*(part.repeat_interleave(self.beam_size, 0) for part in memory))
        return Prefixes(repeated, torch.zeros(len(sentences), self.beam_size, 0, dtype=torch.long))

    def advance(self, last_ids: Tensor, carry: Prefixes) -> tuple[NextTokens, Prefixes]:
        """Decodes all positions, for the last."""
        ids = torch.cat((carry.ids, last_ids[:, :, None]), dim=2)
        hidden = self.model.decoder(ids.flatten(0, 1), carry.memory)[:, -1]
        log_probs = log_probabilities(self.model.output(hidden)).view(*last_ids.shape, -1)
        log_probs[..., PAD_ID] = log_probs[..., BOS_ID] = -torch.inf
        return NextTokens(log_probs), carry._replace(ids=ids)

    def follow(self, carry: Prefixes, parents: Tensor) -> Prefixes:
        """Prefixes are copied."""
        return carry._replace(ids=carry.ids.gather(1, parents[:, :, None].expand_as(carry.ids)))

    def extend(self, carry: Prefixes, num_rows: int) -> Prefixes:
        """Not needed here."""
        raise NotImplementedError("all sentences must be started together")

    def place(self, carry: Prefixes, rows: Tensor, new: Prefixes) -> Prefixes:
        """Not needed here."""
        raise NotImplementedError("all sentences must be started together")

    def select(self, carry: Prefixes, rows: Tensor) -> Prefixes:
        """Fewer rows."""
        hypotheses = (rows[:, None] * self.beam_size + torch.arange(self.beam_size)).flatten()
        return Prefixes(Memory(*(part[hypotheses] for part in carry.memory)), carry.ids[rows])
