"""All that has a state, to a file and back: a run that is continued computes what it would have computed."""

from typing import NamedTuple

import torch
from torch import Tensor

from translate.errors import RunError
from translate.model import Transformer
from translate.run import (
    AVERAGE_PREFIX,
    WEIGHTS_PREFIX,
    RunDirectory,
    add_prefix,
    get_parameters,
    read_newest_sound,
    read_tensors,
    set_parameters,
    with_prefix,
    write_checkpoint,
)
from translate.run.checkpoints import OPTIMIZER_PREFIX, RANDOM_PREFIX
from translate.run.weights import forms_of, refuse_misfits
from translate.training.average import AveragedWeights
from translate.training.optimizer import optimizer_tensors, set_optimizer_tensors
from translate.training.progress import Progress
from translate.training.randomness import random_states, set_random_states


class Restored(NamedTuple):
    """A training as a checkpoint has it."""

    progress: Progress
    remarks: tuple[str, ...]  # sentences on what was damaged, and what that means


def save_best(run: RunDirectory, weights: dict[str, Tensor], *, step: int) -> None:
    """Keep the weights that are the best so far.

    Raises:
        RunError: They cannot be written.
    """
    write_checkpoint(run, "best", add_prefix(weights, WEIGHTS_PREFIX), {"step": str(step)})


def save_last(
    run: RunDirectory,
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    average: AveragedWeights | None,
    progress: Progress,
) -> None:
    """Write everything that `restore_last` needs.

    Raises:
        RunError: It cannot be written; the file that was there is intact.
    """
    tensors = add_prefix(get_parameters(model), WEIGHTS_PREFIX)
    tensors |= add_prefix(optimizer_tensors(optimizer, model), OPTIMIZER_PREFIX)
    tensors |= add_prefix(average.tensors if average is not None else {}, AVERAGE_PREFIX)
    tensors |= add_prefix(random_states(), RANDOM_PREFIX)
    write_checkpoint(run, "last", tensors, {"step": str(progress.step), "progress": progress.to_json()})


def restore_last(
    run: RunDirectory, model: Transformer, optimizer: torch.optim.Optimizer, average: AveragedWeights | None
) -> Restored | None:
    """Put everything back as `save_last` found it, torch's random generators too; None: there is no checkpoint yet.

    Raises:
        RunError: All checkpoints are damaged, or the newest sound one holds another model or optimizer.
    """
    found = read_newest_sound(run)
    if found is None:
        return None
    name = str(found.path)
    if "progress" not in found.metadata:
        raise RunError(f"{name}: has no progress to go on from")
    progress = Progress.from_json(found.metadata["progress"])
    random = with_prefix(found.tensors, RANDOM_PREFIX)
    if "cpu" not in random:
        raise RunError(f"{name}: has no state of the random generator")
    saved_average = with_prefix(found.tensors, AVERAGE_PREFIX)
    refuse_misfits(
        forms_of({} if average is None else average.tensors), forms_of(saved_average), name=f"{name}: average"
    )
    set_parameters(model, with_prefix(found.tensors, WEIGHTS_PREFIX), name=name)
    set_optimizer_tensors(
        optimizer, model, with_prefix(found.tensors, OPTIMIZER_PREFIX), name=f"{name}: the optimizer's state"
    )
    if average is not None:
        for key, tensor in average.tensors.items():
            tensor.copy_(saved_average[key])
    set_random_states(random)
    remarks = list(found.damaged)
    if found.damaged:
        remarks.append(f"so the run goes on from {found.path.name}, of step {progress.step}")
    return Restored(progress, tuple(remarks + _check_best(run, progress)))


def _check_best(run: RunDirectory, progress: Progress) -> list[str]:
    """Whether the best checkpoint is the one that the progress speaks of; if it is lost, the next one is kept.

    A newer one is no harm: it was written just before the process ended, and is computed again.
    """
    if progress.best_step is None:
        return []
    file = run.checkpoint("best")
    try:
        if file.exists():
            read_tensors(file)
            return []
        reason = f"{file}: is missing"
    except RunError as error:
        reason = str(error)
    lost, progress.best_step, progress.best_score = progress.best_step, None, None
    return [
        f"{reason}. The best weights so far, of step {lost}, are lost: those of the next validation take their place"
    ]
