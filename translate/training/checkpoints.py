"""All that has a state, to a file and back: a run that is continued computes what it would have computed."""

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
    read_tensors,
    set_parameters,
    with_prefix,
    write_tensors,
)
from translate.training.average import AveragedWeights
from translate.training.optimizer import optimizer_tensors, set_optimizer_tensors
from translate.training.progress import Progress

OPTIMIZER_PREFIX = "optimizer."
RANDOM_PREFIX = "random."


def save_best(run: RunDirectory, weights: dict[str, Tensor], *, step: int) -> None:
    """Keep the weights that are the best so far.

    Raises:
        RunError: They cannot be written.
    """
    write_tensors(run.checkpoint("best"), add_prefix(weights, WEIGHTS_PREFIX), {"step": str(step)})


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
    tensors |= add_prefix(_random_states(), RANDOM_PREFIX)
    write_tensors(run.checkpoint("last"), tensors, {"step": str(progress.step), "progress": progress.to_json()})


def restore_last(
    run: RunDirectory, model: Transformer, optimizer: torch.optim.Optimizer, average: AveragedWeights | None
) -> Progress:
    """Put everything back as `save_last` found it, torch's random generators too.

    Raises:
        RunError: The file is damaged, or holds another model or optimizer.
    """
    file = run.checkpoint("last")
    tensors, metadata = read_tensors(file)
    if "progress" not in metadata:
        raise RunError(f"{file}: has no progress to go on from")
    set_parameters(model, with_prefix(tensors, WEIGHTS_PREFIX), name=str(file))
    set_optimizer_tensors(optimizer, model, with_prefix(tensors, OPTIMIZER_PREFIX))
    saved_average = with_prefix(tensors, AVERAGE_PREFIX)
    if average is not None:
        if saved_average.keys() != average.tensors.keys():
            raise RunError(f"{file}: has no average of the weights, which training.ema_decay asks for")
        for name, tensor in average.tensors.items():
            tensor.copy_(saved_average[name])
    random = with_prefix(tensors, RANDOM_PREFIX)
    if "cpu" not in random:
        raise RunError(f"{file}: has no state of the random generator")
    torch.set_rng_state(random["cpu"])
    if "cuda" in random and torch.cuda.is_available():
        torch.cuda.set_rng_state(random["cuda"])
    return Progress.from_json(metadata["progress"])


def _random_states() -> dict[str, Tensor]:
    """Shuffling and subword sampling need none: they are functions of the seed and the epoch."""
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        states["cuda"] = torch.cuda.get_rng_state()
    return states
