"""Models as the search sees them: sentence numbers go in, log-probabilities of the next token come out.

Several models can search as one, an ensemble: the mean of their probabilities decides.
"""

import dataclasses
import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from translate.data.batching import collate_sources
from translate.data.tokenizer import BOS_ID, PAD_ID
from translate.model import Transformer, flatten
from translate.model.device import compiles_for_each_shape, copy_to_device
from translate.model.kv_cache import DecoderCache

Caches = tuple[DecoderCache, ...]
"""The state of each model between steps."""


@dataclasses.dataclass
class CachedDecoder:
    """One Transformer, or an ensemble of several, with caches of keys and values; a `NextTokenModel`.

    Args:
        models: The model, and the others of an ensemble, with the same tokenizers.
        source_ids: The sentences, without special symbols.
        max_length: The most target positions of any sentence.
        num_read: Start symbols that the decoder reads before the one with which the search begins.
        never: The ids that are never generated.
    """

    models: Sequence[Transformer]
    source_ids: Sequence[Sequence[int]]
    _: dataclasses.KW_ONLY
    beam_size: int
    max_length: int
    num_read: int = 0
    never: Sequence[int] = (PAD_ID, BOS_ID)

    def __post_init__(self) -> None:
        self._never_ids = copy_to_device(torch.tensor(self.never), self.models[0].device)

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
            started = [old.insert(rows, new) for old, new in zip(cache, started, strict=True)]
        return tuple(started)

    def step(
        self, last_ids: Int[Tensor, "batch beam"], cache: Caches
    ) -> tuple[Float[Tensor, "batch beam vocab"], Caches]:
        """See `NextTokenModel.step`. Some tokens are never generated."""
        caches, log_probs = [], []
        for model, model_cache in zip(self.models, cache, strict=True):
            hidden, model_cache = model.decoder.step(last_ids, model_cache)
            caches.append(model_cache)
            logits = model.output(hidden).float()
            # In place: on a CPU, memory takes longer than the arithmetic.
            log_probs.append(torch.log_softmax(logits, dim=-1, out=logits))
            logits.index_fill_(-1, self._never_ids, -torch.inf)
        mean = log_probs[0]
        if len(log_probs) > 1:
            mean = torch.stack(log_probs).logsumexp(dim=0) - math.log(len(log_probs))
        return mean, tuple(caches)

    def reorder(self, cache: Caches, beam_indices: Int[Tensor, "batch beam"]) -> Caches:
        """See `NextTokenModel.reorder`."""
        return tuple(decoder.reorder(beam_indices) for decoder in cache)

    def select_rows(self, cache: Caches, rows: Sequence[int]) -> Caches:
        """See `NextTokenModel.select_rows`."""
        return tuple(decoder.select_rows(rows) for decoder in cache)
