"""CTranslate2 instead of our own search: the same translations, from a model that is converted once.

Its beam search works like ours: a finished hypothesis makes room for another, and both have the same patience. Its only
length penalty is length^alpha, so its hypotheses are ranked here, by the run's own scoring. Lines it would translate
differently are left to our own search.
"""

import itertools
import math
import os
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch

from translate.config.decoding import DecodingConfig
from translate.data.batching import batch_by_tokens
from translate.data.tokenizer import EOS_ID, Tokenizers
from translate.decoding.counterparts import position_limit
from translate.decoding.engines.engine import SearchJob
from translate.decoding.engines.own import OwnEngine
from translate.decoding.search.beam import Hypothesis
from translate.decoding.search.settings import build_scoring, maximum_lengths
from translate.errors import InputError, RunError, import_extra

# Settings that only our own search has; with the defaults of all of them a search is plain beam search.
_ONLY_OURS = {
    "search", "min_length_factor", "min_length_constant", "mbr", "no_repeat_ngram", "repetition_penalty",
    "forbidden_ids",
}  # fmt: skip
_COMPUTE_TYPES = {"fp32": "float32", "int8": "int8", "bf16": "bfloat16"}
_BATCHES_PER_WORKER = {True: 4, False: 12}  # by whether the search is greedy
_LEAST_TOKENS = 600  # source tokens of a batch, times the beam size: products of fewer rows are slow
_MOST_TOKENS = 800  # of a translation times the beam size, where a search can be cancelled: a batch cannot, ours can
_LENGTH_POWERS = {"gnmt": 0.7, "average": 1.0, "none": 0.0}  # alpha, as a share of the run's own, by its kind


def missing_settings(config: DecodingConfig) -> list[str]:
    """The settings of a search that other programs do not have, as "decoding.key = value"."""
    missing = config.model_dump(include=_ONLY_OURS, exclude_defaults=True)
    if config.patience in (0, 1000) and config.beam_size > 1:  # without a limit it always goes to the maximum length
        missing["patience"] = config.patience
    return [f"decoding.{key} = {value!r}" for key, value in missing.items()]


def check_ctranslate2(config: DecodingConfig, others: Sequence[str] = ()) -> None:
    """Check that CTranslate2 can search with these settings, and with other requests, such as an ensemble.

    Raises:
        InputError: It cannot.
    """
    if missing := [*missing_settings(config), *others]:
        raise InputError(
            f"the engine ctranslate2 cannot search with {', '.join(missing)}; use auto or translate, in fp32 or bf16"
        )


class CTranslate2Engine:
    """Searches with CTranslate2.

    Args:
        own: Our own model of the same run, for inputs that CTranslate2 would search differently.
        folder: The converted model.
        config: The device, the precision and the number of workers.
        has_token_scores: Whether hypotheses need the log-probabilities of their tokens, which take time. Without them,
            scores of greedy search are NaN.

    Raises:
        InputError: CTranslate2 is not installed.
        RunError: CTranslate2 cannot load the model: it is damaged, or it needs a precision or a device that is missing.
    """

    def __init__(
        self,
        own: OwnEngine,
        tokenizers: Tokenizers,
        folder: Path,
        config: DecodingConfig,
        *,
        has_token_scores: bool = True,
    ) -> None:
        self.own, self.model, self.position_limit = own, own.model, own.position_limit
        self.tokenizers, self.folder, self.has_token_scores = tokenizers, folder, has_token_scores
        target = tokenizers.target
        self._ids = {piece: number for number, piece in enumerate(target.pieces(range(target.vocab_size)))}
        self._never = set(target.pieces(target.never_generated))  # symbols that our own search never generates
        device, _, index = config.device.partition(":")
        try:
            self._translator = import_extra("ctranslate2").Translator(
                os.fsencode(folder),
                device=device,
                device_index=int(index or 0),
                compute_type=_COMPUTE_TYPES[config.precision],
                inter_threads=config.workers or torch.get_num_threads(),
                intra_threads=1,
                max_queued_batches=-1,  # no limit: `search` limits them
            )
        except (RuntimeError, ValueError, MemoryError) as error:
            raise RunError(
                f"{folder}: CTranslate2 cannot load it on {config.device} in {config.precision}: {error}; choose"
                " another device or precision, or the engine translate"
            ) from error

    def check(self, config: DecodingConfig) -> None:
        """See `Engine.check`."""
        check_ctranslate2(config)

    def prepare(self, num_lines: int | None = None) -> Literal["ctranslate2"]:
        """See `Engine.prepare`."""
        return "ctranslate2"

    def search(self, job: SearchJob) -> None:
        """See `Engine.search`. CTranslate2 does not show hypotheses as they grow.

        Our own search translates sentences that have constraints or too many tokens, for the converted model or for a
        job that can be cancelled, and those that CTranslate2 has searched differently: a batch has one maximum length,
        the largest of its sentences, so a sentence that has reached its own may have gone too far, and one that has
        reached the batch's before its own may have stopped too early; and CTranslate2 may generate symbols that ours
        never does.
        """
        inputs, config = job.inputs, job.config
        lengths = [len(given.source_ids) + 1 for given in inputs]
        num_start = max((len(given.start_ids) for given in inputs), default=0)  # the same for all
        limit = self.position_limit and self.position_limit - num_start
        limits = maximum_lengths(torch.tensor(lengths), config, position_limit=limit).tolist()
        most, caps = position_limit(self.model.config, "ctranslate2") or math.inf, limits
        if job.check is not None:  # the few translations that are longer than usual are searched again
            most = min(most, _MOST_TOKENS // config.beam_size)
            caps = [min(limit, 2 * length + 20) for limit, length in zip(limits, lengths, strict=True)]
        fitting = [
            index
            for index, given in enumerate(inputs)
            if given.is_free and max(lengths[index], caps[index] + num_start) <= most
        ]
        ours = [index for index in set(range(len(inputs))).difference(fitting) if inputs[index].has_words]
        penalties = build_scoring(config).penalty(torch.arange(max(limits, default=0) + 2)).tolist()
        batches = self._batches(job, fitting, lengths)
        submitted = ((batch, self._submit(job, batch, max(caps[index] for index in batch))) for batch in batches)
        # Queued batches cannot be cancelled, so CTranslate2 gets only enough to keep its workers busy.
        waiting = deque(itertools.islice(submitted, 2 * (config.workers or torch.get_num_threads())))
        while waiting:
            if job.check is not None:
                job.check()
            batch, results = waiting.popleft()
            waiting.extend(itertools.islice(submitted, 1))
            longest = max(caps[index] for index in batch)
            found: dict[int, list[Hypothesis]] = {}
            for index, waited in zip(batch, results, strict=True):
                try:
                    result = waited.result()
                except (RuntimeError, ValueError, LookupError) as error:
                    hint = f"Lower decoding.batch_tokens, or remove {self.folder}, to convert the run again"
                    raise RunError(f"CTranslate2 cannot translate: {error}. {hint}") from error
                hypotheses = [pieces[num_start:] for pieces in result.hypotheses]
                reached, limit = max(map(len, hypotheses)), limits[index]
                if self._has_scores(config):
                    scores, is_other = result.scores, limit != longest and reached >= min(limit, longest)
                else:  # greedy: the tokens before its own maximum would be the same
                    hypotheses, scores, is_other = [hypotheses[0][:limit]], [math.nan], reached >= longest < limit
                is_other = is_other or not self._never.isdisjoint(itertools.chain(*hypotheses))
                if ranked := [] if is_other else self._rank(hypotheses, scores, penalties, config, num_start):
                    found[index] = ranked
                else:
                    ours.append(index)
            if self.has_token_scores and found:
                self._score_tokens(job, found)
            for index, ranked in found.items():
                job.on_found(index, ranked)
        self.own.search(job._replace(on_step=None).part(ours))

    def _has_scores(self, config: DecodingConfig) -> bool:
        """Whether greedy search must compute scores."""
        return self.has_token_scores or config.beam_size > 1

    def _batches(self, job: SearchJob, indices: Sequence[int], lengths: Sequence[int]) -> list[list[int]]:
        """A few batches per worker, so that all are busy to the end while finished lines are detokenized.

        If the job can be cancelled, they are small, and short sentences do not wait for long ones.
        """
        config = job.config
        costs = [length * config.beam_size for length in lengths]
        num_batches = _BATCHES_PER_WORKER[config.beam_size == 1] * (config.workers or torch.get_num_threads())
        share = -(-sum(costs[index] for index in indices) // num_batches)
        least = _LEAST_TOKENS * config.beam_size
        max_tokens = min(config.batch_tokens, least if job.check else max(share, least))
        order = sorted(indices, key=lambda index: -lengths[index])
        batches = list(batch_by_tokens(costs, order=order, max_tokens=max_tokens))
        return batches[::-1] if job.check else batches

    def _submit(self, job: SearchJob, batch: Sequence[int], max_length: int) -> list[Any]:
        """Put a batch into CTranslate2's queue, from which its workers take it; the results come later.

        Start tokens are forced: they count in the maximum length and in the hypotheses, not in the log-probabilities.
        """
        config, starts = job.config, [self.tokenizers.target.pieces(job.inputs[index].start_ids) for index in batch]
        results: list[Any] = self._translator.translate_batch(
            [self.tokenizers.source.pieces(job.inputs[index].source_ids) for index in batch],
            asynchronous=True,
            **ctranslate2_search(config),
            target_prefix=starts if starts[0] else None,
            min_decoding_length=0,
            max_decoding_length=max_length + len(starts[0]),
            max_input_length=0,  # no limit
            return_scores=self._has_scores(config),
            return_end_token=True,
        )
        return results

    def _rank(
        self,
        hypotheses: Sequence[list[str]],
        scores: Sequence[float],
        penalties: Sequence[float],
        config: DecodingConfig,
        num_start: int,
    ) -> list[Hypothesis]:
        """The hypotheses ranked by the run's own scoring; none if CTranslate2 may have left out a better one.

        In the last step more hypotheses can end than CTranslate2 returns. It leaves out the worst by its own length
        penalty. They are no longer than the longest that it returns, and are assumed to be no shorter than the
        shortest. Its lengths include the start tokens.
        """
        alpha, ranked = length_power(config), list[Hypothesis]()
        for pieces, their_score in zip(hypotheses, scores, strict=True):
            ids, log_prob = [self._ids[piece] for piece in pieces], their_score * (len(pieces) + num_start) ** alpha
            is_ended = ids[-1] == EOS_ID
            score = log_prob / penalties[len(ids)]
            ranked.append(Hypothesis(ids[:-1] if is_ended else ids, [log_prob], score, truncated=not is_ended))
        ranked.sort(key=lambda hypothesis: -hypothesis.score)
        is_full = config.beam_size > 1 and len(ranked) == config.patience * config.beam_size
        del ranked[config.beam_size if config.n_best > 1 else 1 :]
        lengths = range(min(map(len, hypotheses)), max(map(len, hypotheses)) + 1)
        best_left_out = max(min(scores) * (length + num_start) ** alpha / penalties[length] for length in lengths)
        return [] if is_full and best_left_out > ranked[-1].score else ranked

    def _score_tokens(self, job: SearchJob, found: dict[int, list[Hypothesis]]) -> None:
        """Give the hypotheses the log-probabilities of their tokens, by forced decoding."""
        shown = [(index, hypothesis) for index, ranked in found.items() for hypothesis in ranked]
        # The last token of a truncated hypothesis may be at the last position.
        scored_ids = [hypothesis.ids[: len(hypothesis.ids) - hypothesis.truncated] for _, hypothesis in shown]
        inputs, pieces = job.inputs, self.tokenizers.target.pieces
        scored = self._translator.score_batch(
            [self.tokenizers.source.pieces(inputs[index].source_ids) for index, _ in shown],
            [pieces([*inputs[index].start_ids, *ids]) for (index, _), ids in zip(shown, scored_ids, strict=True)],
            max_batch_size=job.config.batch_tokens,
            batch_type="tokens",
            max_input_length=0,
        )
        found.update((index, []) for index in found)
        for (index, hypothesis), result in zip(shown, scored, strict=True):
            log_probs = list(result.log_probs)[len(inputs[index].start_ids) :]
            if hypothesis.truncated:
                log_probs[-1] = hypothesis.log_prob - math.fsum(log_probs[:-1])
            found[index].append(hypothesis._replace(token_log_probs=log_probs))


def ctranslate2_search(config: DecodingConfig) -> dict[str, Any]:
    """The beam search of a config as CTranslate2's options; they return all hypotheses, for the run's own scoring."""
    patience = 1 if config.beam_size == 1 else config.patience or 2
    return {
        "beam_size": config.beam_size,
        "num_hypotheses": patience * config.beam_size,
        "patience": patience,
        "length_penalty": length_power(config),
    }


def length_power(config: DecodingConfig) -> float:
    """CTranslate2's length penalty, by which it ranks finished hypotheses.

    It is close to the run's own, but never 0, because then CTranslate2 would stop at the first hypothesis.
    """
    return max(1e-30, _LENGTH_POWERS[config.length_penalty_kind] * config.length_penalty)
