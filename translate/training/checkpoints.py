"""All that has a state, to a file and back: a run that is continued computes what it would have computed."""

from typing import NamedTuple

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
    SoundCheckpoint,
    add_prefix,
    get_parameters,
    read_newest_sound,
    read_tensors,
    with_prefix,
    write_checkpoint,
)
from translate.runs.checkpoints import OPTIMIZER_PREFIX
from translate.runs.weights import forms_of, refuse_misfits
from translate.training.average import AveragedWeights
from translate.training.optimizer import optimizer_forms
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
    """Write everything that `restore_last` needs.

    Args:
        world: Its first process writes, what all of them have.

    Raises:
        RunError: It cannot be written; the file that was there is intact.
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
) -> Restored | None:
    """Put everything back as `save_last` found it; None: there is no checkpoint yet.

    Args:
        world: Its first process reads for all of them; there may be more or fewer than when it was saved.

    Raises:
        RunError: All checkpoints are damaged, or the newest sound one holds another model or optimizer.
    """
    saved: dict[str, Tensor] = {}

    def read() -> Restored | None:
        nonlocal saved
        found = read_newest_sound(run)
        if found is None:
            return None
        saved = found.tensors
        _check_fits(saved, model, average, name=str(found.path))
        return _judge(run, found)

    restored = world.run_on_rank_0(read)
    if restored is None:
        return None
    if average is not None:
        load_model_state_dict(model, with_prefix(saved, AVERAGE_PREFIX), world)
        average.copy_from(model)
    load_optimizer_state_dict(model, optimizer, with_prefix(saved, OPTIMIZER_PREFIX), world)
    load_model_state_dict(model, with_prefix(saved, WEIGHTS_PREFIX), world)
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


def _check_fits(tensors: dict[str, Tensor], model: Transformer, average: AveragedWeights | None, *, name: str) -> None:
    parameters = forms_of(get_parameters(model))
    expected = {"average": {} if average is None else parameters, "optimizer": optimizer_forms(model)}
    refuse_misfits(parameters, forms_of(with_prefix(tensors, WEIGHTS_PREFIX)), name=name)
    for part, prefix in (("average", AVERAGE_PREFIX), ("optimizer", OPTIMIZER_PREFIX)):
        refuse_misfits(expected[part], forms_of(with_prefix(tensors, prefix)), name=f"{name}: {part}")


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
