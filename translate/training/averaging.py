"""Averages of checkpoints of one training; which checkpoints are averaged is chosen on validation.

Source: Junczys-Dowmunt et al. 2016, https://arxiv.org/abs/1605.04809; why it helps: Izmailov et al. 2018,
https://arxiv.org/abs/1803.05407; choices compared for translation: Gao et al. 2022, https://arxiv.org/abs/2210.11803.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from torch import Tensor

from translate.distributed.process_group import SINGLE_PROCESS, World
from translate.distributed.state import load_model_state_dict
from translate.errors import InputError
from translate.model import Transformer
from translate.runs.checkpoint import AVERAGED_KEY, WEIGHTS_PREFIX, add_prefix, read_tensors, write_checkpoint
from translate.runs.directory import Checkpoint, RunDirectory
from translate.runs.loading import SavedWeights, check_same_tensors, describe_moment, get_parameters, read_weights
from translate.runs.progress import Progress
from translate.training.validation import Validation


class ScoredAverage(NamedTuple):
    """The average of some checkpoints, or one checkpoint alone, and its validation."""

    name: str  # such as "last 3"
    checkpoints: tuple[Checkpoint, ...]
    steps: tuple[int, ...]
    validation: Validation

    def to_record(self, *, step: int) -> dict[str, Any]:
        """The numbers as `metrics.jsonl` keeps them, with the step that was done and those that were averaged."""
        return {**self.validation.to_record("average", step=step), "averaged": self.steps}


def kept_windows(progress: Progress, *, last: int, best: int) -> dict[str, tuple[Checkpoint, ...]]:
    """The last 2, 3, … kept checkpoints and the best 2, 3, … of them, by names like "last 3"; no set of them twice."""
    windows: dict[str, tuple[Checkpoint, ...]] = {}
    for kind, steps in progress.rank_kept(last=last, best=best).items():
        for number in range(2, len(steps) + 1):
            checkpoints = tuple(f"step-{step}" for step in sorted(steps[:number]))
            if checkpoints not in windows.values():
                windows[f"{kind} {number}"] = checkpoints
    return windows


def choose_average(
    run: RunDirectory,
    windows: Mapping[str, tuple[Checkpoint, ...]],
    model: Transformer,
    *,
    score: Callable[[Transformer], Validation],
    metric: Literal["bleu", "loss"],
    on_tried: Callable[[ScoredAverage], object],
    world: World = SINGLE_PROCESS,
) -> ScoredAverage:
    """Score the best checkpoint as it is, and the average of each window; of equal ones the first is chosen.

    Args:
        windows: Checkpoints to be averaged, by the name of the average.
        model: A model of the run, whose weights are overwritten.
        score: Validates the model.
        on_tried: Called with each in its turn.

    Raises:
        InputError: A checkpoint is missing, or is an average itself.
        RunError: A checkpoint is damaged, or does not fit the model.
    """
    tried: list[ScoredAverage] = []
    for name, checkpoints in {"best": ("best",), **windows}.items():
        steps = load_average(run, checkpoints, model, world=world)
        tried.append(ScoredAverage(name, checkpoints, steps, score(model)))
        on_tried(tried[-1])
    return max(tried, key=lambda each: each.validation.score(metric))


def load_average(
    run: RunDirectory, checkpoints: Sequence[Checkpoint], model: Transformer, *, world: World
) -> tuple[int, ...]:
    """Give a model the average of checkpoints, as rank 0 reads it; returns their steps. See `average_checkpoints`."""
    weights = dict[str, Tensor]()

    def read() -> tuple[int, ...]:
        mean = average_checkpoints(run, checkpoints, model)
        weights.update(mean.tensors)
        return mean.averaged

    steps = world.run_on_rank_0(read)
    load_model_state_dict(model, weights, world)
    return steps


def write_average(run: RunDirectory, checkpoints: Sequence[Checkpoint], model: Transformer) -> None:
    """Make the average of checkpoints the best one. What that was is kept as step-N, unless it is an average too.

    Raises:
        RunError: A checkpoint cannot be read or written.
    """
    mean = average_checkpoints(run, checkpoints, model)
    tensors, metadata, _ = read_tensors(run.checkpoint("best"))
    if AVERAGED_KEY not in metadata:
        write_checkpoint(run, f"step-{metadata['step']}", tensors, metadata)
    metadata = {"step": str(mean.step), AVERAGED_KEY: " ".join(map(str, mean.averaged))}
    write_checkpoint(run, "best", add_prefix(mean.tensors, WEIGHTS_PREFIX), metadata)


def average_checkpoints(run: RunDirectory, checkpoints: Sequence[Checkpoint], model: Transformer) -> SavedWeights:
    """The mean of the weights of checkpoints, summed in fp64, or those of one as they are.

    Args:
        model: Has the names and shapes that are expected.

    Raises:
        InputError: A checkpoint is missing, or one of several is an average itself.
        RunError: A checkpoint is damaged, or does not fit the model.
    """
    sums, steps = dict[str, Tensor](), list[int]()
    for name in checkpoints:
        saved = read_weights(run, name, last="--checkpoint last")
        if saved.averaged and len(checkpoints) > 1:
            moment = describe_moment(saved.step, saved.averaged)
            raise InputError(f"{run.checkpoint(name)} is {moment} itself: name single checkpoints")
        check_same_tensors(get_parameters(model), saved.tensors, name=str(run.checkpoint(name)))
        steps += saved.averaged or [saved.step]
        for key, tensor in saved.tensors.items():
            sums[key] = sums[key].add_(tensor) if key in sums else tensor.double()
    means = {key: (total / len(checkpoints)).to(saved.tensors[key].dtype) for key, total in sums.items()}
    return SavedWeights(means, max(steps), tuple(steps))
