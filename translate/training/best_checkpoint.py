"""The best checkpoint: the weights of the best validation or, at the end of training, an average that is better.

What the file `best` may be, and what a resumed run does with it (`restore_best`):

| case | how it comes about | a resumed run |
|---|---|---|
| current | it is of the step that the progress names | keeps it |
| newer | the process was killed before it saved the progress, too | keeps it, because its score was better |
| average | the training had ended, or `translate average` made it | puts the best validation's weights in its place |
| superseded | validations have other data or settings now | keeps it until the next validation replaces it |
| lost | it is missing or damaged, or that validation's weights are | replaces it after the next validation |

Its record in `metrics.jsonl` has the steps that the file itself names; see `runs.metrics.best_checkpoint_record`.
"""

import contextlib
import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from translate.config.decoding import DecodingConfig
from translate.data.corpora import ParallelCorpus, join_texts
from translate.distributed.state import full_state_dict, full_tensor
from translate.evaluation.evaluate import spread_samples
from translate.evaluation.metrics import describe_headlines
from translate.messages import describe_seconds
from translate.model import Transformer
from translate.model.device import LOADING_HINT, explain_out_of_memory
from translate.model.lora import merge_lora
from translate.runs.checkpoint import WEIGHTS_PREFIX, add_prefix, read_tensors, write_checkpoint
from translate.runs.checksums import DamageError
from translate.runs.directory import RunDirectory
from translate.runs.metadata import describe_moment, read_moment
from translate.runs.progress import Progress
from translate.runs.weights import build_model, get_parameters
from translate.training.averaging import ScoredAverage, choose_average, kept_windows, load_average, write_average
from translate.training.signals import StopRequests
from translate.training.state import Training
from translate.training.tracking.recorder import Recorder
from translate.training.validation import (
    Validation,
    describe_validation,
    mean_validation,
    validate,
    validation_records,
)

logger = logging.getLogger(__name__)


@dataclasses.dataclass(eq=False)
class BestCheckpoint:
    """Chooses a run's best weights by its validations; without a validation corpus, the last weights are best."""

    training: Training
    _: dataclasses.KW_ONLY
    recorder: Recorder
    stop: StopRequests

    def __post_init__(self) -> None:
        training = self.training
        self.config, self.run, self.world = training.config, training.run, training.world
        self.settings, self.progress = training.config.training, training.progress
        self.corpora, self.tokenizers = training.data.corpora, training.data.tokenizers
        self.model = training.train_step.model
        self._is_best = False  # whether the last validation's score is
        self._averaged: tuple[int, ...] = ()  # the steps of the checkpoints whose average is the best checkpoint

    @property
    def description(self) -> str:
        """The step or steps of the best checkpoint; empty if there is none."""
        step = self.progress.best_step
        return "" if step is None else describe_moment(step, self._averaged)

    def validate(self) -> float:
        """Score the weights, log the result, and record in the progress whether they are the best or worth keeping.

        Returns:
            The time that it took, in seconds.

        Raises:
            Cancelled: A signal came; nothing has changed.
            RunError: Scoring failed, for example for lack of memory.
        """
        progress, seconds, score, is_best = self.progress, 0.0, None, True
        if self.corpora.validation:
            with self._current_model() as model:
                result = self._score(model, self.corpora.validation)
                others = self._score(model, self.corpora.validation_also)
            seconds = sum(validation.seconds for validation in (*result.values(), *others.values()))
            score = mean_validation(result.values()).score(self.settings.best_metric)
            # Not `score > …`: an older version may have saved a score that is not a number.
            is_best = progress.best_score is None or not score <= progress.best_score
            progress.validations_without_better = 0 if is_best else progress.validations_without_better + 1
            self._log_validation(result, others, is_best=is_best)
        progress.validated_step, self._is_best = progress.step, is_best
        if is_best:
            progress.best_step, progress.best_score = progress.step, score
        progress.keep(score, last=self.settings.keep_last, best=self.settings.keep_best)
        return seconds

    @explain_out_of_memory("saving the best weights", hint=LOADING_HINT)
    def write(self) -> None:
        """Write the weights that were just validated, if they are the best so far or must be kept; rank 0 does it."""
        step = self.progress.step
        names = ["best"] * self._is_best + [f"step-{step}"] * (step in self.progress.kept)
        tensors = full_state_dict(add_prefix(self._weights(), WEIGHTS_PREFIX), self.world) if names else {}
        for name in names:
            self.world.run_on_rank_0(partial(write_checkpoint, self.run, name, tensors, {"step": str(step)}))

    @contextlib.contextmanager
    def _current_model(self) -> Iterator[Transformer]:
        """A model in fp32 with the weights to translate with, which shares most of the training's memory.

        For that, frozen weights in bf16 become fp32 in the training too. Rounding them again loses nothing.
        """
        narrow: list[Tensor] = []
        try:
            with explain_out_of_memory("the validation", hint=LOADING_HINT):
                model, weights = self._build_model(), self._weights()
                for name, parameter in model.named_parameters():
                    is_narrow = weights[name].dtype == torch.bfloat16
                    parameter.data = full_tensor(weights.pop(name)).float()
                    if is_narrow:
                        narrow.append(self.model.get_parameter(name))
                        narrow[-1].data = parameter.data
            yield model
        finally:
            for weight in narrow:
                weight.data = weight.data.bfloat16()

    def _build_model(self) -> Transformer:
        """A model beside the one in training, whose weights are still to be loaded."""
        build = partial(build_model, self.config, self.tokenizers, device=self.model.device, doing="the validation")
        return self.world.run_on_all_ranks(build)

    def _weights(self) -> dict[str, Tensor]:
        """The weights to translate with: averaged if there is an average, and merged with the updates of LoRA."""
        averages = {} if self.training.average is None else self.training.average.tensors
        return merge_lora(get_parameters(self.model) | averages, alpha=self.settings.lora_alpha)

    def _score(
        self, model: Transformer, corpora: Mapping[str, ParallelCorpus], search: DecodingConfig | None = None
    ) -> dict[str, Validation]:
        """The model's loss and scores on corpora, by the last part of their keys; raises `Cancelled` on a signal."""
        world, tokenizers, every_position = self.world, self.tokenizers, model.decoder.final_norm
        share = self.training.data.multi_sentence_share
        found: dict[str, Validation] = {}
        for key, corpus in corpora.items():
            num_lines = 2 * len(corpus.sources[world.share(len(corpus.sources))])  # scored, then translated
            with self.recorder.validating(num_lines) as advance, self.stop.cancelling(every_position):
                score = partial(validate, search=search, multi_sentence_share=share, world=world, on_finished=advance)
                found[key.rpartition(".")[2]] = score(model, tokenizers, corpus, self.config)
        return found

    def _log_validation(self, result: dict[str, Validation], others: dict[str, Validation], *, is_best: bool) -> None:
        """Record the results of a validation, and log some of its translations, evenly spaced."""
        step, mean = self.progress.step, mean_validation(result.values())
        translations = mean.evaluation.translations
        record, *parts = validation_records(result, "validation", step=step)
        parts += [validation.to_record(f"validation/{name}", step=step) for name, validation in others.items()]
        self.recorder.record(record)
        scores, rest = describe_validation(record, is_best=is_best)
        logger.info(f"{scores}{rest}", extra={"bold": scores})
        self._log_parts(parts)
        if described := mean.describe_guessing(self.settings, step=step):
            logger.warning(described)
        if num_cut := record["num_truncated"]:
            logger.info(f"  {num_cut:,} of {len(translations):,} translations were cut at their maximum length")
        _, references = join_texts(self.corpora.validation.values())
        for index in spread_samples(len(translations), self.settings.sample_translations):
            source, reference, translation = translations[index].source, references[index], translations[index].text
            logger.info(f"  source:      {source}\n  reference:   {reference}\n  translation: {translation}")

    def _log_parts(self, records: Sequence[dict[str, Any]]) -> None:
        """Record and log the validations behind a mean, and those that decide nothing."""
        for record in records:
            self.recorder.record(record)
            logger.info("".join(describe_validation(record, name=record["kind"].partition("/")[2])))

    def average_kept(self) -> None:
        """Make an average of kept checkpoints the best one, if it is better.

        A resumed run undoes this, and averages when it ends itself.

        Raises:
            Cancelled: A signal came; nothing has changed.
        """
        settings, progress, corpora = self.settings, self.progress, self.corpora.validation
        windows = kept_windows(progress, last=settings.keep_last, best=settings.keep_best)
        if not settings.average_kept or not corpora or progress.best_step is None or not windows:
            return
        logger.info("The best checkpoint, and averages of kept ones, on validation:")
        model = self._build_model()

        def record(scored: ScoredAverage) -> None:
            numbers = scored.to_record(step=progress.step)
            self.recorder.record(numbers)
            logger.info("".join(describe_validation(numbers, name=scored.name)))

        score, metric = partial(self._score, model, corpora), settings.best_metric
        chosen = choose_average(
            self.run, windows, model, metric=metric, score=score, on_scored=record, world=self.world
        )
        if len(chosen.checkpoints) > 1:
            self.world.run_on_rank_0(lambda: write_average(self.run, chosen.checkpoints, model))
            self._averaged = chosen.steps

    def evaluate(self) -> None:
        """Score the best checkpoint with the settings of `decoding`; see `Config.evaluates_at_end`.

        The record comes after the last checkpoint: a resumed run removes it, and writes its own at the end.

        Raises:
            Cancelled: A signal came; nothing is recorded.
        """
        search, progress, corpora = self.config.decoding_settings(), self.progress, self.corpora.validation
        if not self.config.evaluates_at_end or progress.best_step is None:
            return
        model = self._build_model()
        load_average(self.run, ["best"], model, world=self.world)
        result = self._score(model, corpora, search)
        of_what = {"averaged": self._averaged} if self._averaged else {"best_step": progress.best_step}
        records = validation_records(result, "evaluation", step=progress.step)
        record, *parts = [{**numbers, **of_what} for numbers in records]
        self.recorder.record(record)
        text = f"Best checkpoint ({self.description}), {search.brief}: {describe_headlines(record)}"
        seconds = round(sum(validation.seconds for validation in result.values()), 3)
        logger.info(f"{text}, {describe_seconds(seconds)}", extra={"bold": text})
        self._log_parts(parts)


def restore_best(run: RunDirectory, progress: Progress, *, validation_fingerprint: str | None) -> None:
    """Make the progress of a resumed run agree with its best checkpoint, see the table above, and with the kept ones.

    Args:
        validation_fingerprint: Of the validations from now on.

    Raises:
        RunError: The file cannot be read for another reason than damage.
    """
    if progress.best_score is not None and progress.validation_fingerprint != validation_fingerprint:
        logger.warning(
            f"data.validation, or a setting that affects scores, has changed since the best step {progress.best_step}:"
            " new scores are not compared with the old one, and the weights of the next validation become the best"
        )
        progress.best_score, progress.validations_without_better = None, 0
        progress.kept = dict.fromkeys(progress.kept)
    progress.validation_fingerprint = validation_fingerprint
    there = run.kept_steps()
    progress.kept = {step: score for step, score in progress.kept.items() if step in there}
    if progress.best_step is None:
        return
    best, single = run.checkpoint("best"), run.checkpoint(f"step-{progress.best_step}")
    try:
        step, averaged = read_moment(best, read_tensors(best, prefixes=()).metadata)
        if not averaged:
            progress.best_step = max(step, progress.best_step)
            return
        tensors, metadata, _ = read_tensors(single)
    except DamageError as error:
        what = f"The best weights so far, from step {progress.best_step}, are lost"
        progress.best_step, progress.best_score = None, None
        logger.warning(f"{error}. {what}: the next validation's weights replace them")
    else:
        logger.info(f"{best.name} was an average of checkpoints; it is {single.name} again while training continues")
        write_checkpoint(run, "best", tensors, metadata)
