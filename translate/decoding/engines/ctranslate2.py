"""CTranslate2 instead of our own search: the same translations, from a model that is converted once.

Its beam search is ours: a finished hypothesis makes room for another one, and both have the same patience. Its only
length penalty is length^alpha, so its hypotheses are ranked here, by the run's own scoring. What it would translate
otherwise, our own search translates.
"""

import itertools
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch

from translate.config.decoding import DecodingConfig
from translate.data.batching import EncodedPair, batch_by_tokens
from translate.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, Tokenizers
from translate.decoding.engines.ctranslate2_conversion import position_limit
from translate.decoding.engines.engine import SearchJob, has_words
from translate.decoding.engines.own import OwnEngine
from translate.decoding.request import SearchInput
from translate.decoding.score import force_decode
from translate.decoding.search.beam import PATIENCE, Hypothesis
from translate.decoding.search.scoring import build_scoring, maximum_lengths
from translate.errors import InputError, RunError, import_extra

# Settings that only our own search has; with the defaults of all of them a search is plain beam search.
_ONLY_OURS = {
    "search", "coverage_penalty", "min_length_factor", "min_length_constant", "diversity_groups", "mbr",
    "no_repeat_ngram", "repetition_penalty", "shortlist",
}  # fmt: skip
_COMPUTE_TYPES = {"fp32": "float32", "int8": "int8", "bf16": "bfloat16"}
_BATCHES_PER_WORKER = {True: 4, False: 12}  # by whether the search is greedy
_LEAST_TOKENS = 600  # source tokens of a batch, times the beam size: products of fewer rows are slow
_LENGTH_POWERS = {"gnmt": 0.7, "average": 1.0, "none": 0.0}  # alpha, as a share of the run's own, by its kind


def missing_settings(config: DecodingConfig) -> list[str]:
    """The settings of a search that other programs do not have, as "decoding.key = value"."""
    missing = config.model_dump(include=_ONLY_OURS, exclude_defaults=True)
    return [f"decoding.{key} = {value!r}" for key, value in missing.items()]


def check_ctranslate2(config: DecodingConfig, others: Sequence[str] = ()) -> None:
    """Check that CTranslate2 can search with these settings, and with others, such as an ensemble.

    Raises:
        InputError: It cannot.
    """
    if missing := [*missing_settings(config), *others]:
        raise InputError(
            f"the engine ctranslate2 cannot search with {', '.join(missing)}; use the engine auto or translate"
        )


class CTranslate2Engine:
    """Searches with CTranslate2.

    Args:
        own: Our own model of the same run, which searches what CTranslate2 would search otherwise.
        folder: The converted model.
        config: The device, the precision and the number of workers.
        has_token_scores: Hypotheses need the log-probabilities of their tokens, which take time. Without them, scores
            of greedy search are NaN.
        compute_type: CTranslate2's name of a precision, instead of the config's.

    Raises:
        InputError: CTranslate2 is not installed, or does not have the precision or the device.
    """

    def __init__(
        self,
        own: OwnEngine,
        tokenizers: Tokenizers,
        folder: Path,
        config: DecodingConfig,
        *,
        has_token_scores: bool = True,
        compute_type: str | None = None,
    ) -> None:
        self.own, self.model, self.position_limit = own, own.model, own.position_limit
        self.tokenizers, self.folder, self.has_token_scores = tokenizers, folder, has_token_scores
        target = tokenizers.target
        self._ids = {piece: number for number, piece in enumerate(target.pieces(range(target.vocab_size)))}
        self._never = set(target.pieces([PAD_ID, BOS_ID]))  # symbols that our own search never generates
        device, _, index = config.device.partition(":")
        try:
            self._translator = import_extra("ctranslate2").Translator(
                os.fsencode(folder),
                device=device,
                device_index=int(index or 0),
                compute_type=compute_type or _COMPUTE_TYPES[config.precision],
                inter_threads=config.workers or torch.get_num_threads(),
                intra_threads=1,
                max_queued_batches=-1,  # as many as a buffer has
            )
        except (RuntimeError, ValueError) as error:
            raise InputError(
                f"device = {config.device} and precision = {config.precision}: CTranslate2 cannot load the model:"
                f" {error}; choose others, or the engine translate"
            ) from error

    def check(self, config: DecodingConfig) -> None:
        """See `Engine.check`."""
        check_ctranslate2(config)

    def prepare(self) -> Literal["ctranslate2"]:
        """See `Engine.prepare`."""
        return "ctranslate2"

    def search(self, job: SearchJob) -> None:
        """See `Engine.search`. CTranslate2 does not show hypotheses as they grow.

        Our own search translates what has too many tokens for the converted model, and what CTranslate2 has searched
        otherwise: a batch has one maximum length, the largest of its sentences, so a sentence that has reached its own
        may have gone too far; and CTranslate2 may generate symbols that ours never does.

        Raises:
            InputError: An input has phrases.
        """
        inputs, config = job.inputs, job.config
        if any(each.phrase_ids for each in inputs):
            raise InputError("the engine ctranslate2 has no phrases or terminology; use the engine auto")
        lengths = [len(each.source_ids) + 1 for each in inputs]
        limits = maximum_lengths(torch.tensor(lengths), config, position_limit=self.position_limit).tolist()
        most = position_limit(self.model.config) or math.inf
        fitting = [
            index
            for index, each in enumerate(inputs)
            if has_words(each) and len(each.prefix_ids) < limits[index] and max(lengths[index], limits[index]) <= most
        ]
        prefix_log_probs = self._score_prefixes(inputs, fitting, config)
        ours = [index for index, each in enumerate(inputs) if has_words(each) and index not in prefix_log_probs]
        if ours:
            self.own.search(job.part(ours))
        penalties = build_scoring(config).penalty(torch.arange(max(limits, default=0) + 2)).tolist()
        ours = []
        batches = self._batches(inputs, list(prefix_log_probs), lengths, config)
        waiting = [self._submit(inputs, batch, max(limits[index] for index in batch), config) for batch in batches]
        for batch, results in zip(batches, waiting, strict=True):
            longest = max(limits[index] for index in batch)
            found: dict[int, list[Hypothesis]] = {}
            for index, result in zip(batch, self._results(results), strict=True):
                hypotheses = result.hypotheses
                if not self._has_scores(config):  # greedy: what comes before its own maximum would be the same
                    hypotheses = [hypotheses[0][: limits[index]]]
                is_cut = self._has_scores(config) and max(map(len, hypotheses)) >= limits[index] < longest
                if is_cut or not self._never.isdisjoint(itertools.chain(*hypotheses)):
                    ours.append(index)
                elif ranked := self._ranked(hypotheses, result.scores, penalties, prefix_log_probs[index], config):
                    found[index] = ranked
                else:
                    ours.append(index)
            if self.has_token_scores and found:
                self._score_tokens(inputs, found, config)
            for index, ranked in found.items():
                job.on_found(index, ranked)
        if ours:
            self.own.search(job.part(ours))

    def _score_prefixes(
        self, inputs: Sequence[SearchInput], indices: Sequence[int], config: DecodingConfig
    ) -> dict[int, float]:
        """The log-probability of the prefix of each input, which CTranslate2's scores leave out; 0 without a prefix.

        Inputs that CTranslate2 would search otherwise are left out. At the first token that is free it drops the end
        symbol, and one place of the beam with it, unless nothing is more probable.
        """
        log_probs = dict.fromkeys(indices, 0.0)
        begun = [index for index in indices if inputs[index].prefix_ids] if self._has_scores(config) else []
        pairs = [EncodedPair(inputs[index].source_ids, list(inputs[index].prefix_ids)) for index in begun]
        found = force_decode(self.model, pairs, max_tokens=config.batch_tokens)
        for index, forced in zip(begun, found, strict=True):
            log_probs[index] = math.fsum(forced.token_log_probs[:-1])
            if 0 < forced.token_ranks[-1] < config.beam_size + len(self._never) and config.beam_size > 1:
                del log_probs[index]
        return log_probs

    def _has_scores(self, config: DecodingConfig) -> bool:
        return self.has_token_scores or config.beam_size > 1

    def _batches(
        self, inputs: Sequence[SearchInput], indices: Sequence[int], lengths: Sequence[int], config: DecodingConfig
    ) -> list[list[int]]:
        """A few batches per worker, so that all are busy to the end while finished lines are detokenized.

        All sentences of a batch have a prefix, or none has.
        """
        costs = [length * config.beam_size for length in lengths]
        num_batches = _BATCHES_PER_WORKER[config.beam_size == 1] * (config.workers or torch.get_num_threads())
        share = -(-sum(costs[index] for index in indices) // num_batches)
        max_tokens = min(config.batch_tokens, max(share, _LEAST_TOKENS * config.beam_size))
        batches: list[list[int]] = []
        for has_prefix in (False, True):
            order = [index for index in indices if bool(inputs[index].prefix_ids) == has_prefix]
            order.sort(key=lambda index: -lengths[index])
            batches += batch_by_tokens(costs, order=order, max_tokens=max_tokens)
        return batches

    def _alpha(self, config: DecodingConfig) -> float:
        """CTranslate2's length penalty: of more than `beam_size` hypotheses it keeps the best by it, as ours does.

        It is near the run's own, but not 0, because then CTranslate2 would stop at the first hypothesis.
        """
        return max(1e-30, _LENGTH_POWERS[config.length_penalty_kind] * config.length_penalty)

    def _submit(
        self, inputs: Sequence[SearchInput], batch: Sequence[int], max_length: int, config: DecodingConfig
    ) -> list[Any]:
        """Put a batch into CTranslate2's queue, from which its workers take it; the results come later."""
        patience = 1 if config.beam_size == 1 else PATIENCE
        prefixes = [self.tokenizers.target.pieces(inputs[index].prefix_ids) for index in batch]
        results: list[Any] = self._translator.translate_batch(
            [self.tokenizers.source.pieces(inputs[index].source_ids) for index in batch],
            prefixes if prefixes[0] else None,
            asynchronous=True,
            beam_size=config.beam_size,
            num_hypotheses=patience * config.beam_size,  # all: the run's own scoring chooses among them
            patience=patience,
            length_penalty=self._alpha(config),
            min_decoding_length=0,
            max_decoding_length=max_length,
            max_input_length=0,  # no limit
            return_scores=self._has_scores(config),  # greedy search would compute them only for this
            return_end_token=True,
        )
        return results

    def _results(self, waiting: Sequence[Any]) -> list[Any]:
        try:
            return [result.result() for result in waiting]
        except RuntimeError as error:
            hint = f"Lower decoding.batch_tokens, or remove {self.folder}, which is then made again"
            raise RunError(f"CTranslate2 cannot translate: {error}. {hint}") from error

    def _ranked(
        self,
        hypotheses: Sequence[list[str]],
        scores: Sequence[float],
        penalties: Sequence[float],
        prefix: float,
        config: DecodingConfig,
    ) -> list[Hypothesis]:
        """The hypotheses by the run's own scoring.

        There are none if CTranslate2 may have left out a better one. In the last step more can end than it can give;
        those that it leaves out are the worst by its own length penalty, and no longer than the longest. They are taken
        to be no shorter than the shortest either.
        """
        alpha = self._alpha(config)
        if not self._has_scores(config):
            scores = [math.nan]
        ranked = []
        for pieces, their_score in zip(hypotheses, scores, strict=True):
            log_prob = prefix + their_score * len(pieces) ** alpha
            ranked.append((log_prob / penalties[len(pieces)], log_prob, pieces))
        ranked.sort(key=lambda each: -each[0])
        is_full = config.beam_size > 1 and len(ranked) == PATIENCE * config.beam_size
        del ranked[config.beam_size if config.n_best > 1 else 1 :]
        if is_full:
            lengths = range(min(map(len, hypotheses)), max(map(len, hypotheses)) + 1)
            if max((prefix + min(scores) * n**alpha) / penalties[n] for n in lengths) > ranked[-1][0]:
                return []
        made = []
        for score, log_prob, pieces in ranked:
            ids = [self._ids[piece] for piece in pieces]
            is_ended = ids[-1] == EOS_ID
            made.append(Hypothesis(ids[:-1] if is_ended else ids, [log_prob], score, truncated=not is_ended))
        return made

    def _score_tokens(
        self, inputs: Sequence[SearchInput], found: dict[int, list[Hypothesis]], config: DecodingConfig
    ) -> None:
        """Give the hypotheses the log-probabilities of their tokens, by forced decoding."""
        shown = [(index, number) for index in found for number in range(len(found[index]))]
        given = [found[index][number] for index, number in shown]
        scored = self._translator.score_batch(
            [self.tokenizers.source.pieces(inputs[index].source_ids) for index, _ in shown],
            # The last token of one that was cut may have the last position that there is.
            [self.tokenizers.target.pieces(each.ids[: len(each.ids) - each.truncated]) for each in given],
            max_batch_size=config.batch_tokens,
            batch_type="tokens",
            max_input_length=0,
        )
        for (index, number), each, result in zip(shown, given, scored, strict=True):
            log_probs = list(result.log_probs)
            if each.truncated:
                log_probs[-1] = each.log_prob - math.fsum(log_probs[:-1])
            found[index][number] = each._replace(token_log_probs=log_probs)
