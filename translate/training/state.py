"""The state of a training run: what checkpoints hold, and how a run is started, or resumed from its last checkpoint.

The last checkpoint holds the tensors that `save_last` names, and `runs.progress.Progress` as JSON. Everything else that
a step needs is a function of the config, the data and these. Other checkpoints hold weights to translate with.
"""

import contextlib
import dataclasses
import logging
import os
from collections.abc import Iterable
from pathlib import Path

from torch import Tensor

from translate.config.load import read_resolved_config
from translate.config.schema import Config, TrainingConfig
from translate.config.yaml import flatten_keys
from translate.data.corpora import data_fingerprint
from translate.data.streaming import StreamedBatches
from translate.distributed.process_group import World
from translate.distributed.state import (
    full_state_dict,
    load_model_state_dict,
    load_optimizer_state_dict,
    optimizer_state_dict,
)
from translate.errors import InputError, RunError
from translate.model.lora import merged_matrices
from translate.runs.checkpoint import (
    AVERAGE_PREFIX,
    MERGED_PREFIX,
    OPTIMIZER_PREFIX,
    WEIGHTS_PREFIX,
    add_prefix,
    find_trace_of_steps,
    read_newest_intact,
    read_tensors,
    strip_prefix,
    write_checkpoint,
)
from translate.runs.checksums import DamageError, check_file, read_checksums
from translate.runs.directory import (
    RunDirectory,
    check_holds_no_run,
    check_holds_run,
    create_run,
    open_run,
    read_description,
    write_config,
)
from translate.runs.initial import InitialWeights, check_unchanged, read_initial_weights
from translate.runs.loading import check_same_tensors, get_parameters
from translate.runs.lock import lock_run
from translate.runs.log import RunLog
from translate.runs.metadata import read_moment
from translate.runs.metrics import is_finished, read_metrics
from translate.runs.progress import Progress
from translate.training.optimizer import AveragedWeights, expected_state, learning_rate
from translate.training.preparation import TrainingData, override_training, resolve_step_tokens
from translate.training.setup import LOCATIONS, describe_environment
from translate.training.step import TrainStep
from translate.training.validation import validation_fingerprint

logger = logging.getLogger(__name__)

# A resumed run may end at another step, and log and save at others; anything else would make it another run.
_MAY_CHANGE = {
    f"training.{name}"
    for name in (
        *("max_steps", "max_epochs", "validate_every", "validation_beam_size", "save_every", "log_every", "patience"),
        *("threads", "device", "parallel", "sample_translations", "trackers", "keep_last", "keep_best", "average_kept"),
    )
} | {"tokenizer.max_training_lines"}  # The tokenizer is already trained.


def claim_run(
    config: Config, run: RunDirectory, *, resume: bool, world: World, held: contextlib.ExitStack, log: RunLog
) -> tuple[Config, bool, InitialWeights | None]:
    """Lock a run directory, and find out whether to resume its run and which weights a new run starts from.

    Args:
        held: Releases the lock when training ends.
        log: Written into a resumed run from here on.

    Returns:
        The config with the batch size of the resumed run, whether a run is resumed, and the weights of another
        run to start from; None: a checkpoint's, or random ones.

    Raises:
        InputError: The directory holds a run and `resume` is off, its run cannot be resumed with this config, another
            process trains there, or `training.initialize_from` cannot be used.
        RunError: The directory cannot be written, or a file is damaged.
    """

    def claim() -> tuple[TrainingConfig, bool, bool]:
        if not _holds_run(run):
            check_holds_no_run(run.path)  # before the lock file is written there
        held.enter_context(lock_run(run.path))  # first reports that another process trains there
        if not (resume and _holds_run(run)):
            check_holds_no_run(run.path)
            if resume:
                logger.info(f"{run.path} holds no run to continue: starting one")
            return config.training, False, False
        if imported := read_description(run).imported:
            fine_tune = f"fine-tune it with translate train CONFIG training.initialize_from={run.path}"
            raise InputError(
                f"{run.path} was imported from {imported.get('source')}, so it has no training to continue; {fine_tune}"
            )
        check_file(open_run(run.path).config, read_checksums(run.path).get(run.config.name))
        before = read_resolved_config(run.config)
        settings = _settings_of_run(config, run.path, before)
        has_checkpoint = any(file.is_file() for file in (run.checkpoint("last"), run.previous))
        if not has_checkpoint and (trace := find_trace_of_steps(run)):
            lost = f"{run.path} has made steps, as {trace} shows, but its last and previous checkpoints are missing"
            fine_tune = f", fine-tune the best weights with training.initialize_from={run.path} in another run,"
            hint = fine_tune if run.checkpoint("best").exists() else ""
            raise InputError(f"{lost}: copy last.safetensors again{hint} or remove the run to begin again")
        log.open(run.log)
        _warn_of_other_rates(before.training, settings, d_model=config.model.d_model)
        return settings, True, has_checkpoint

    settings, is_resumed, has_checkpoint = world.run_on_rank_0(claim)
    config = config.model_copy(update={"training": settings})
    initial = None if has_checkpoint else world.run_on_all_ranks(lambda: read_initial_weights(config))
    return config, is_resumed, initial


def _holds_run(run: RunDirectory) -> bool:
    """Whether there is a run to resume; an incomplete directory left by a killed process does not count."""
    if any(run.checkpoints.glob("*.safetensors")):
        check_holds_run(run.path)
    return os.path.lexists(run.description)


def _warn_of_other_rates(before: TrainingConfig, settings: TrainingConfig, *, d_model: int) -> None:
    last = min(before.max_steps, settings.max_steps)
    old, new = (learning_rate(last, each, d_model=d_model) for each in (before, settings))
    if old != new:
        logger.warning(
            f"training.schedule={settings.schedule} depends on training.max_steps, which changes from"
            f" {before.max_steps:,} to {settings.max_steps:,}: the learning rate of step {last:,} was {old:.1e}, and"
            f" with the new limit it is {new:.1e}. A run that begins with the new limit becomes a different one"
        )


def _settings_of_run(config: Config, run: Path, before: Config) -> TrainingConfig:
    """The settings to resume a run with: its batch size in place of `auto`, and otherwise the config's.

    They must be the run's own, except for settings that do not change the steps already made.
    """
    batch_tokens, step_tokens = before.training.num_batch_tokens, config.training.step_tokens
    if config.training.batch_tokens == "auto":
        if step_tokens is not None and step_tokens < batch_tokens:
            begun = f"{run} was started with batches of {batch_tokens} tokens"
            raise InputError(f"{begun}, so it cannot continue with training.step_tokens = {step_tokens}")
        config = override_training(config, batch_tokens=batch_tokens)
    config = resolve_step_tokens(config)
    saved, given = (
        flatten_keys(each.model_dump(mode="json", include={"tokenizer", "model", "training", "data"}))
        for each in (before, config)
    )
    base = "training.initialize_from"
    is_other_start = (saved[base] is None) != (given[base] is None)  # a base run may move, but not come or go
    different = [
        f"{key} = {given.get(key)} (the run has {saved.get(key)})"
        for key in sorted(saved.keys() | given.keys())
        if saved.get(key) != given.get(key) and key not in _MAY_CHANGE
        if not key.startswith(LOCATIONS) or (key == base and is_other_start)
    ]
    if different:
        begun = f"{run} was started with other settings"
        raise InputError(f"{begun}, so it cannot be continued with {'; '.join(different)}")
    return config.training


@dataclasses.dataclass(eq=False)
class Training:
    """The inputs of training, and the state that changes while it runs: model, optimizer, average and progress."""

    config: Config
    run: RunDirectory
    data: TrainingData
    train_step: TrainStep  # has the model and the optimizer
    world: World

    def __post_init__(self) -> None:
        settings, (corpora, tokenizers, _), device = self.config.training, self.data, self.train_step.precision.device
        # The average is validated and saved as best; None: the weights themselves are.
        decay, model = settings.ema_decay, self.train_step.model
        self.average = None if decay is None else AveragedWeights(model, decay=decay)
        streams = None if corpora.streams is None else corpora.streams.identity
        self.progress = Progress(
            data_fingerprint(corpora.train, tokenizers, streams=streams),
            validation_fingerprint=validation_fingerprint(corpora.validation.values(), tokenizers, self.config),
            environment=describe_environment(settings, device, num_processes=self.world.size),
        )


def save_last(training: Training) -> None:
    """Save everything that `_restore_last` needs; rank 0 writes it.

    Raises:
        RunError: The checkpoint cannot be written; earlier ones are intact.
    """
    model, optimizer, progress = training.train_step.model, training.train_step.optimizer, training.progress
    averages, weights = {} if training.average is None else training.average.tensors, get_parameters(model)
    tensors = add_prefix(weights, WEIGHTS_PREFIX) | add_prefix(averages, AVERAGE_PREFIX)
    tensors |= add_prefix(optimizer_state_dict(model, optimizer), OPTIMIZER_PREFIX)
    tensors |= add_prefix(merged_matrices(model, weights | averages), MERGED_PREFIX)  # only read for translation
    tensors = full_state_dict(tensors, training.world)
    if training.world.is_main_process:
        write_checkpoint(training.run, "last", tensors, {"step": str(progress.step), "progress": progress.to_json()})


def remove_superseded(run: RunDirectory, steps: Iterable[int]) -> None:
    """Remove the weights of validations that are no longer kept."""
    for step in steps:
        with contextlib.suppress(OSError):
            run.checkpoint(f"step-{step}").unlink()


def start_or_resume(
    training: Training, *, is_resumed: bool, initial: InitialWeights | None, command: list[str], log: RunLog
) -> bool:
    """Create the run before the first step, or restore the state of its last checkpoint.

    A new run has the command that the user typed, and the log is written into it from here on.

    Returns:
        Whether there is anything to do: False if the run has ended and been evaluated.
    """
    config, run, data, world = training.config, training.run, training.data, training.world

    def create() -> None:
        if not is_resumed:
            origin = None if initial is None else initial.provenance(run.path)
            create_run(run.path, config=config, tokenizers=data.tokenizers, command=command, provenance=origin)
            log.open(run.log)
        elif initial is not None:
            check_unchanged(run, initial)

    world.run_on_rank_0(create)
    if initial is not None:
        logger.info(f"Starting from {initial}")
    world.check_same_on_all_ranks(
        {
            "data.train (its checksum)": training.progress.data_fingerprint,
            "data.validation (its checksum)": str(training.progress.validation_fingerprint),
            "training.initialize_from (its checksum)": "" if initial is None else initial.sha256,
        }
    )
    if not is_resumed:
        return True
    has_finished = _restore_last(training)
    if has_finished:
        limit = f"training.{training.progress.limit_reached(training.config.training)}=N"
        ended = f"Training has already ended, after {training.progress.step:,} steps"
        logger.info(f"{ended}; to extend it, give a larger limit with {limit}")
    elif isinstance(data.batches, StreamedBatches):
        data.batches.continue_from(training.progress.epoch, training.progress.stream)
    return not has_finished


def _restore_last(training: Training) -> bool:
    """Restore the state from `save_last`, even with another number of processes; report damage and changed data.

    Returns:
        Whether the run has ended and been evaluated: then nothing is restored, and its files stay as they are.
    """
    model, optimizer, world = training.train_step.model, training.train_step.optimizer, training.world
    run, average, saved = training.run, training.average, dict[str, Tensor]()

    def read() -> tuple[Progress, bool, bool]:
        """The progress, whether a checkpoint holds it, and whether it is that of a finished run."""
        progress, found, settings = training.progress, read_newest_intact(run), training.config.training
        if found is None:
            logger.info(f"{run.path} has no checkpoint yet: training starts at the first step")
        else:
            path, tensors, progress, damaged = found
            expected = add_prefix(get_parameters(model), WEIGHTS_PREFIX)
            if progress.step > 0:  # before the first step the optimizer has no state
                expected |= add_prefix(expected_state(model, training.config.training), OPTIMIZER_PREFIX)
            expected |= {} if average is None else add_prefix(average.tensors, AVERAGE_PREFIX)
            prefixes = (WEIGHTS_PREFIX, AVERAGE_PREFIX, OPTIMIZER_PREFIX)  # Format 1 also has random states.
            saved.update({key: tensor for key, tensor in tensors.items() if key.startswith(prefixes)})
            check_same_tensors(expected, saved, name=str(path))
            for sentence in damaged:
                logger.warning(sentence)
            if damaged:
                logger.warning(f"So the run continues from {path.name}, of step {progress.step}")
            if progress.data_fingerprint != training.progress.data_fingerprint:
                other = "data.train is not what this run was trained on; restore it, or start a new run"
                raise InputError(f"{run.path}: {other}")
            if progress.step > settings.max_steps:
                made = f"{run.path} has already made {progress.step:,} steps"
                raise InputError(f"{made}, so it cannot be resumed with training.max_steps = {settings.max_steps}")
            if is_finished(progress, training.config, lambda: read_metrics(run)):
                return progress, True, True
            _compare(progress, training.progress)
        write_config(run, training.config)
        _restore_kept(run, progress, settings)
        return progress, found is not None, False

    training.progress, has_checkpoint, has_finished = world.run_on_rank_0(read)
    if has_finished or not has_checkpoint:
        return has_finished
    if average is not None:
        load_model_state_dict(model, strip_prefix(saved, AVERAGE_PREFIX), world)
        average.copy_from(model)
    if training.progress.step > 0:
        load_optimizer_state_dict(model, optimizer, strip_prefix(saved, OPTIMIZER_PREFIX), world)
    load_model_state_dict(model, strip_prefix(saved, WEIGHTS_PREFIX), world)
    return False


def _compare(saved: Progress, new: Progress) -> None:
    """Log what has changed since a resumed run was saved, and record that in its progress."""
    changes = [
        f"{name} {new.environment.get(name, 'unknown')} (it was {before})"
        for name, before in saved.environment.items()
        if new.environment.get(name) != before
    ]
    if changes:
        effect = "the last bits of its numbers differ from a run that was never stopped"
        logger.info(f"Continued in another environment: {', '.join(changes)}; {effect}")
    if saved.best_score is not None and saved.validation_fingerprint != new.validation_fingerprint:
        logger.warning(
            "data.validation, or a setting that decides its score, has changed since the best validation, of step"
            f" {saved.best_step}, so scores are not compared with it, and the next validation's weights replace it"
        )
        saved.best_score, saved.validations_without_better = None, 0
        saved.kept = dict.fromkeys(saved.kept)
    logger.info(f"Continuing from step {saved.step:,}")
    saved.environment, saved.validation_fingerprint = new.environment, new.validation_fingerprint


def _restore_kept(run: RunDirectory, progress: Progress, settings: TrainingConfig) -> None:
    """Make the kept files agree with this progress: forget lost weights, and remove the weights of later steps.

    A `step-N` stays if training keeps nothing or the file contradicts its name: this run did not write it.

    If the best checkpoint is an average, the best validation's takes its place again. If it is newer than this
    progress, it stays, because its score was better. If it is lost, the next validation's weights are kept.
    """
    best, kept = run.checkpoint("best"), run.checkpoint(f"step-{progress.best_step or 0}")
    try:
        if progress.best_step is not None:
            step, averaged = read_moment(best, read_tensors(best, prefixes=()).metadata)
            if averaged:
                tensors, metadata = read_tensors(kept)
                logger.info(f"{best.name}, an average of checkpoints, is {kept.name} again while training continues")
                write_checkpoint(run, "best", tensors, metadata)
            else:
                progress.best_step = max(step, progress.best_step)
    except DamageError as error:
        lost, progress.best_step, progress.best_score = progress.best_step, None, None
        what = f"The best weights so far, from step {lost}, are lost"
        logger.warning(f"{error}. {what}: the next validation's weights replace them")
    for step in {*run.kept_steps()} - progress.kept.keys():
        file, is_own = run.checkpoint(f"step-{step}"), False
        if settings.keep_last or settings.keep_best or progress.kept:
            with contextlib.suppress(RunError):
                is_own = read_tensors(file, prefixes=()).metadata == {"step": str(step)}
        logger.info(f"{file}: {'is no longer kept' if is_own else 'stays, because this training run did not write it'}")
        remove_superseded(run, [step] if is_own else [])
    there = run.kept_steps()
    progress.kept = {step: score for step, score in progress.kept.items() if step in there}
