"""How a training run starts: a new run is created before its first step, a resumed one restores its last checkpoint."""

import contextlib
import logging
import os

from torch import Tensor

from translate.config.schema import Config, TrainingConfig
from translate.config.yaml import flatten_keys
from translate.data.streaming import StreamedBatches
from translate.distributed.process_group import World
from translate.distributed.state import load_model_state_dict, load_optimizer_state_dict
from translate.errors import InputError
from translate.runs.checkpoint import (
    AVERAGE_PREFIX,
    OPTIMIZER_PREFIX,
    WEIGHTS_PREFIX,
    add_prefix,
    find_trace_of_steps,
    read_newest_intact,
    strip_prefix,
)
from translate.runs.checksums import check_file
from translate.runs.directory import (
    RunDirectory,
    check_holds_no_run,
    check_holds_run,
    create_run,
    write_config,
)
from translate.runs.initial import InitialWeights, check_unchanged, read_initial_weights
from translate.runs.lock import lock_run
from translate.runs.log import RunLog
from translate.runs.metrics import is_finished, read_metrics
from translate.runs.progress import Progress
from translate.runs.run import SavedRun
from translate.runs.weights import check_same_tensors, get_parameters
from translate.training.batch_size import resume_batch_tokens
from translate.training.best_checkpoint import restore_best
from translate.training.optimizer import AveragedWeights, expected_state, learning_rate
from translate.training.setup import LOCATIONS
from translate.training.state import Training

logger = logging.getLogger(__name__)

# A resumed run may end at another step, and log and save at others; anything else would make it another run.
_MAY_CHANGE = {
    f"training.{name}"
    for name in (
        *("max_steps", "max_epochs", "validate_every", "validation_beam_size", "save_every", "save_every_minutes"),
        *("log_every", "log_every_minutes", "patience"),
        *("threads", "device", "parallel", "sample_translations", "trackers", "keep_last", "keep_best", "average_kept"),
    )
} | {"tokenizer.max_training_lines"}  # The tokenizer is already trained.


def claim_run(
    config: Config, run: RunDirectory, *, resume: bool, world: World, held: contextlib.ExitStack, log: RunLog
) -> tuple[bool, InitialWeights | None]:
    """Lock a run directory, and find out whether to resume its run and which weights a new run starts from.

    Args:
        held: Releases the lock when training ends.
        log: Written into a resumed run from here on.

    Returns:
        Whether a run is resumed, and the weights of another run to start from; None: a checkpoint's, or random ones.

    Raises:
        InputError: The directory holds a run and `resume` is off, its run cannot be resumed with this config, another
            process trains there, or `training.initialize_from` cannot be used.
        RunError: The directory cannot be written, or a file is damaged.
    """

    def claim() -> tuple[bool, bool]:
        if not _holds_run(run):
            check_holds_no_run(run.path)  # before the lock file is written there
        held.enter_context(lock_run(run.path))  # first reports that another process trains there
        if not (resume and _holds_run(run)):
            check_holds_no_run(run.path)
            if resume:
                logger.info(f"{run.path} holds no run to continue: starting one")
            return False, False
        found = SavedRun(run.path)
        if imported := found.description.imported:
            origin = f"{run.path} was imported from {imported.get('source')}, so it has no training to continue"
            raise InputError(f"{origin}; fine-tune it with translate train CONFIG training.initialize_from={run.path}")
        check_file(run.config, found.checksums.get(run.config.name))
        saved = found.config
        _check_same_settings(saved, resume_batch_tokens(config, saved, place=str(run.path)), place=str(run.path))
        has_checkpoint = any(file.is_file() for file in (run.checkpoint("last"), run.previous))
        if not has_checkpoint and (trace := find_trace_of_steps(run, saved.training)):
            lost = f"{run.path} has made steps, as {trace} shows, but its last and previous checkpoints are missing"
            raise InputError(f"{lost}: copy last.safetensors again, or remove the run to begin again")
        log.open(run.log)
        _warn_of_other_rates(saved.training, config.training, d_model=config.model.d_model)
        return True, has_checkpoint

    is_resumed, has_checkpoint = world.run_on_rank_0(claim)
    return is_resumed, None if has_checkpoint else world.run_on_all_ranks(lambda: read_initial_weights(config))


def _holds_run(run: RunDirectory) -> bool:
    """Whether there is a run to resume; an incomplete directory left by a killed process does not count."""
    if any(run.checkpoints.glob("*.safetensors")):
        check_holds_run(run.path)
    return os.path.lexists(run.description)


def _warn_of_other_rates(before: TrainingConfig, settings: TrainingConfig, *, d_model: int) -> None:
    last = min(before.max_steps, settings.max_steps)
    old, new = (learning_rate(last, rates, d_model=d_model) for rates in (before, settings))
    if old != new:
        logger.warning(
            f"training.schedule={settings.schedule} depends on training.max_steps, which changes from"
            f" {before.max_steps:,} to {settings.max_steps:,}: the learning rate of step {last:,} was {old:.1e}, and"
            f" with the new limit it is {new:.1e}. The result will differ from that of a run started with the new limit"
        )


def _check_same_settings(saved: Config, config: Config, *, place: str) -> None:
    """Check that a resumed run has its own settings, except for those that do not change the steps already made.

    The files of a run may have moved, and so may the run that it was fine-tuned from. But a run that was fine-tuned
    stays fine-tuned, and one that began with random weights stays that.
    """
    before, given = (
        flatten_keys(settings.model_dump(mode="json", include={"tokenizer", "model", "training", "data"}))
        for settings in (saved, config)
    )
    base = "training.initialize_from"
    is_other_start = (before[base] is None) != (given[base] is None)
    different = [
        f"{key} = {given.get(key)} (the run has {before.get(key)})"
        for key in sorted(before.keys() | given.keys())
        if before.get(key) != given.get(key) and key not in _MAY_CHANGE
        if not key.startswith(LOCATIONS) or (key == base and is_other_start)
    ]
    if different:
        begun = f"{place} was started with other settings"
        raise InputError(f"{begun}, so it cannot be continued with {'; '.join(different)}")


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
            origin = {} if initial is None else initial.provenance(run.path)
            origin["multi_sentence_share"] = data.multi_sentence_share
            create_run(run.path, config=config, tokenizers=data.tokenizers, command=command, provenance=origin)
            log.open(run.log)
        elif initial is not None:
            check_unchanged(SavedRun(run.path), initial)

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
        limit = f"training.{training.progress.limit_reached(config.training)}=N"
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
    model, optimizers, world = training.train_step.model, training.train_step.optimizers, training.world
    run, average, saved, settings = training.run, training.average, dict[str, Tensor](), training.config.training

    def read() -> tuple[Progress, bool, bool]:
        """The progress, whether a checkpoint holds it, and whether it is that of a finished run."""
        progress, found = training.progress, read_newest_intact(run)
        if found is None:
            logger.info(f"{run.path} has no checkpoint yet: training starts at the first step")
        else:
            path, tensors, progress, damaged = found
            expected = add_prefix(get_parameters(model), WEIGHTS_PREFIX)
            if progress.step > 0:  # before the first step the optimizer has no state
                expected |= add_prefix(expected_state(model, settings), OPTIMIZER_PREFIX)
            expected |= {} if average is None else add_prefix(average.tensors, AVERAGE_PREFIX)
            saved.update(tensors)
            for key in saved.keys() - expected.keys():
                if key.endswith("/step") or key.startswith("merged."):  # In version 0.13: of Muon, and for translating.
                    del saved[key]
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
            _report_environment(progress, training.progress.environment)
            logger.info(f"Continuing from step {progress.step:,}")
        write_config(run, training.config)
        restore_best(run, progress, validation_fingerprint=training.progress.validation_fingerprint)
        return progress, found is not None, False

    training.progress, has_checkpoint, has_finished = world.run_on_rank_0(read)
    if has_finished or not has_checkpoint:
        return has_finished
    if average is not None:
        load_model_state_dict(model, strip_prefix(saved, AVERAGE_PREFIX), world)
        training.average = AveragedWeights(model, decay=average.decay)
    if training.progress.step > 0:
        load_optimizer_state_dict(model, optimizers, strip_prefix(saved, OPTIMIZER_PREFIX), world)
    load_model_state_dict(model, strip_prefix(saved, WEIGHTS_PREFIX), world)
    return False


def _report_environment(progress: Progress, environment: dict[str, str]) -> None:
    """Log what has changed in the environment since a resumed run was saved, and record the new one in its progress."""
    changes = {
        name: f"{name} {environment.get(name, 'unknown')} (it was {before})"
        for name, before in progress.environment.items()
        if environment.get(name) != before
    }
    if changes:
        decide_masks = {"torch", "device", "processes", "CPU threads"}  # or how a step is split into micro-batches
        effect = "dropout may drop other elements" if decide_masks & changes.keys() else "rounding may differ"
        differs = f"{effect}, so its numbers may differ from those of a run that was never stopped"
        logger.info(f"Continued in another environment: {', '.join(changes.values())}; {differs}")
    progress.environment = environment
