"""All that has a state, to a file and back: a run that is continued computes what it would have computed."""

from typing import NamedTuple

import torch
from torch import Tensor

from translate.distributed.data_parallel import collect, spread
from translate.distributed.process_group import SINGLE_PROCESS, World
from translate.errors import RunError
from translate.model import Transformer
from translate.runs import (
    AVERAGE_PREFIX,
    WEIGHTS_PREFIX,
    RunDirectory,
    SoundCheckpoint,
    add_prefix,
    get_parameters,
    read_newest_sound,
    read_tensors,
    set_parameters,
    with_prefix,
    write_checkpoint,
)
from translate.runs.checkpoints import OPTIMIZER_PREFIX
from translate.runs.weights import forms_of, refuse_misfits
from translate.training.average import AveragedWeights
from translate.training.optimizer import optimizer_tensors, set_optimizer_tensors
from translate.training.progress import Progress


class Restored(NamedTuple):
    """A training as a checkpoint has it."""

    progress: Progress
    remarks: tuple[str, ...]  # sentences on what was damaged, and what that means


def save_best(run: RunDirectory, weights: dict[str, Tensor], *, step: int, world: World = SINGLE_PROCESS) -> None:
    """Keep the weights that are the best so far.

    Args:
        world: Its first process writes, what all of them have.

    Raises:
        RunError: They cannot be written.
    """
    tensors = collect(add_prefix(weights, WEIGHTS_PREFIX), world)
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
    """Write everything that `restore_last` needs.

    Args:
        world: Its first process writes, what all of them have.

    Raises:
        RunError: It cannot be written; the file that was there is intact.
    """
    tensors = add_prefix(get_parameters(model), WEIGHTS_PREFIX)
    tensors |= add_prefix(optimizer_tensors(optimizer, model), OPTIMIZER_PREFIX)
    tensors |= add_prefix(average.tensors if average is not None else {}, AVERAGE_PREFIX)
    tensors = collect(tensors, world)
    if world.is_main_process:
        write_checkpoint(run, "last", tensors, {"step": str(progress.step), "progress": progress.to_json()})


def restore_last(
    run: RunDirectory,
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    average: AveragedWeights | None,
    *,
    world: World = SINGLE_PROCESS,
) -> Restored | None:
    """Put everything back as `save_last` found it; None: there is no checkpoint yet.

    Args:
        world: Its first process reads for all of them; there may be more or fewer than when it was saved.

    Raises:
        RunError: All checkpoints are damaged, or the newest sound one holds another model or optimizer.
    """
    name, saved = "", dict[str, Tensor]()

    def read() -> Restored | None:
        nonlocal name, saved
        found = read_newest_sound(run)
        if found is None:
            return None
        name, saved = str(found.path), found.tensors
        return _judge(run, found)

    restored = world.run_on_rank_0(read)
    if restored is None:
        return None
    parameters = dict(model.named_parameters())

    def parameter_of(name: str) -> Tensor | None:
        """The one that a tensor is the value, the average or a moment of."""
        return parameters.get(name.partition(".")[2].partition("/")[0])

    tensors = spread(saved, parameter_of, world)
    world.run_on_all_ranks(lambda: _put_back(tensors, model, optimizer, average, name=name))
    return restored


def _judge(run: RunDirectory, found: SoundCheckpoint) -> Restored:
    """Where it stands, and what is to be said."""
    if "progress" not in found.metadata:
        raise RunError(f"{found.path}: has no progress to go on from")
    progress = Progress.from_json(found.metadata["progress"])
    remarks = list(found.damaged)
    if found.damaged:
        remarks.append(f"so the run goes on from {found.path.name}, of step {progress.step}")
    return Restored(progress, tuple(remarks + _check_best(run, progress)))


def _put_back(
    tensors: dict[str, Tensor],
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    average: AveragedWeights | None,
    *,
    name: str,
) -> None:
    saved_average = with_prefix(tensors, AVERAGE_PREFIX)
    refuse_misfits(
        forms_of({} if average is None else average.tensors), forms_of(saved_average), name=f"{name}: average"
    )
    set_parameters(model, with_prefix(tensors, WEIGHTS_PREFIX), name=name)
    set_optimizer_tensors(
        optimizer, model, with_prefix(tensors, OPTIMIZER_PREFIX), name=f"{name}: the optimizer's state"
    )
    if average is not None:
        for key, tensor in average.tensors.items():
            tensor.copy_(saved_average[key])


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
