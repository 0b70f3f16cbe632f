"""CTranslate2 in the place of our own search: the same translations from a model that is converted once.

Its beam search is ours: a hypothesis that ends leaves its place to another one, and both have the same patience. The
only length penalty there is length^alpha, so the run's own scoring ranks them here.
"""

import copy
import dataclasses
import importlib.util
import itertools
import logging
import math
import os
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import torch

from translate.config.decoding import DecodingConfig
from translate.config.load import override_config, read_resolved_config
from translate.data.batching import EncodedPair, batch_by_tokens
from translate.data.tokenizer import BOS_ID, EOS_ID, PAD_ID
from translate.decoding import Translator
from translate.decoding.engines.ctranslate2_conversion import convert_run, find_conversion, max_positions
from translate.decoding.loading import LoadedTranslator, load_translator, only_ours, resolve_auto
from translate.decoding.request import SearchInput
from translate.decoding.search.beam import PATIENCE, Hypothesis
from translate.decoding.search.loop import OnStep
from translate.decoding.search.scoring import build_scoring, maximum_lengths
from translate.decoding.translator import MANY_LINES, OnFound
from translate.errors import InputError, RunError, import_extra
from translate.runs.directory import Checkpoint, open_run

logger = logging.getLogger(__name__)

_BATCHES_PER_WORKER = {True: 4, False: 12}  # by whether the search is greedy
_LEAST_TOKENS = 600  # source tokens of a batch, times the beam size: products of fewer rows are slow
CONVERT_FROM = MANY_LINES  # sentences that are searched together: with fewer, our own search is done sooner
_COMPUTE_TYPES = {"fp32": "float32", "int8": "int8", "bf16": "bfloat16"}


def load_engine(
    run: str | PathLike[str],
    *,
    checkpoint: Checkpoint = "best",
    options: dict[str, Any],
    token_scores: bool = True,
    **others: Any,
) -> LoadedTranslator:
    """Load a translator that searches with the engine of `decoding.engine`.

    Args:
        options: As in `load_translator`, and so are `others`.
        token_scores: Whether translations need the log-probabilities of their tokens, which cost CTranslate2 time.
            Without them, scores of greedy search are NaN.

    Raises:
        InputError: As in `load_translator`; or CTranslate2 is asked for, and is not installed or lacks something.
        RunError: As in `load_translator`; or CTranslate2 is asked for, and the model cannot be converted.
    """
    config = read_resolved_config(open_run(Path(run)).config)
    given = override_config(config, {f"decoding.{key}": value for key, value in options.items()}).decoding
    asked_for = [name for name, value in others.items() if value]
    if given.engine == "ctranslate2":
        _check_search(given, asked_for)
    resolved = resolve_auto(given, others=asked_for)
    is_required = given.engine == "ctranslate2" or given.precision == "int8"
    speed = {"engine": resolved.engine, "precision": resolved.precision}
    loaded = load_translator(run, checkpoint=checkpoint, options={**options, **speed}, **others)
    if resolved.engine != "ctranslate2":
        lacking = [
            *only_ours(given),
            *asked_for,
            *(["decoding.precision = 'bf16'"] if given.precision == "bf16" else []),
        ]
        is_expected = lacking and given.engine == "auto" and loaded.translator.model.device.type == "cpu"
        if is_expected and importlib.util.find_spec("ctranslate2"):
            loaded.translator.many_lines_note = (
                f"Searching with translate: CTranslate2 cannot search with {', '.join(lacking)}"
            )
        return loaded
    model = ConvertedModel(loaded.run.directory, checkpoint, is_required=is_required)
    return loaded._replace(translator=CTranslate2Translator(loaded.translator, model, token_scores=token_scores))


@dataclasses.dataclass
class ConvertedModel:
    """A run's model in CTranslate2, which is converted and loaded as soon as it pays.

    Args:
        is_required: There is an error, instead of our own search, where CTranslate2 cannot be used.
    """

    run: Path
    checkpoint: Checkpoint
    is_required: bool
    folder: Path | None = None
    translator: Any = None
    is_given_up: bool = False

    def load(self, translator: Translator, *, num_sentences: int) -> Any:
        """The `ctranslate2.Translator` for the settings of a translator; None: our own search is to be used.

        Raises:
            InputError, RunError: As in `convert_run`, if CTranslate2 is required.
        """
        if self.translator is not None or self.is_given_up:
            return self.translator
        config = translator.config
        try:
            self.folder = self.folder or find_conversion(self.run, checkpoint=self.checkpoint)
            if not (self.is_required or self.folder.is_dir() or num_sentences >= CONVERT_FROM):
                return None
            self.folder = convert_run(self.run, checkpoint=self.checkpoint)
            self.translator = open_converted(self.folder, config, compute_type=_COMPUTE_TYPES[config.precision])
            logger.info(f"Searching with CTranslate2 in {config.precision}")
        except (InputError, RunError, RuntimeError, ValueError) as error:
            if not self.is_required:
                self.is_given_up = True
                logger.warning(f"Searching without CTranslate2: {error}")
            elif isinstance(error, RuntimeError | ValueError) and not isinstance(error, InputError | RunError):
                raise InputError(
                    f"device = {config.device} and precision = {config.precision}: CTranslate2 cannot load the model:"
                    f" {error}; choose others, or the engine translate"
                ) from error
            else:
                raise
        return self.translator


class CTranslate2Translator(Translator):
    """Translates with CTranslate2 what it translates as our own search does, and the rest with that.

    Args:
        translator: The translator of the same run with our own search.
        token_scores: Whether translations have the log-probabilities of their tokens.

    Raises:
        InputError, RunError: As in `ConvertedModel.load`.
    """

    def __init__(self, translator: Translator, model: ConvertedModel, *, token_scores: bool = True) -> None:
        self.__dict__.update(vars(translator))
        self._converted, self._token_scores = model, token_scores
        target = self.tokenizers.target
        self._ids = {piece: number for number, piece in enumerate(target.pieces(range(target.vocab_size)))}
        self._never = set(target.pieces([PAD_ID, BOS_ID]))
        if model.is_required:
            model.load(self, num_sentences=0)

    def convert(self) -> bool:
        """Convert and load the model now, as before many lines; whether CTranslate2 will search.

        Raises:
            InputError, RunError: As in `ConvertedModel.load`.
        """
        return self._converted.load(self, num_sentences=CONVERT_FROM) is not None

    def with_options(self, **options: object) -> "CTranslate2Translator":
        """The same translator with some of its settings changed; see `Translator.with_options`."""
        changed = super().with_options(**options)
        if self._converted.is_required:
            _check_search(changed.config)
        translator = copy.copy(self)
        translator.__dict__.update(vars(changed))
        return translator

    def _search(self, inputs: list[SearchInput], on_found: OnFound, on_step: OnStep | None = None) -> None:
        """Find the hypotheses of each input that has a word.

        A batch has one maximum length, the largest of its sentences. A sentence that reached its own maximum is
        searched again, with others of the same maximum. So is a sentence with a symbol that ours never generates: only
        then is the symbol suppressed, because that changes the probabilities of the other tokens.

        Raises:
            InputError: CTranslate2 is required, and an input has phrases.
        """
        lengths = [len(each.source_ids) + 1 for each in inputs]
        limits = maximum_lengths(torch.tensor(lengths), self.config, position_limit=self.position_limit).tolist()
        most = max_positions(self.model.config) or math.inf
        if self._converted.is_required and any(each.phrase_ids for each in inputs):
            raise InputError("the engine ctranslate2 has no phrases or terminology; use the engine auto")
        order = [
            index
            for index, each in enumerate(inputs)
            if not each.phrase_ids
            and len(each.prefix_ids) < limits[index]
            and max(lengths[index], limits[index]) <= most
            and each.source_ids
            and not each.source.isspace()
        ]
        engine = None
        is_watched = on_step is not None and not self._converted.is_required
        if order and not is_watched and not only_ours(self.config):
            engine = self._converted.load(self, num_sentences=len(order))
        if engine is None:
            super()._search(inputs, on_found, on_step)
            return
        prefix_log_probs = self._score_prefixes(inputs, order)
        self._search_ours(inputs, sorted(set(range(len(inputs))) - set(prefix_log_probs)), on_found)
        order = sorted(prefix_log_probs, key=lambda index: (bool(inputs[index].prefix_ids), -lengths[index]))
        costs = [length * self.config.beam_size for length in lengths]
        # A few batches for each worker, so that all are busy to the end, and translations are made meanwhile.
        num_batches = _BATCHES_PER_WORKER[self.config.beam_size == 1] * (self.config.workers or torch.get_num_threads())
        share = -(-sum(costs[index] for index in order) // num_batches)
        least = _LEAST_TOKENS * self.config.beam_size
        max_tokens = min(self.config.batch_tokens, max(share, least))
        jobs: list[tuple[list[int], bool]] = []  # sentences, and whether symbols are suppressed
        for _, group in itertools.groupby(order, key=lambda index: bool(inputs[index].prefix_ids)):
            jobs += [(batch, False) for batch in batch_by_tokens(costs, order=list(group), max_tokens=max_tokens)]
        penalties = build_scoring(self.config).penalty(torch.arange(max(limits) + 2)).tolist()
        unsure: list[int] = []
        while jobs:
            again: list[tuple[bool, int, bool, int]] = []  # is it odd, its maximum length, has it a prefix, its number
            for (batch, is_suppressed), results in self._run(engine, jobs, inputs, limits):
                longest = max(limits[index] for index in batch)
                found: dict[int, list[Hypothesis]] = {}
                for index, result in zip(batch, results, strict=True):
                    hypotheses = result.hypotheses
                    if not self._has_scores:  # greedy: what stands before its own maximum would be the same
                        hypotheses = [hypotheses[0][: limits[index]]]
                    is_cut = self._has_scores and max(map(len, hypotheses)) >= limits[index] < longest
                    is_odd = not (is_suppressed or self._never.isdisjoint(itertools.chain(*hypotheses)))
                    if is_cut or is_odd:
                        again.append((is_suppressed or is_odd, limits[index], bool(inputs[index].prefix_ids), index))
                    elif ranked := self._ranked(hypotheses, result.scores, penalties, prefix_log_probs[index]):
                        found[index] = ranked
                    else:
                        unsure.append(index)
                if self._token_scores and found:
                    self._score_tokens(engine, inputs, found)
                for index, ranked in found.items():
                    on_found(index, ranked)
            groups = itertools.groupby(sorted(again), key=lambda each: each[:3])
            jobs = [([index for *_, index in alike], is_odd) for (is_odd, *_), alike in groups]
        self._search_ours(inputs, unsure, on_found)

    def _search_ours(self, inputs: list[SearchInput], indices: list[int], on_found: OnFound) -> None:
        if any(inputs[index].source_ids for index in indices):
            chosen = [inputs[index] for index in indices]
            super()._search(chosen, lambda number, hypotheses: on_found(indices[number], hypotheses))

    def _score_prefixes(self, inputs: list[SearchInput], order: list[int]) -> dict[int, float]:
        """The log-probability of the prefix of each input, which CTranslate2's scores leave out; 0 without a prefix.

        Inputs that CTranslate2 would search otherwise are left out. At the first token that is free it drops the end
        symbol, and one place of the beam with it, unless nothing is more probable.
        """
        log_probs = dict.fromkeys(order, 0.0)
        begun = [index for index in order if inputs[index].prefix_ids] if self._has_scores else []
        pairs = [EncodedPair(inputs[index].source_ids, list(inputs[index].prefix_ids)) for index in begun]
        for index, forced in zip(begun, self.force(pairs) if pairs else [], strict=True):
            log_probs[index] = math.fsum(forced.token_log_probs[:-1])
            if 0 < forced.token_ranks[-1] < self.config.beam_size + len(self._never) and self.config.beam_size > 1:
                del log_probs[index]
        return log_probs

    @property
    def _has_scores(self) -> bool:
        return self._token_scores or self.config.beam_size > 1

    @property
    def _alpha(self) -> float:
        """CTranslate2's length penalty: of more than `beam_size` hypotheses it keeps the best by it, as ours does.

        It is near the run's own, and not 0, because with that it would stop at the first hypothesis.
        """
        config = self.config
        share = {"gnmt": 0.7, "average": 1.0, "none": 0.0}[config.length_penalty_kind]
        return max(1e-30, share * config.length_penalty)

    def _run(
        self,
        engine: Any,
        jobs: list[tuple[list[int], bool]],
        inputs: list[SearchInput],
        limits: list[int],
    ) -> Iterator[tuple[tuple[list[int], bool], list[Any]]]:
        """Each batch with CTranslate2's results; all batches wait in its queue, from which its workers take them."""
        patience = 1 if self.config.beam_size == 1 else PATIENCE
        waiting = [
            engine.translate_batch(
                [self.tokenizers.source.pieces(inputs[index].source_ids) for index in batch],
                self._prefixes(inputs, batch),
                asynchronous=True,
                beam_size=self.config.beam_size,
                num_hypotheses=patience * self.config.beam_size,  # all: the run's own scoring chooses among them
                patience=patience,
                length_penalty=self._alpha,
                min_decoding_length=0,
                max_decoding_length=max(limits[index] for index in batch),
                max_input_length=0,  # no limit
                suppress_sequences=[[piece] for piece in self._never] if is_suppressed else None,
                return_scores=self._has_scores,  # greedy search would compute them only for this
                return_end_token=True,
            )
            for batch, is_suppressed in jobs
        ]
        for job, results in zip(jobs, waiting, strict=True):
            try:
                yield job, [result.result() for result in results]
            except RuntimeError as error:
                hint = f"Lower decoding.batch_tokens, or remove {self._converted.folder}, and it is made again"
                raise RunError(f"CTranslate2 cannot translate: {error}. {hint}") from error

    def _prefixes(self, inputs: list[SearchInput], batch: list[int]) -> list[list[str]] | None:
        """The prefixes of a batch, of which all sentences have one or none has."""
        if not inputs[batch[0]].prefix_ids:
            return None
        return [self.tokenizers.target.pieces(inputs[index].prefix_ids) for index in batch]

    def _ranked(
        self, hypotheses: Sequence[list[str]], scores: Sequence[float], penalties: Sequence[float], prefix: float
    ) -> list[Hypothesis]:
        """The hypotheses by the run's own scoring.

        There are none if CTranslate2 may have left out a better one. In the last step more can end than it can give;
        those that it leaves out are the worst by its own length penalty, and no longer than the longest. They are taken
        to be no shorter than the shortest either.
        """
        if not self._has_scores:
            scores = [math.nan]
        ranked = []
        for pieces, their_score in zip(hypotheses, scores, strict=True):
            log_prob = prefix + their_score * len(pieces) ** self._alpha
            ranked.append((log_prob / penalties[len(pieces)], log_prob, pieces))
        ranked.sort(key=lambda each: -each[0])
        made = []
        is_full = self.config.beam_size > 1 and len(ranked) == PATIENCE * self.config.beam_size
        del ranked[self.config.beam_size if self.config.n_best > 1 else 1 :]
        if is_full:
            lengths = range(min(map(len, hypotheses)), max(map(len, hypotheses)) + 1)
            if max((prefix + min(scores) * n**self._alpha) / penalties[n] for n in lengths) > ranked[-1][0]:
                return []
        for score, log_prob, pieces in ranked:
            ids = [self._ids[piece] for piece in pieces]
            is_ended = ids[-1] == EOS_ID
            made.append(Hypothesis(ids[:-1] if is_ended else ids, [log_prob], score, truncated=not is_ended))
        return made

    def _score_tokens(self, engine: Any, inputs: list[SearchInput], found: dict[int, list[Hypothesis]]) -> None:
        """Give the hypotheses the log-probabilities of their tokens, by forced decoding."""
        shown = [(index, number) for index in found for number in range(len(found[index]))]
        given = [found[index][number] for index, number in shown]
        scored = engine.score_batch(
            [self.tokenizers.source.pieces(inputs[index].source_ids) for index, _ in shown],
            # The last token of one that was cut may have the last position that there is.
            [self.tokenizers.target.pieces(each.ids[: len(each.ids) - each.truncated]) for each in given],
            max_batch_size=self.config.batch_tokens,
            batch_type="tokens",
            max_input_length=0,
        )
        for (index, number), each, result in zip(shown, given, scored, strict=True):
            log_probs = list(result.log_probs)
            if each.truncated:
                log_probs[-1] = each.log_prob - math.fsum(log_probs[:-1])
            found[index][number] = each._replace(token_log_probs=log_probs)


def open_converted(folder: Path, config: DecodingConfig, *, compute_type: str) -> Any:
    name, _, index = config.device.partition(":")
    return import_extra("ctranslate2").Translator(
        os.fsencode(folder),
        device=name,
        device_index=int(index or 0),
        compute_type=compute_type,
        inter_threads=config.workers or torch.get_num_threads(),
        intra_threads=1,
        max_queued_batches=-1,  # as many as a buffer has
    )


def _check_search(config: DecodingConfig, others: Sequence[str] = ()) -> None:
    """Raise an InputError that names what a search is asked for and CTranslate2 lacks."""
    if lacking := [*only_ours(config), *others]:
        raise InputError(
            f"the engine ctranslate2 cannot search with {', '.join(lacking)}; use the engine auto or translate"
        )
