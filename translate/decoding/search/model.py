"""The model as search sees it: sentences go in by number, log-probabilities of the next token come out."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from translate.data.batching import collate_sources
from translate.data.tokenizer import BOS_ID, PAD_ID
from translate.decoding.score import watched_attention
from translate.decoding.search.loop import NextTokens
from translate.decoding.shortlist import Shortlist
from translate.model import Transformer, log_probabilities
from translate.model.kv_cache import DecoderCache
from translate.model.quantization import Int8Projection, Projection


class Columns(NamedTuple):
    """The words that some sentence of a batch may have, and which may have which."""

    ids: Int[Tensor, " columns"]
    bias: Float[Tensor, "batch 1 columns"]  # 0: allowed, -inf: not
    output: nn.Module  # the output layer of these words alone


class Decoded(NamedTuple):
    """What a model carries from step to step."""

    cache: DecoderCache
    allowed: Bool[Tensor, "batch vocab"] | None = None  # by the shortlist
    columns: Columns | None = None  # made from `allowed` when it has changed


class CachedDecoder:
    """A Transformer with a cache of keys and values; see `search.NextTokenModel`.

    Args:
        source_ids: The sentences, without special symbols.
        max_length: Target positions that a search may come to.
        shortlist: Leaves each sentence the words that may translate it; the others have no probability.
        also_allowed: For each sentence, tokens that the shortlist allows although it lacks them: those that a user
            wants. Empty: none, for any.
        attention_layer: Also give the mean attention, over heads, of this decoder layer; None: of none.
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

    def start(self, sentences: Sequence[int]) -> Decoded:
        """Encodes sentences."""
        ids = collate_sources([self.source_ids[sentence] for sentence in sentences]).to(self.model.device)
        cache = self.model.decoder.start(self.model.encoder(ids), beam_size=self.beam_size, max_length=self.max_length)
        return Decoded(cache, None if self.shortlist is None else self._allowed(self.shortlist, ids, sentences))

    def _allowed(
        self, shortlist: Shortlist, ids: Int[Tensor, "batch source"], sentences: Sequence[int]
    ) -> Bool[Tensor, "batch vocab"]:
        allowed = shortlist.allowed(ids)
        if self.also_allowed:
            for row, sentence in enumerate(sentences):
                allowed[row, torch.tensor(self.also_allowed[sentence], dtype=torch.long, device=ids.device)] = True
        return allowed

    def advance(self, last_ids: Int[Tensor, "batch beam"], carry: Decoded) -> tuple[NextTokens, Decoded]:
        """Decodes one more position. Padding and the start symbol are never generated."""
        attention = None
        if self.attention_layer is None:
            hidden, cache = self.model.decoder.step(last_ids, carry.cache)
        else:
            with watched_attention(self.model, layer=self.attention_layer) as watched:
                hidden, cache = self.model.decoder.step(last_ids, carry.cache)
            attention = watched[0].float().mean(dim=1)
        if carry.allowed is None:
            log_probs = log_probabilities(self.model.output(hidden))
            log_probs[..., PAD_ID] = log_probs[..., BOS_ID] = -torch.inf
            return NextTokens(log_probs, attention=attention), carry._replace(cache=cache)
        columns = carry.columns or _build_columns(carry.allowed, self.model.output)
        logits = columns.bias + columns.output(hidden)  # in fp32, as the bias is
        tokens = NextTokens(log_probabilities(logits), ids=columns.ids, attention=attention)
        return tokens, carry._replace(cache=cache, columns=columns)

    def follow(self, carry: Decoded, parents: Int[Tensor, "batch beam"]) -> Decoded:
        """Only the mask of who sees what changes."""
        return carry._replace(cache=carry.cache.follow(parents))

    def extend(self, carry: Decoded, num_rows: int) -> Decoded:
        """More rows, which allow nothing until sentences are placed there."""
        allowed = carry.allowed
        if allowed is not None:
            allowed = torch.cat((allowed, allowed.new_zeros(num_rows, allowed.shape[1])))
        return Decoded(carry.cache.extended(num_rows), allowed)

    def place(self, carry: Decoded, rows: Int[Tensor, " new_batch"], new: Decoded) -> Decoded:
        """New sentences where others have left."""
        if carry.allowed is not None and new.allowed is not None:
            carry.allowed[rows] = new.allowed
        return Decoded(carry.cache.place(rows, new.cache), carry.allowed)

    def select(self, carry: Decoded, rows: Int[Tensor, " new_batch"]) -> Decoded:
        """Fewer rows."""
        return Decoded(carry.cache.select(rows), None if carry.allowed is None else carry.allowed[rows])


def _build_columns(allowed: Bool[Tensor, "batch vocab"], output: Projection | Int8Projection) -> Columns:
    ids = allowed.any(dim=0).nonzero()[:, 0]
    bias = torch.zeros(len(allowed), 1, len(ids), device=allowed.device)
    return Columns(ids, bias.masked_fill_(~allowed[:, None, ids], -torch.inf), output.chosen(ids))
