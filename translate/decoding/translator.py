"""Text in, text out: lines are encoded, batched by length, searched, decoded, and given back in their order."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from translate.config import DecodingConfig
from translate.data.batching import EncodedPair, batch_by_tokens, collate, collate_sources
from translate.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, Tokenizers
from translate.decoding.beam import Hypothesis, beam_search, length_penalty
from translate.errors import RunError
from translate.model import Transformer, log_probabilities
from translate.model.cache import DecoderCache


class Translation(NamedTuple):
    """One line's translation and its condition."""

    source: str
    text: str
    ids: list[int]  # subwords of `text`
    log_prob: float  # nats, of `ids` and the end symbol, if the search came to it: what `Translator.score` gives
    score: float  # log_prob divided by the length penalty
    truncated: bool  # the search reached the maximum length before the end symbol
    source_truncated: bool  # the source was cut to the positions that the model has


class Score(NamedTuple):
    """A given translation under the model."""

    log_prob: float  # nats, the end symbol included
    score: float  # log_prob divided by the length penalty
    token_log_probs: list[float]  # of each subword and of the end symbol


class CachedDecoder:
    """The model as search sees it: one row a hypothesis, carrying a cache of keys and values."""

    def __init__(self, model: Transformer) -> None:
        self.model = model

    def advance(
        self, last_ids: Int[Tensor, " rows"], carry: DecoderCache
    ) -> tuple[Float[Tensor, "rows vocab"], DecoderCache]:
        """See `beam.NextTokenModel`. Padding and the start symbol are never generated."""
        hidden, cache = self.model.decoder.step(last_ids, carry)
        log_probs = log_probabilities(self.model.output(hidden))
        log_probs[:, [PAD_ID, BOS_ID]] = -torch.inf
        return log_probs, cache

    def select(
        self, carry: DecoderCache, *, hypotheses: Int[Tensor, " new_rows"], sentences: Int[Tensor, " new_batch"] | None
    ) -> DecoderCache:
        """See `beam.NextTokenModel`."""
        return carry.select(hypotheses=hypotheses, sentences=sentences)


class Translator:
    """Translates lines of text with a model and its tokenizers.

    Args:
        model: Used as it is; put it into evaluation mode, else dropout stays on.
    """

    def __init__(self, model: Transformer, tokenizers: Tokenizers, config: DecodingConfig) -> None:
        self.model = model
        self.tokenizers = tokenizers
        self.config = config
        is_limited = model.config.positions == "learned"
        self.max_positions = model.config.max_positions if is_limited else None

    def translate(self, lines: Iterable[str]) -> list[Translation]:
        """The translation of each line, in order. A line without any word gives an empty translation."""
        return list(self.translate_stream(lines))

    def translate_stream(self, lines: Iterable[str]) -> Iterator[Translation]:
        """The translation of each line, in order, reading no further ahead than `look_ahead_lines`."""
        remaining = iter(lines)
        while window := list(islice(remaining, self.config.look_ahead_lines)):
            yield from self._translate_window(window)

    def score(self, sources: Sequence[str], targets: Sequence[Sequence[int]]) -> list[Score]:
        """The log-probability of given translations, by the full forward pass: forced decoding.

        A source is cut to the positions that the model has, as in translating.

        Args:
            targets: Subwords of each translation, without the end symbol.
        """
        encoded = self._encode(sources)
        pairs = [EncodedPair(self._cut(source), list(target)) for source, target in zip(encoded, targets, strict=True)]
        lengths = [max(len(pair.source), len(pair.target)) + 1 for pair in pairs]
        scores: dict[int, Score] = {}
        for indices in batch_by_tokens(lengths, order=_longest_first(lengths), max_tokens=self.config.batch_tokens):
            batch = collate([pairs[index] for index in indices], indices).to(self.model.device)
            with torch.inference_mode():
                log_probs = log_probabilities(self.model(batch.source_ids, batch.target_input_ids))
            chosen = log_probs.gather(2, batch.target_output_ids[:, :, None])[:, :, 0]
            for index, row in zip(indices, chosen.tolist(), strict=True):
                scores[index] = self._score(row[: len(pairs[index].target) + 1])
        return [scores[index] for index in range(len(pairs))]

    def _encode(self, lines: Sequence[str]) -> list[list[int]]:
        return self.tokenizers.source.encode_lines(lines, num_threads=torch.get_num_threads())

    def _cut(self, source_ids: list[int]) -> list[int]:
        """As much of a source as the model has positions for; the end symbol takes one."""
        return source_ids if self.max_positions is None else source_ids[: self.max_positions - 1]

    def _score(self, token_log_probs: list[float]) -> Score:
        total = sum(token_log_probs)
        penalty = float(length_penalty(torch.tensor(len(token_log_probs)), self.config.length_penalty))
        return Score(total, total / penalty, token_log_probs)

    def _translate_window(self, lines: list[str]) -> Iterator[Translation]:
        encoded = self._encode(lines)
        source_ids = [self._cut(ids) for ids in encoded]
        found: dict[int, Hypothesis] = {}
        # A sentence is as many rows as hypotheses, and each costs its source length, the end symbol included.
        lengths = [(len(ids) + 1) * self.config.beam_size for ids in source_ids]
        order = [index for index in _longest_first(lengths) if source_ids[index] and not lines[index].isspace()]
        for indices in batch_by_tokens(lengths, order=order, max_tokens=self.config.batch_tokens):
            found |= zip(indices, self._search([source_ids[index] for index in indices]), strict=True)
        for index, line in enumerate(lines):
            best = found.get(index, Hypothesis([], 0.0, 0.0, truncated=False))
            is_cut = len(source_ids[index]) < len(encoded[index])
            yield Translation(line, self._one_line(best.ids), *best, source_truncated=is_cut)

    def _one_line(self, ids: list[int]) -> str:
        """The text of the ids. Byte fallback can spell a line break, which would shift all lines after it."""
        return self.tokenizers.target.decode(ids).replace("\r", " ").replace("\n", " ")

    def _search(self, source_ids: list[list[int]]) -> list[Hypothesis]:
        """The best hypothesis of each sentence of a batch.

        Raises:
            RunError: The model's weights are not finite.
        """
        config = self.config
        with torch.inference_mode():
            ids = collate_sources(source_ids).to(self.model.device)
            lengths = torch.tensor([len(sentence) + 1 for sentence in source_ids], device=ids.device)
            max_lengths = (lengths * config.max_length_factor).long() + config.max_length_constant
            if self.max_positions is not None:
                max_lengths = max_lengths.clamp(max=self.max_positions)
            cache = self.model.decoder.start(self.model.encoder(ids), beam_size=config.beam_size)
            results = beam_search(
                CachedDecoder(self.model),
                cache,
                max_lengths=max_lengths,
                beam_size=config.beam_size,
                alpha=config.length_penalty,
                start_id=BOS_ID,
                end_id=EOS_ID,
            )
        if not all(results):
            raise RunError("the model gives no probability to any word: its weights are not finite")
        return [hypotheses[0] for hypotheses in results]


def _longest_first(lengths: Sequence[int]) -> list[int]:
    """Neighbours of like length pad little; and what needs the most memory comes first."""
    return sorted(range(len(lengths)), key=lambda index: -lengths[index])
