"""The whole state of a training, to a checkpoint and back: a continued run computes what it would have computed."""

import logging

import torch
from torch import Tensor

from translate.distributed.process_group import SINGLE_PROCESS, World
from translate.distributed.state import (
    full_state_dict,
    load_model_state_dict,
    load_optimizer_state_dict,
    optimizer_state_dict,
)
from translate.errors import RunError
from translate.model import Transformer
from translate.runs import (
    AVERAGE_PREFIX,
    WEIGHTS_PREFIX,
    RunDirectory,
    add_prefix,
    get_parameters,
    read_newest_intact,
    read_tensors,
    with_prefix,
    write_checkpoint,
)
from translate.runs.checkpoint import OPTIMIZER_PREFIX
from translate.runs.loading import check_same_tensors
from translate.training.optimizer import AveragedWeights, expected_state
from translate.training.progress import Progress

logger = logging.getLogger(__name__)


def save_best(run: RunDirectory, weights: dict[str, Tensor], *, step: int, world: World = SINGLE_PROCESS) -> None:
    """Save the weights that are the best so far.

    Args:
        world: The processes that train together; rank 0 writes.

    Raises:
        RunError: The checkpoint cannot be written.
    """
    tensors = full_state_dict(add_prefix(weights, WEIGHTS_PREFIX), world)
    if world.is_main_process:
        write_checkpoint(run, "best", tensors, {"step": str(step)})


def save_last(
    run: RunDirectory,
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    average: AveragedWeights | None,
    progress: Progress,
    *,
    world: World = SINGLE_PROCESS,
) -> None:
    """Save everything that `restore_last` needs.

    Args:
        world: The processes that train together; rank 0 writes.

    Raises:
        RunError: The checkpoint cannot be written; those that were there are intact.
    """
    tensors = add_prefix(get_parameters(model), WEIGHTS_PREFIX)
    tensors |= add_prefix(optimizer_state_dict(model, optimizer), OPTIMIZER_PREFIX)
    tensors |= add_prefix(average.tensors if average is not None else {}, AVERAGE_PREFIX)
    tensors = full_state_dict(tensors, world)
    if world.is_main_process:
        write_checkpoint(run, "last", tensors, {"step": str(progress.step), "progress": progress.to_json()})


def restore_last(
    run: RunDirectory,
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    average: AveragedWeights | None,
    *,
    world: World = SINGLE_PROCESS,
) -> Progress | None:
    """Restore what `save_last` saved. What is damaged, and what that means, is logged.

    Args:
        world: The processes that train together; rank 0 reads. There may be more or fewer than when it was saved.

    Returns:
        Where the training stands; None: there is no checkpoint yet.

    Raises:
        RunError: All checkpoints are damaged, or the newest intact one is of another model or optimizer.
    """
    saved: dict[str, Tensor] = {}

    def read() -> Progress | None:
        found = read_newest_intact(run)
        if found is None:
            return None
        saved.update(found.tensors)
        _check_fits(saved, model, average, name=str(found.path))
        if "progress" not in found.metadata:
            raise RunError(f"{found.path}: has no progress to continue from")
        progress = Progress.from_json(found.metadata["progress"])
        for sentence in found.damaged:
            logger.warning(sentence)
        if found.damaged:
            logger.warning("so the run continues from %s, of step %d", found.path.name, progress.step)
        _check_best(run, progress)
        return progress

    progress = world.run_on_rank_0(read)
    if progress is None:
        return None
    if average is not None:
        load_model_state_dict(model, with_prefix(saved, AVERAGE_PREFIX), world)
        average.copy_from(model)
    load_optimizer_state_dict(model, optimizer, with_prefix(saved, OPTIMIZER_PREFIX), world)
    load_model_state_dict(model, with_prefix(saved, WEIGHTS_PREFIX), world)
    return progress


def _check_fits(tensors: dict[str, Tensor], model: Transformer, average: AveragedWeights | None, *, name: str) -> None:
    parameters = get_parameters(model)
    check_same_tensors(parameters, with_prefix(tensors, WEIGHTS_PREFIX), name=name)
    averages = {} if average is None else parameters
    check_same_tensors(averages, with_prefix(tensors, AVERAGE_PREFIX), name=f"{name}: average")
    check_same_tensors(expected_state(model), with_prefix(tensors, OPTIMIZER_PREFIX), name=f"{name}: optimizer")


def _check_best(run: RunDirectory, progress: Progress) -> None:
    """Forget the best validation if its checkpoint is lost, so that the next validation's weights are kept.

    A best checkpoint that is newer than the progress is no harm: it was written just before the process ended, and
    the continued training computes and writes it again.
    """
    if progress.best_step is None:
        return
    file = run.checkpoint("best")
    try:
        if file.exists():
            read_tensors(file, prefixes=())
            return
        reason = f"{file}: is missing"
    except RunError as error:
        reason = str(error)
    lost, progress.best_step, progress.best_score = progress.best_step, None, None
    logger.warning(
        "%s. The best weights so far, of step %d, are lost: those of the next validation take their place", reason, lost
    )
