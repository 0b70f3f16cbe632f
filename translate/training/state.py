"""The state of a training: what checkpoints hold, and how a run is started, or resumed from its last checkpoint.

The last checkpoint holds the tensors that `save_last` names, and `runs.progress.Progress` as JSON. Everything else that
a step needs is a function of the config, the data and these. Other checkpoints hold weights to translate with.
"""

import contextlib
import logging
from typing import Literal, NamedTuple

from torch import Tensor

from translate.config.schema import Config
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
from translate.model import Transformer
from translate.model.lora import merge_lora, merged_matrices
from translate.runs.checkpoint import (
    AVERAGE_PREFIX,
    AVERAGED_KEY,
    MERGED_PREFIX,
    OPTIMIZER_PREFIX,
    WEIGHTS_PREFIX,
    add_prefix,
    read_newest_intact,
    read_tensors,
    with_prefix,
    write_checkpoint,
)
from translate.runs.directory import Checkpoint, RunDirectory, create_run, write_config
from translate.runs.initial import check_unchanged
from translate.runs.loading import check_same_tensors, get_parameters
from translate.runs.log import RunLog
from translate.runs.progress import Progress
from translate.training.claim import Claim, Place
from translate.training.optimizer import AveragedWeights, expected_state
from translate.training.preparation import TrainingData
from translate.training.step import TrainStep
from translate.training.validation import validation_fingerprint

logger = logging.getLogger(__name__)


class TrainingState(NamedTuple):
    """Everything that changes while a training runs."""

    train_step: TrainStep  # has the model and the optimizer
    average: AveragedWeights | None  # is validated and saved as best; None: the weights themselves are
    progress: Progress


def save_last(run: RunDirectory, state: TrainingState, *, world: World) -> None:
    """Save everything that `_restore_last` needs; rank 0 writes it.

    Raises:
        RunError: The checkpoint cannot be written; earlier ones are intact.
    """
    train_step, average, progress = state
    model, averages = train_step.model, {} if average is None else average.tensors
    weights = get_parameters(model)
    tensors = add_prefix(weights, WEIGHTS_PREFIX) | add_prefix(averages, AVERAGE_PREFIX)
    tensors |= add_prefix(optimizer_state_dict(model, train_step.optimizer), OPTIMIZER_PREFIX)
    tensors |= add_prefix(merged_matrices(model, weights | averages), MERGED_PREFIX)  # only read to translate
    tensors = full_state_dict(tensors, world)
    if world.is_main_process:
        write_checkpoint(run, "last", tensors, {"step": str(progress.step), "progress": progress.to_json()})


def decoding_weights(model: Transformer, average: AveragedWeights | None) -> dict[str, Tensor]:
    """The weights to translate with: averaged if there is an average, and merged with the updates of LoRA."""
    return merge_lora(model, get_parameters(model) | ({} if average is None else average.tensors))


def save_weights(run: RunDirectory, weights: dict[str, Tensor], progress: Progress, *, world: World) -> None:
    """Save the weights of this step's validation if they are the best so far, or are to be kept; rank 0 writes them.

    Raises:
        RunError: A checkpoint cannot be written.
    """
    step = progress.step
    names: list[Checkpoint] = [*(["best"] if step == progress.best_step else [])]
    names += [f"step-{step}"] if step in progress.kept else []
    tensors = full_state_dict(add_prefix(weights, WEIGHTS_PREFIX), world) if names else {}
    for name in names if world.is_main_process else []:
        write_checkpoint(run, name, tensors, {"step": str(step)})


def remove_superseded(run: RunDirectory, progress: Progress, *, world: World) -> None:
    """Remove the weights of validations that the last checkpoint does not keep; rank 0 does."""
    for step in {*run.kept_steps()} - progress.kept.keys() if world.is_main_process else ():
        with contextlib.suppress(OSError):
            run.checkpoint(f"step-{step}").unlink()


def start_or_resume(
    config: Config,
    claim: Claim,
    train_step: TrainStep,
    data: TrainingData,
    *,
    place: Place,
    command: list[str],
    log: RunLog,
    world: World,
) -> TrainingState:
    """Create the run and its state before the first step, or restore the state of its last checkpoint.

    Args:
        command: The command that the user typed.
        log: Is written into a new run from here on.

    Raises:
        InputError: Processes have different data, or a resumed run had other data or initial weights.
        RunError: The run cannot be written, its checkpoints are all damaged, or do not fit the model.
        SystemExit: On a rank > 0, when another rank raises one of these errors.
    """
    run, is_resumed, initial = claim

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
    decay, streams = config.training.ema_decay, data.corpora.streams
    average = None if decay is None else AveragedWeights(train_step.model, decay=decay)
    progress = Progress(
        data_fingerprint(data.corpora.train, data.tokenizers, streams=None if streams is None else streams.identity),
        validation_fingerprint=validation_fingerprint(data.corpora.validation, data.tokenizers, config),
        environment=place.environment,
    )
    world.check_same_on_all_ranks(
        {
            "data.train (its checksum)": progress.data_fingerprint,
            "data.validation (its checksum)": str(progress.validation_fingerprint),
            "training.initialize_from (its checksum)": "" if initial is None else initial.sha256,
        }
    )
    state = TrainingState(train_step, average, progress)
    if not is_resumed:
        return state
    saved, metric = _restore_last(run, state, world=world), config.training.best_metric
    progress = world.run_on_all_ranks(lambda: _continue_from(run, saved, new=progress, metric=metric))
    if progress.step >= config.training.max_steps:
        logger.info("The training has ended there; training.max_steps=N, with a larger N, extends it")
    world.run_on_rank_0(lambda: write_config(run, config))
    _restore_kept(run, progress, world=world)
    if isinstance(data.batches, StreamedBatches):
        data.batches.continue_from(progress.epoch, progress.stream)
    return state._replace(progress=progress)


def _restore_last(run: RunDirectory, state: TrainingState, *, world: World) -> Progress | None:
    """Restore what `save_last` saved, also with another number of processes; damage is logged.

    Returns:
        The progress of the checkpoint; None: there is no checkpoint yet.

    Raises:
        RunError: All checkpoints are damaged, or the newest intact one is of another model or optimizer.
    """
    train_step, average, _ = state
    model, saved = train_step.model, dict[str, Tensor]()

    def read() -> Progress | None:
        found = read_newest_intact(run)
        if found is None:
            return None
        path, tensors, progress, damaged = found
        expected = add_prefix(get_parameters(model), WEIGHTS_PREFIX)
        if progress.step > 0:  # before the first step the optimizer has no state
            expected |= add_prefix(expected_state(model), OPTIMIZER_PREFIX)
        expected |= {} if average is None else add_prefix(average.tensors, AVERAGE_PREFIX)
        prefixes = (WEIGHTS_PREFIX, AVERAGE_PREFIX, OPTIMIZER_PREFIX)  # Format 1 also has random states.
        saved.update({key: tensor for key, tensor in tensors.items() if key.startswith(prefixes)})
        check_same_tensors(expected, saved, name=str(path))
        for sentence in damaged:
            logger.warning(sentence)
        if damaged:
            logger.warning(f"Therefore the run continues from {path.name}, of step {progress.step}")
        _check_best(run, progress)
        return progress

    progress = world.run_on_rank_0(read)
    if progress is None:
        return None
    if average is not None:
        load_model_state_dict(model, with_prefix(saved, AVERAGE_PREFIX), world)
        average.copy_from(model)
    if progress.step > 0:
        load_optimizer_state_dict(model, train_step.optimizer, with_prefix(saved, OPTIMIZER_PREFIX), world)
    load_model_state_dict(model, with_prefix(saved, WEIGHTS_PREFIX), world)
    return progress


def _check_best(run: RunDirectory, progress: Progress) -> None:
    """Forget the best validation if its checkpoint is lost, so that the next validation's weights are kept."""
    if progress.best_step is None:
        return
    try:
        if AVERAGED_KEY in read_tensors(run.checkpoint("best"), prefixes=()).metadata:
            read_tensors(run.checkpoint(f"step-{progress.best_step}"), prefixes=())  # `_restore_kept` will need it
    except RunError as error:
        lost, progress.best_step, progress.best_score = progress.best_step, None, None
        logger.warning(
            f"{error}. The best weights so far, of step {lost}, are lost: those of the next validation replace them"
        )


def _continue_from(
    run: RunDirectory, saved: Progress | None, *, new: Progress, metric: Literal["bleu", "loss"]
) -> Progress:
    """Check that a resumed run has its own data, and log what else has changed; returns its progress."""
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
            f"Continued in another environment: {', '.join(changes)}. The training is as good, but its numbers"
            " differ in the last bits from those of a run that was never stopped"
        )
    # Progress of up to 0.3.0 has no fingerprint: its loss was computed as today, but its BLEU with another search.
    comparable = {new.validation_fingerprint} | ({None} if metric == "loss" else set())
    if saved.best_score is not None and saved.validation_fingerprint not in comparable:
        logger.warning(
            "data.validation, or a setting that decides its score, has changed since the best validation so far, of"
            f" step {saved.best_step}, so scores are not compared with it: best.safetensors has those weights until the"
            " next validation, whose weights replace them, and training.patience counts from there"
        )
        saved.best_score, saved.validations_without_better = None, 0
        saved.kept = dict.fromkeys(saved.kept)
    logger.info(f"Going on from step {saved.step:,}")
    saved.environment, saved.validation_fingerprint = new.environment, new.validation_fingerprint
    return saved


def _restore_kept(run: RunDirectory, progress: Progress, *, world: World) -> None:
    """Remove weights of validations that this progress does not know, and forget those that are missing.

    If the best checkpoint is an average, the best validation's takes its place again.
    """

    def restore() -> dict[int, float | None]:
        best, kept = run.checkpoint("best"), run.checkpoint(f"step-{progress.best_step or 0}")
        if progress.best_step is not None and AVERAGED_KEY in read_tensors(best, prefixes=()).metadata:
            logger.info(f"{best.name}, an average of checkpoints, is {kept.name} again while the training goes on")
            tensors, metadata, _ = read_tensors(kept)
            write_checkpoint(run, "best", tensors, metadata)
        remove_superseded(run, progress, world=world)
        there = run.kept_steps()
        return {step: score for step, score in progress.kept.items() if step in there}

    progress.kept = world.run_on_rank_0(restore)
