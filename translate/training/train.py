"""From a config to a trained run directory: everything that `translate train` does, in order."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import torch

from translate.config import Config, TrainingConfig
from translate.data.corpora import data_fingerprint
from translate.data.streaming import Batches, StreamedBatches
from translate.data.tokenizer import Tokenizers
from translate.distributed.devices import choose_own_device, settle_threads
from translate.distributed.process_group import World, join_world
from translate.errors import InputError
from translate.memory import configure_memory
from translate.runs import RunDirectory, check_holds_no_run, create_run, lock_run, write_config
from translate.training.assembly import assembled
from translate.training.auto_batch import resolve_batch_tokens, resolve_from_run, resolve_step_tokens
from translate.training.average import AveragedWeights
from translate.training.loop import Trainer
from translate.training.metrics_log import MetricsLog
from translate.training.preparation import (
    Corpora,
    check_validation_lengths,
    prepare_data,
)
from translate.training.progress import Progress
from translate.training.resume import (
    check_settings,
    describe_changes,
    describe_environment,
    holds_run,
    settings_of_all_processes,
)
from translate.training.signals import StoppedBySignal
from translate.training.state import restore_last
from translate.training.tracking import SilentTracker, Tracker

Say = Callable[[str], None]
Inspect = Callable[[Config, Corpora, Batches, Tokenizers, int], None]


def train(
    config: Config,
    directory: Path,
    *,
    resume: bool,
    command: list[str],
    profile: bool = False,
    inspect: Inspect | None = None,
    say: Say = print,
) -> Progress:
    """Train as the config says, into a run directory.

    Args:
        resume: Go on with the run in that directory; if none has been begun there, begin one.
        command: What the user typed, to be kept in the run.
        profile: Also write where the time of some steps goes, to the run's `profile`.
        inspect: Is called before the first step of a new training with its config, corpora, batches, tokenizers and
            number of parameters, such as `translate.lint.check.log_findings`.
        say: Receives what is worth telling before the first step.

    Returns:
        Where the training stands at its end.

    Raises:
        InputError: The config or the data cannot be used, the directory holds a run and `resume` is off, or another
            process trains there.
        RunError: Something failed on the way; checkpoints written so far are intact.
        StoppedBySignal: SIGINT or SIGTERM came, and the training is saved. A `KeyboardInterrupt`.
        SystemExit: In a process that is not the first of several: the first one raises what it is.
    """
    configure_memory()
    with join_world() as world, contextlib.ExitStack() as held:
        say = say if world.is_main_process else _say_nothing
        try:
            device = world.run_on_all_ranks(lambda: choose_own_device(config.training.device, world.environment))
            settle_threads(config.training.threads, world.environment)
            world.check_same_on_all_ranks(settings_of_all_processes(config, device))

            def claim() -> tuple[TrainingConfig, bool]:
                return _claim(config, directory, resume=resume, held=held, say=say)

            settings, is_continued = world.run_on_rank_0(claim)
            return _train(
                config.model_copy(update={"training": settings}),
                RunDirectory(directory),
                device,
                world,
                is_continued=is_continued,
                command=command,
                wants_profile=profile,
                inspect=inspect,
                say=say,
                held=held,
            )
        except KeyboardInterrupt as stop:
            if world.is_main_process:
                raise
            world.exit(stop.exit_code if isinstance(stop, StoppedBySignal) else 130)


def _claim(
    config: Config, directory: Path, *, resume: bool, held: contextlib.ExitStack, say: Say
) -> tuple[TrainingConfig, bool]:
    """The run's settings, and whether it is continued; from now on no other training may touch it."""
    if not (resume and directory.is_dir()):
        if holds_run(directory):
            with lock_run(directory):  # that another process trains there is told first
                pass
        check_holds_no_run(directory)
    held.enter_context(lock_run(directory))
    is_continued = holds_run(directory) and resume
    config = resolve_step_tokens(config)
    if is_continued:
        config = resolve_from_run(config, directory)
        check_settings(config, directory)
    elif resume:
        say(f"{directory} holds no run to go on with: beginning one")
    return config.training, is_continued


def _train(
    config: Config,
    run: RunDirectory,
    device: torch.device,
    world: World,
    *,
    is_continued: bool,
    command: list[str],
    wants_profile: bool,
    inspect: Inspect | None,
    say: Say,
    held: contextlib.ExitStack,
) -> Progress:
    corpora, tokenizers, batches = prepare_data(config, run, world=world, is_continued=is_continued)
    config, batches, message = resolve_batch_tokens(config, batches, tokenizers=tokenizers, device=device, world=world)
    if message is not None:
        say(message)
    settings = config.training

    def begin() -> None:
        if corpora.validation is not None:
            check_validation_lengths(config, corpora.validation, tokenizers)
        if not is_continued:
            create_run(run.path, config=config, tokenizers=tokenizers, command=command)

    world.run_on_rank_0(begin)
    assembly = held.enter_context(assembled(config, tokenizers, device=device, world=world))
    model, optimizer = assembly.model, assembly.optimizer
    average = AveragedWeights(model, decay=settings.ema_decay) if settings.ema_decay is not None else None
    now = Progress(
        data_fingerprint(
            corpora.train, tokenizers, streams=None if corpora.streams is None else corpora.streams.identity
        ),
        circumstances=describe_environment(settings, device, num_processes=world.size),
    )
    world.check_same_on_all_ranks({"data.train (its checksum)": now.data_fingerprint})
    progress = now
    if is_continued:
        restored = restore_last(run, model, optimizer, average, world=world)
        progress = world.run_on_all_ranks(lambda: _go_on(run, restored, now=now, say=say))
        world.run_on_rank_0(lambda: write_config(run, config))
        if isinstance(batches, StreamedBatches):
            batches.continue_from(progress.epoch, progress.stream)
    say(f"model: {assembly.description}")

    if inspect is not None and not is_continued and world.is_main_process:
        inspect(config, corpora, batches, tokenizers, model.num_parameters)

    tracker = world.run_on_all_ranks(
        lambda: _track(run, settings, progress, say=say) if world.is_main_process else SilentTracker()
    )
    try:
        Trainer(
            config,
            run=run,
            model=model,
            tokenizers=tokenizers,
            optimizer=optimizer,
            average=average,
            batches=batches,
            validation=corpora.validation,
            progress=progress,
            tracker=tracker,
            profile_directory=run.path / "profile" if wants_profile and world.is_main_process else None,
            world=world,
            stepper=assembly.stepper,
        ).train()
    finally:
        tracker.close()
    return progress


def _say_nothing(text: str) -> None:
    """What all processes but the first say."""


def _go_on(run: RunDirectory, saved: Progress | None, *, now: Progress, say: Say) -> Progress:
    """Where a continued training stands, if its data are the same; what else is not as it was is said.

    Args:
        now: The progress of a training that begins.
    """
    if saved is None:
        say(f"{run.path} has no checkpoint yet: its training begins at the first step")
        return now
    if saved.data_fingerprint != now.data_fingerprint:
        raise InputError(
            f"{run.path}: data.train is not what this run was trained on, so it cannot be continued; give the data that"
            " it was begun with, or begin a new run"
        )
    changes = describe_changes(saved.circumstances, now.circumstances)
    if changes is not None:
        say(changes)
    say(f"going on from step {saved.step}")
    saved.circumstances = now.circumstances
    return saved


def _track(run: RunDirectory, settings: TrainingConfig, progress: Progress, *, say: Say) -> Tracker:
    return Tracker(
        MetricsLog(run.metrics, first_step=progress.step, mark=progress.metrics, say=say),
        first_step=progress.step,
        max_steps=settings.max_steps,
        tensorboard=run.path / "tensorboard" if settings.tensorboard else None,
    )
