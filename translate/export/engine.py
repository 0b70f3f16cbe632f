"""CTranslate2 as an engine in the place of our own search: text in, text out, the same translations.

Its beam search is ours: a hypothesis that ends leaves its place to another one, until `beam_size` have ended. The only
length penalty there is length^alpha, so the run's own scoring ranks them here.
"""

import copy
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from translate.config.decoding import DecodingConfig
from translate.config.load import read_resolved_config
from translate.data.batching import EncodedPair, batch_by_tokens
from translate.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, load_tokenizers
from translate.decoding import OnFinished, Translation, Translator, ignore_progress
from translate.decoding.request import SearchInput
from translate.decoding.score import ForcedDecoding
from translate.decoding.search.beam import Hypothesis
from translate.decoding.search.scoring import build_scoring, maximum_lengths
from translate.errors import InputError, RunError
from translate.export.checks import import_extra, only_ours
from translate.export.ctranslate2 import convert_run, max_positions
from translate.model.device import num_cores
from translate.runs.directory import Checkpoint, open_run
from translate.runs.loading import build_model

_COMPUTE_TYPES = {"fp32": "float32", "int8": "int8", "bf16": "bfloat16"}


class CTranslate2Translator(Translator):
    """Translates lines of text with a run's model, which is converted to CTranslate2 and kept in the run.

    Args:
        config: Settings of the search; None: those of the run. `workers` is the number of threads, each of which
            searches its own sentences; null: one for each core.

    Raises:
        InputError: The package is not installed, or CTranslate2 lacks a setting of the config; the error names the key.
        RunError: The run is damaged or cannot be written to, or the converted model gives other numbers.
    """

    def __init__(
        self, run_path: Path, config: DecodingConfig | None = None, *, checkpoint: Checkpoint = "best"
    ) -> None:
        run = open_run(run_path)
        run_config = read_resolved_config(run.config)
        config = config or run_config.decoding_settings()
        _check_search(config)
        tokenizers = load_tokenizers(run.tokenizer)
        with torch.device("meta"):  # the weights are in the converted model
            model = build_model(run_config, tokenizers)
        super().__init__(model, tokenizers, config)
        self.max_positions = max_positions(run_config.model)
        target = tokenizers.target
        self._ids = {piece: number for number, piece in enumerate(target.pieces(range(target.vocab_size)))}
        self._never = [[piece] for piece in target.pieces([PAD_ID, BOS_ID])]
        # Of more than `beam_size` hypotheses the best stay: nearly by our penalty. With 0 it would stop at the first.
        self._alpha = max(1e-30, 0.7 * config.length_penalty)
        self._num_workers = config.workers or num_cores()
        self._folder = convert_run(run_path, checkpoint=checkpoint)
        name, _, index = config.device.partition(":")
        try:
            self._translator = import_extra("ctranslate2").Translator(
                os.fsencode(self._folder),
                device=name,
                device_index=int(index or 0),
                compute_type=_COMPUTE_TYPES[config.precision],
                inter_threads=self._num_workers,
                intra_threads=1,
                max_queued_batches=-1,  # as many as a window has
            )
        except (ValueError, RuntimeError) as error:
            raise InputError(
                f"device = {config.device} and precision = {config.precision}: CTranslate2 cannot load the model:"
                f" {error}; choose others, or the engine translate"
            ) from error

    def with_options(self, **options: object) -> "CTranslate2Translator":
        """The same translator with some of its settings changed; see `Translator.with_options`."""
        changed = super().with_options(**options)
        _check_search(changed.config)
        translator = copy.copy(self)
        translator.config, translator.source_limit = changed.config, changed.source_limit
        return translator

    def force(self, pairs: Sequence[EncodedPair], *, on_finished: OnFinished = ignore_progress) -> list[ForcedDecoding]:
        """Raise an InputError: CTranslate2 does not give the attention that forced decoding returns."""
        raise InputError("the engine ctranslate2 cannot score or align given translations; use the engine translate")

    def _search(self, inputs: list[SearchInput], on_found: Callable[[int], object]) -> dict[int, list[Hypothesis]]:
        """The hypotheses of each input by its index, the best score first; an input without any word has none.

        A batch has one maximum length, the largest of its sentences. A sentence that reached its own maximum is
        searched again, with others of the same maximum. So is a sentence with a symbol that ours never generates: only
        then is the symbol suppressed, because that changes the probabilities of the other tokens.

        Raises:
            InputError: An input has constraints, or is longer than the exported table of positions.
        """
        if any(each.prefix_ids or each.phrase_ids for each in inputs):
            raise InputError("the engine ctranslate2 has no prefixes, phrases or terminology; use the engine translate")
        lengths = [len(each.source_ids) + 1 for each in inputs]
        if self.max_positions is not None and max(lengths) > self.max_positions:
            line = inputs[lengths.index(max(lengths))].line + 1
            raise InputError(
                f"line {line}: the source has {max(lengths)} tokens with its end symbol, and the engine ctranslate2 has"
                f" {self.max_positions} positions; lower decoding.max_source_tokens, or use the engine translate"
            )
        limits = maximum_lengths(torch.tensor(lengths), self.config, max_positions=self.max_positions).tolist()
        order = [index for index, each in enumerate(inputs) if each.source_ids and not each.source.isspace()]
        order.sort(key=lambda index: -lengths[index])
        costs = [length * self.config.beam_size for length in lengths]
        per_worker = -(-sum(costs[index] for index in order) // self._num_workers)
        batches = batch_by_tokens(costs, order=order, max_tokens=min(self.config.batch_tokens, per_worker))
        found: dict[int, list[Hypothesis]] = {}
        again: list[int] = []
        for batch, results in self._run(batches, inputs, limits, never=None):
            longest = max(limits[index] for index in batch)
            for index, result in zip(batch, results, strict=True):
                reached = max(map(len, result.hypotheses))
                is_within = reached < limits[index] or limits[index] == longest
                if is_within and not any([piece] in self._never for piece in itertools.chain(*result.hypotheses)):
                    found[index] = self._ranked(result)
                    on_found(index)
                else:
                    again.append(index)
        again.sort(key=lambda index: limits[index])
        groups = [list(group) for _, group in itertools.groupby(again, key=lambda index: limits[index])]
        for batch, results in self._run(groups, inputs, limits, never=self._never):
            for index, result in zip(batch, results, strict=True):
                found[index] = self._ranked(result)
                on_found(index)
        return found

    def _run(
        self, batches: list[list[int]], inputs: list[SearchInput], limits: list[int], *, never: list[list[str]] | None
    ) -> Iterator[tuple[list[int], list[Any]]]:
        """Each batch with CTranslate2's results; all batches wait in its queue, from which its workers take them."""
        beam_size, alpha = self.config.beam_size, self._alpha
        waiting = [
            self._translator.translate_batch(
                [self.tokenizers.source.pieces(inputs[index].source_ids) for index in batch],
                asynchronous=True,
                beam_size=beam_size,
                num_hypotheses=beam_size,
                length_penalty=alpha,
                min_decoding_length=0,
                max_decoding_length=max(limits[index] for index in batch),
                max_input_length=0,  # no limit
                suppress_sequences=never,
                return_scores=True,
                return_end_token=True,
            )
            for batch in batches
        ]
        for batch, results in zip(batches, waiting, strict=True):
            try:
                yield batch, [result.result() for result in results]
            except RuntimeError as error:
                hint = f"Lower decoding.batch_tokens, or remove {self._folder}, and it is made again"
                raise RunError(f"CTranslate2 cannot translate: {error}. {hint}") from error

    def _ranked(self, result: Any) -> list[Hypothesis]:
        scoring = build_scoring(self.config)
        hypotheses = []
        for pieces, log_prob in zip(result.hypotheses, result.scores, strict=True):
            ids = [self._ids[piece] for piece in pieces]
            log_prob *= len(ids) ** self._alpha
            score = float(scoring.score(torch.tensor(log_prob), torch.tensor(len(ids))))
            is_ended = ids[-1] == EOS_ID
            hypotheses.append(Hypothesis(ids[:-1] if is_ended else ids, [log_prob], score, truncated=not is_ended))
        return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)

    def _translation(self, given: SearchInput, hypotheses: list[Hypothesis]) -> Translation:
        """As ours, but CTranslate2 gives the sum of a translation's log-probabilities and not those of its tokens."""
        made = super()._translation(given, hypotheses)
        others = tuple(each._replace(token_log_probs=()) for each in made.alternatives)
        return made._replace(token_log_probs=(), alternatives=others)


def _check_search(config: DecodingConfig) -> None:
    """Raise an InputError that names the settings of a search that CTranslate2 lacks."""
    if lacking := only_ours(config):
        raise InputError(f"the engine ctranslate2 cannot search as {', '.join(lacking)} asks; use the engine translate")
