"""The best checkpoint: weights are validated, kept if they score best, and averaged at the end if that is better.

Source of averages: Junczys-Dowmunt et al. 2016, https://arxiv.org/abs/1605.04809; why they help: Izmailov et al. 2018,
https://arxiv.org/abs/1803.05407; choices compared for translation: Gao et al. 2022, https://arxiv.org/abs/2210.11803.
"""

import contextlib
import dataclasses
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from torch import Tensor
from torch.profiler import record_function

from translate.config.decoding import DecodingConfig
from translate.data.corpora import ParallelCorpus, join_texts
from translate.distributed.process_group import SINGLE_PROCESS, Cancelled, World
from translate.distributed.state import full_state_dict, full_tensor, is_sharded, load_model_state_dict
from translate.errors import InputError
from translate.evaluation.evaluate import spread_samples
from translate.evaluation.metrics import describe_headlines
from translate.messages import describe_seconds
from translate.model import Transformer
from translate.model.lora import merge_lora, using_weights
from translate.runs.checkpoint import WEIGHTS_PREFIX, add_prefix, read_tensors, write_checkpoint
from translate.runs.directory import Checkpoint, RunDirectory
from translate.runs.loading import (
    SavedWeights,
    build_model,
    check_same_tensors,
    get_parameters,
    read_weights,
)
from translate.runs.metadata import AVERAGED_KEY, describe_moment
from translate.runs.progress import Progress
from translate.training.signals import StopRequests
from translate.training.state import Training
from translate.training.tracking.profile import VALIDATION_AND_SAVING
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
        self.corpora, self.tokenizers, _ = training.data
        self.model = training.train_step.model
        self.superseded: set[int] = set()  # kept steps that the last validation's weights replace
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
            weights, model = self._weights(), self.model
            with contextlib.ExitStack() as lent:
                if any(map(is_sharded, weights.values())):
                    model = build_model(self.config, self.tokenizers, device=model.device)
                    parameters = get_parameters(model)
                    for name, weight in weights.items():
                        parameters[name].copy_(full_tensor(weight))
                else:
                    lent.enter_context(using_weights(model, weights))
                result = self._score(model, self.corpora.validation)
                others = self._score(model, self.corpora.validation_also)
            seconds = sum(each.seconds for each in (*result.values(), *others.values()))
            score = mean_validation(result.values()).score(self.settings.best_metric)
            is_best = progress.best_score is None or score > progress.best_score
            progress.validations_without_better = 0 if is_best else progress.validations_without_better + 1
            self._log_validation(result, others, is_best=is_best)
        progress.validated_step, self._is_best = progress.step, is_best
        if is_best:
            progress.best_step, progress.best_score = progress.step, score
        before = {*progress.kept}
        progress.keep(score, last=self.settings.keep_last, best=self.settings.keep_best)
        self.superseded = before - progress.kept.keys()
        return seconds

    def write(self) -> None:
        """Write the weights that were just validated, if they are the best so far or must be kept; rank 0 does it."""
        step = self.progress.step
        names = ["best"] * self._is_best + [f"step-{step}"] * (step in self.progress.kept)
        tensors = full_state_dict(add_prefix(self._weights(), WEIGHTS_PREFIX), self.world) if names else {}
        for name in names if self.world.is_main_process else []:
            write_checkpoint(self.run, name, tensors, {"step": str(step)})

    def _weights(self) -> dict[str, Tensor]:
        """The weights to translate with: averaged if there is an average, and merged with the updates of LoRA."""
        average = self.training.average
        return merge_lora(self.model, get_parameters(self.model) | ({} if average is None else average.tensors))

    def _score(
        self, model: Transformer, corpora: Mapping[str, ParallelCorpus], search: DecodingConfig | None = None
    ) -> dict[str, Validation]:
        """The model's loss and scores on corpora, by the last part of their keys; raises `Cancelled` on a signal."""
        world, tokenizers, every_position = self.world, self.tokenizers, model.decoder.final_norm
        found: dict[str, Validation] = {}
        for key, corpus in corpora.items():
            num_lines = 2 * len(corpus.sources[world.share(len(corpus.sources))])  # scored, then translated
            with self.recorder.validating(num_lines) as advance, self.stop.cancelling(every_position):
                score = partial(validate, search=search, world=world, on_finished=advance)
                found[key.rpartition(".")[2]] = score(model, tokenizers, corpus, self.config)
        return found

    def _log_validation(self, result: dict[str, Validation], others: dict[str, Validation], *, is_best: bool) -> None:
        """Record the results of a validation, and log some of its translations, evenly spaced."""
        step, translations = self.progress.step, mean_validation(result.values()).evaluation.translations
        record, *parts = validation_records(result, "validation", step=step)
        parts += [each.to_record(f"validation/{name}", step=step) for name, each in others.items()]
        self.recorder.record(record)
        scores, rest = describe_validation(record, is_best=is_best)
        logger.info(f"{scores}{rest}", extra={"bold": scores})
        self._log_parts(parts)
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

    @record_function(VALIDATION_AND_SAVING)
    def average_kept(self) -> None:
        """Make an average of kept checkpoints the best one, if it is better; a signal ends this without a result.

        A resumed run undoes this, and averages when it ends itself.
        """
        settings, progress, corpora = self.settings, self.progress, self.corpora.validation
        windows = kept_windows(progress, last=settings.keep_last, best=settings.keep_best)
        if not settings.average_kept or not corpora or progress.best_step is None or not windows:
            return
        logger.info("The best checkpoint, and averages of kept ones, on validation:")
        model = build_model(self.config, self.tokenizers, device=self.model.device)
        tried: list[ScoredAverage] = []
        try:
            for name, checkpoints in {"best": ("best",), **windows}.items():
                steps = load_average(self.run, checkpoints, model, world=self.world)
                validation = mean_validation(self._score(model, corpora).values())
                tried.append(ScoredAverage(checkpoints, steps, validation))
                record = tried[-1].to_record(step=progress.step)
                self.recorder.record(record)
                logger.info("".join(describe_validation(record, name=name)))
        except Cancelled:
            return
        chosen = max(tried, key=lambda each: each.validation.score(settings.best_metric))  # the first of equal ones
        if len(chosen.checkpoints) > 1:
            self.world.run_on_rank_0(lambda: write_average(self.run, chosen.checkpoints, model))
            self._averaged = chosen.steps

    @record_function(VALIDATION_AND_SAVING)
    def evaluate(self) -> None:
        """Score the best checkpoint with the settings of `decoding`; see `Config.evaluates_at_end`.

        The record comes after the last checkpoint: a resumed run removes it, and writes its own at the end.
        """
        search, progress, corpora = self.config.decoding_settings(), self.progress, self.corpora.validation
        if not self.config.evaluates_at_end or progress.best_step is None:
            return
        model = build_model(self.config, self.tokenizers, device=self.model.device)
        load_average(self.run, ["best"], model, world=self.world)
        try:
            result = self._score(model, corpora, search)
        except Cancelled:
            return
        of_what = {"averaged": self._averaged} if self._averaged else {"best_step": progress.best_step}
        record, *parts = [{**each, **of_what} for each in validation_records(result, "evaluation", step=progress.step)]
        self.recorder.record(record)
        text = f"Best checkpoint ({self.description}), {search.brief}: {describe_headlines(record)}"
        seconds = round(sum(each.seconds for each in result.values()), 3)
        logger.info(f"{text}, {describe_seconds(seconds)}", extra={"bold": text})
        self._log_parts(parts)


class ScoredAverage(NamedTuple):
    """The average of some checkpoints, or a single checkpoint, and its validation."""

    checkpoints: tuple[Checkpoint, ...]
    steps: tuple[int, ...]
    validation: Validation

    def to_record(self, *, step: int) -> dict[str, Any]:
        """The numbers as `metrics.jsonl` keeps them, with the current step and the averaged ones."""
        return {**self.validation.to_record("average", step=step), "averaged": self.steps}


def kept_windows(progress: Progress, *, last: int, best: int) -> dict[str, tuple[Checkpoint, ...]]:
    """The last 2, 3, … kept checkpoints and the best 2, 3, … of them, by names like "last 3"; no set occurs twice."""
    windows: dict[str, tuple[Checkpoint, ...]] = {}
    for kind, steps in progress.rank_kept(last=last, best=best).items():
        for number in range(2, len(steps) + 1):
            checkpoints = tuple(f"step-{step}" for step in sorted(steps[:number]))
            if checkpoints not in windows.values():
                windows[f"{kind} {number}"] = checkpoints
    return windows


def load_average(
    run: RunDirectory, checkpoints: Sequence[Checkpoint], model: Transformer, *, world: World = SINGLE_PROCESS
) -> tuple[int, ...]:
    """Give a model the average of checkpoints, as rank 0 reads it; returns their steps. See `average_checkpoints`."""
    weights = dict[str, Tensor]()

    def read() -> tuple[int, ...]:
        mean = average_checkpoints(run, checkpoints, model)
        weights.update(mean.tensors)
        return mean.averaged

    steps = world.run_on_rank_0(read)
    load_model_state_dict(model, weights, world)
    return steps


def write_average(run: RunDirectory, checkpoints: Sequence[Checkpoint], model: Transformer) -> None:
    """Make the average the best checkpoint. The old best is kept as step-N, unless it is an average too."""
    mean = average_checkpoints(run, checkpoints, model)
    tensors, metadata = read_tensors(run.checkpoint("best"))
    if AVERAGED_KEY not in metadata:
        write_checkpoint(run, f"step-{metadata['step']}", tensors, metadata)
    metadata = {"step": str(mean.step), AVERAGED_KEY: " ".join(map(str, mean.averaged))}
    write_checkpoint(run, "best", add_prefix(mean.tensors, WEIGHTS_PREFIX), metadata)


def average_checkpoints(run: RunDirectory, checkpoints: Sequence[Checkpoint], model: Transformer) -> SavedWeights:
    """The mean of the weights of checkpoints, summed in fp64, or the unchanged weights of a single one.

    Args:
        model: Defines the expected names and shapes.

    Raises:
        InputError: A checkpoint is missing, one of several is itself an average, or two are of the same step.
        RunError: A checkpoint is damaged, or does not fit the model.
    """
    sums, steps = dict[str, Tensor](), list[int]()
    for name in checkpoints:
        saved = read_weights(run, name, last="--checkpoint last")
        if saved.averaged and len(checkpoints) > 1:
            moment = describe_moment(saved.step, saved.averaged)
            raise InputError(f"{run.checkpoint(name)} is {moment} itself: name single checkpoints")
        check_same_tensors(get_parameters(model), saved.tensors, name=str(run.checkpoint(name)))
        if saved.step in steps:
            raise InputError(f"{run.checkpoint(name)} has the weights of step {saved.step}, like another: name it once")
        steps += saved.averaged or [saved.step]
        for key, tensor in saved.tensors.items():
            sums[key] = sums[key].add_(tensor) if key in sums else tensor.double()
    means = {key: (total / len(checkpoints)).to(saved.tensors[key].dtype) for key, total in sums.items()}
    return SavedWeights(means, max(steps), tuple(steps))
