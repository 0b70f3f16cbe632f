"""From a config to a trained run directory: everything that `translate train` does, in order."""

import contextlib
import logging
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import torch

from translate._version import __version__
from translate.config.schema import Config, TrainingConfig
from translate.data.corpora import data_fingerprint
from translate.data.streaming import Batches, StreamedBatches
from translate.data.tokenizer import Tokenizers
from translate.distributed.process_group import World, join_world
from translate.errors import InputError
from translate.memory import configure_memory
from translate.runs.directory import RunDirectory, check_holds_no_run, create_run, read_description, write_config
from translate.runs.initial import check_unchanged, read_initial_weights
from translate.runs.lock import lock_run
from translate.runs.log import RunLog
from translate.runs.progress import Progress
from translate.training.auto_batch import resolve_batch_tokens, resolve_from_run, resolve_step_tokens
from translate.training.optimizer import AveragedWeights
from translate.training.preparation import Corpora, check_validation, prepare_data
from translate.training.setup import choose_training_device, set_num_threads, setup_training
from translate.training.state import (
    check_settings,
    describe_environment,
    holds_run,
    restore_kept,
    restore_last,
    settings_of_all_processes,
)
from translate.training.step import TrainStep
from translate.training.tracking.trackers import check_trackers
from translate.training.trainer import StoppedBySignal, Trainer
from translate.training.validation import validation_fingerprint

logger = logging.getLogger(__name__)


def train(
    config: Config,
    directory: Path,
    *,
    resume: bool,
    command: list[str],
    profile: bool = False,
    inspect: Callable[[Config, Corpora, Batches, Tokenizers, int], object] | None = None,
    pause: Callable[[Progress], bool] | None = None,
) -> Progress:
    """Train as the config says, into a run directory.

    Args:
        resume: Continue the run in that directory; if none has been begun there, begin one.
        command: The command that the user typed, to be kept in the run.
        profile: Also write where the time of some steps goes, to the run's `profile`.
        inspect: Is called before the first step of a new training with its config, corpora, batches, tokenizers and
            number of trained parameters, such as `translate.lint.check.log_findings`.
        pause: Is asked before the first step, after each one, and after a validation that follows it, whether to pause
            there. Nothing else changes: `training.max_steps` and so the schedule stay, and `resume` goes on exactly.

    Returns:
        Where the training stands at its end.

    Raises:
        InputError: The config or the data cannot be used, the directory holds a run and `resume` is off, or another
            process trains there.
        RunError: Something failed on the way; checkpoints written so far are intact.
        StoppedBySignal: SIGINT, SIGTERM or SIGHUP came, and the training is saved. A `KeyboardInterrupt`.
        Paused: `pause` said so before the end, and the training is saved.
        SystemExit: On a rank > 0, when another rank raises one of these errors.
    """
    configure_memory()
    with join_world() as world, contextlib.ExitStack() as held:
        log = RunLog()
        if world.is_main_process:
            held.enter_context(log)
            log.keep(f"translate {__version__}: {shlex.join(command)}")
        try:
            device = world.run_on_all_ranks(lambda: choose_training_device(config.training.device, world.environment))
            set_num_threads(config.training.threads, world.environment)
            world.check_same_on_all_ranks(settings_of_all_processes(config, device))
            world.run_on_rank_0(lambda: check_trackers(config.training))
            settings, is_continued = world.run_on_rank_0(lambda: _claim(config, directory, resume=resume, held=held))
            config = config.model_copy(update={"training": settings})
            run = RunDirectory(directory)
            if is_continued and world.is_main_process:
                log.open(run.log)
            has_weights = world.run_on_rank_0(
                lambda: is_continued and any(map(Path.is_file, (run.checkpoint("last"), run.previous)))
            )
            initial = None if has_weights else world.run_on_all_ranks(lambda: read_initial_weights(config))
            corpora, tokenizers, batches = prepare_data(config, run, world=world, is_continued=is_continued)
            config, batches, message = resolve_batch_tokens(
                config, batches, tokenizers=tokenizers, device=device, world=world
            )
            if message is not None:
                logger.info(message)

            def begin() -> None:
                check_validation(config, corpora, tokenizers)
                if is_continued and initial is not None:
                    check_unchanged(run, initial)
                if not is_continued:
                    origin = None if initial is None else initial.provenance(directory)
                    create_run(run.path, config=config, tokenizers=tokenizers, command=command, provenance=origin)
                    log.open(run.log)

            train_step = setup_training(config, tokenizers, device=device, world=world, initial=initial)
            world.run_on_rank_0(begin)
            if initial is not None:
                logger.info(f"Starting from {initial}")
            decay = config.training.ema_decay
            average = None if decay is None else AveragedWeights(train_step.model, decay=decay)
            progress = _first_progress(config, corpora, tokenizers, device=device, num_processes=world.size)
            world.check_same_on_all_ranks(
                {
                    "data.train (its checksum)": progress.data_fingerprint,
                    "data.validation (its checksum)": str(progress.validation_fingerprint),
                    "training.initialize_from (its checksum)": "" if initial is None else initial.sha256,
                }
            )
            if is_continued:
                progress = _restore(run, config, train_step, average, new=progress, world=world)
                if isinstance(batches, StreamedBatches):
                    batches.continue_from(progress.epoch, progress.stream)
            _log_model(train_step)
            if inspect is not None and not is_continued and world.is_main_process:
                inspect(config, corpora, batches, tokenizers, train_step.model.num_trained_parameters)
            trainer = Trainer(
                config=config,
                train_step=train_step,
                run=run,
                tokenizers=tokenizers,
                batches=batches,
                validation=corpora.validation,
                validation_also=corpora.validation_also,
                average=average,
                progress=progress,
                profiles=profile and world.is_main_process,
                pause=pause,
                world=world,
            )
            trainer.train()
            best = trainer.best and f"; best checkpoint: {trainer.best}"
            logger.info(f"Training ended after {progress.step:,} steps{best}")
            logger.info(f"Next: translate eval {directory}")
            return progress
        except KeyboardInterrupt as stop:
            if world.is_main_process:
                raise
            world.exit(stop.exit_code if isinstance(stop, StoppedBySignal) else 130)


def _claim(config: Config, directory: Path, *, resume: bool, held: contextlib.ExitStack) -> tuple[TrainingConfig, bool]:
    """Lock the run; returns its settings, and whether it is continued."""
    if not holds_run(directory):
        check_holds_no_run(directory)  # before the lock file is written there
    held.enter_context(lock_run(directory))  # that another process trains there is reported first
    is_continued = holds_run(directory) and resume
    if not is_continued:
        check_holds_no_run(directory)
    if is_continued and (source := read_description(RunDirectory(directory)).imported):
        raise InputError(
            f"{directory} was imported from {source}, so it has no training to continue; fine-tune it in a new run,"
            f" with a config that names your data: translate train CONFIG training.initialize_from={directory}"
        )
    config = resolve_step_tokens(config)
    if is_continued:
        config = resolve_from_run(config, directory)
        check_settings(config, directory)
    elif resume:
        logger.info(f"{directory} holds no run to continue: beginning one")
    return config.training, is_continued


def _first_progress(
    config: Config, corpora: Corpora, tokenizers: Tokenizers, *, device: torch.device, num_processes: int
) -> Progress:
    """The progress of a training before its first step."""
    streams = None if corpora.streams is None else corpora.streams.identity
    return Progress(
        data_fingerprint(corpora.train, tokenizers, streams=streams),
        validation_fingerprint=validation_fingerprint(corpora.validation, tokenizers, config),
        environment=describe_environment(config.training, device, num_processes=num_processes),
    )


def _restore(
    run: RunDirectory,
    config: Config,
    train_step: TrainStep,
    average: AveragedWeights | None,
    *,
    new: Progress,
    world: World,
) -> Progress:
    """Restore the last checkpoint, if the run has one; returns the progress that the training goes on from."""
    saved = restore_last(run, train_step, average, world=world)
    metric = config.training.best_metric
    progress = world.run_on_all_ranks(lambda: _continue_from(run, saved, new=new, metric=metric))
    if progress.step >= config.training.max_steps:
        logger.info("The training has ended there; training.max_steps=N, with a larger N, extends it")
    world.run_on_rank_0(lambda: write_config(run, config))
    restore_kept(run, progress, world=world)
    return progress


def _log_model(train_step: TrainStep) -> None:
    num_all, num_trained = train_step.model.num_parameters, train_step.model.num_trained_parameters
    if num_trained == num_all:
        logger.info(f"Model: {num_all:,} parameters")
    else:
        logger.info(f"Model: {num_trained:,} of {num_all:,} parameters are trained")
    logger.info(f"Device: {train_step.description}")
    for fallback in train_step.fallbacks:
        logger.warning(fallback)


def _continue_from(
    run: RunDirectory, saved: Progress | None, *, new: Progress, metric: Literal["bleu", "loss"]
) -> Progress:
    """Check that a continued training has the data of the new one, log what else has changed; returns its progress."""
    if saved is None:
        logger.info(f"{run.path} has no checkpoint yet: its training begins at the first step")
        return new
    if saved.data_fingerprint != new.data_fingerprint:
        raise InputError(
            f"{run.path}: data.train is not what this run was trained on, so it cannot be continued; give the data that"
            " it was begun with, or begin a new run"
        )
    changes = [
        f"{name} {new.environment.get(name, 'unknown')} (it was {before})"
        for name, before in saved.environment.items()
        if new.environment.get(name) != before
    ]
    if changes:
        logger.info(
            f"Continued in another environment: {', '.join(changes)}. The training is as good, but its numbers are not"
            " bit for bit those of a run that was never stopped"
        )
    # Progress of up to 0.3.0 has no fingerprint: its loss was computed as today, but its BLEU with another search.
    comparable = {new.validation_fingerprint} | ({None} if metric == "loss" else set())
    if saved.best_score is not None and saved.validation_fingerprint not in comparable:
        logger.warning(
            "data.validation, or a setting that decides its score, is not that of the best validation so far, of step"
            f" {saved.best_step}, so their scores are not compared: best.safetensors has those weights until the next"
            " validation, whose weights replace them, and training.patience counts from there"
        )
        saved.best_score, saved.validations_without_better = None, 0
        saved.kept = dict.fromkeys(saved.kept)
    logger.info(f"Going on from step {saved.step:,}")
    saved.environment, saved.validation_fingerprint = new.environment, new.validation_fingerprint
    return saved
