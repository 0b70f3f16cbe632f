"""Averages of kept checkpoints: which are tried, the choice among them, and how one becomes the best checkpoint.

Source: Junczys-Dowmunt et al. 2016, https://arxiv.org/abs/1605.04809; why they help: Izmailov et al. 2018,
https://arxiv.org/abs/1803.05407; choices compared for translation: Gao et al. 2022, https://arxiv.org/abs/2210.11803.
"""

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

from torch import Tensor

from translate.atomic import explain_write_errors, open_append, text_bytes
from translate.bars import show_progress
from translate.data.corpora import ParallelCorpus
from translate.distributed.process_group import SINGLE_PROCESS, World
from translate.distributed.state import load_model_state_dict
from translate.errors import InputError
from translate.model import Transformer
from translate.model.device import LOADING_HINT, choose_device, explain_out_of_memory
from translate.runs.checkpoint import WEIGHTS_PREFIX, add_prefix, read_progress, read_tensors, write_checkpoint
from translate.runs.directory import Checkpoint, RunDirectory
from translate.runs.lock import lock_run
from translate.runs.metadata import AVERAGED_KEY, describe_moment
from translate.runs.progress import Progress
from translate.runs.run import SavedRun
from translate.runs.weights import SavedWeights, check_same_tensors, get_parameters, read_weights, set_parameters, widen
from translate.training.validation import Validation, mean_validation, validate


class ScoredAverage(NamedTuple):
    """The average of some checkpoints, or a single checkpoint, and its validation."""

    name: str  # such as "last 3"
    checkpoints: tuple[Checkpoint, ...]
    steps: tuple[int, ...]
    validation: Validation

    def to_record(self, *, step: int) -> dict[str, Any]:
        """The numbers as `metrics.jsonl` keeps them, with the current step and the averaged ones."""
        return {**self.validation.to_record("average", step=step), "averaged": self.steps}


def average_run(
    run: SavedRun,
    checkpoints: Sequence[Checkpoint],
    test_sets: Mapping[str, ParallelCorpus],
    *,
    on_scored: Callable[[ScoredAverage], object],
    is_dry_run: bool = False,
) -> ScoredAverage:
    """Make the best-scoring average of a run's checkpoints its best checkpoint, if it beats that one.

    Args:
        checkpoints: The checkpoints to average; none: try all averages of kept ones, see `kept_windows`.
        test_sets: The validation corpora.
        on_scored: Receives the best checkpoint and each average once it is scored.
        is_dry_run: Leave the run as it is.

    Raises:
        InputError: There are fewer than two checkpoints, one cannot be averaged, or the run is in training.
        RunError: A file is damaged or cannot be written.
    """
    with contextlib.nullcontext() if is_dry_run else lock_run(run.path):
        config, files = run.config, run.files
        last = files.checkpoint("last")
        settings, progress = config.training, Progress("")
        if last.is_file():
            progress = read_progress(last, read_tensors(last, prefixes=()).metadata)
        there = files.kept_steps()
        progress.kept = {step: score for step, score in progress.kept.items() if step in there}
        windows = {"given": tuple(checkpoints)}
        if not checkpoints:
            windows = kept_windows(progress, last=settings.keep_last, best=settings.keep_best)
        if not all(len({*names}) == len(names) > 1 for names in windows.values() or [()]):
            message = "name two or more checkpoints, or train with training.keep_last=8 to keep some"
            raise InputError(f"{run}: {message}")
        loaded = run.load_model(device=choose_device(config.decoding.device))
        num_lines = sum(len(pairs.sources) for pairs in test_sets.values())
        share = run.description.multi_sentence_share

        def score() -> dict[str, Validation]:
            with show_progress("Validating", 2 * num_lines, unit="lines") as advance:
                check = partial(validate, multi_sentence_share=share, on_finished=advance)
                model, tokenizers = loaded.model, loaded.tokenizers
                return {name: check(model, tokenizers, pairs, config) for name, pairs in test_sets.items()}

        chosen = choose_average(
            files, windows, loaded.model, metric=settings.best_metric, score=score, on_scored=on_scored
        )
        if len(chosen.checkpoints) > 1 and not is_dry_run:
            write_average(files, chosen.checkpoints, loaded.model)
            with explain_write_errors(files.metrics), open_append(files.metrics) as file:
                file.write(text_bytes(json.dumps(chosen.to_record(step=max(progress.step, *chosen.steps))) + "\n"))
    return chosen


def kept_windows(progress: Progress, *, last: int, best: int) -> dict[str, tuple[Checkpoint, ...]]:
    """The last 2, 3, … kept checkpoints and the best 2, 3, … of them, by names like "last 3"; no set occurs twice."""
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
    metric: Literal["bleu", "loss"],
    score: Callable[[], Mapping[str, Validation]],
    on_scored: Callable[[ScoredAverage], object],
    world: World = SINGLE_PROCESS,
) -> ScoredAverage:
    """Score the best checkpoint and averages of others; returns the one with the best score, the first of equal ones.

    Args:
        windows: The checkpoints of each average, by its name.
        model: Gets the weights of each in turn.
        score: Validates the model on all validation corpora.
    """
    tried: list[ScoredAverage] = []
    for name, checkpoints in {"best": ("best",), **windows}.items():
        steps = load_average(run, checkpoints, model, world=world)
        tried.append(ScoredAverage(name, checkpoints, steps, mean_validation(score().values())))
        on_scored(tried[-1])
    return max(tried, key=lambda average: average.validation.score(metric))


@explain_out_of_memory("reading checkpoints", hint=LOADING_HINT)
def load_average(
    run: RunDirectory, checkpoints: Sequence[Checkpoint], model: Transformer, *, world: World = SINGLE_PROCESS
) -> tuple[int, ...]:
    """Give a model the average of checkpoints, as rank 0 reads it; returns their steps. See `average_checkpoints`."""
    weights = dict[str, Tensor]()

    def read() -> tuple[int, ...]:
        mean = average_checkpoints(run, checkpoints, model)
        weights.update(mean.tensors)
        return mean.averaged

    steps = world.run_on_rank_0(read)
    if world.size > 1:
        load_model_state_dict(model, weights, world)
    else:  # moves them, so memory does not hold them twice
        set_parameters(model, weights, name=str(run.path))
        widen(model)
    return steps


def write_average(run: RunDirectory, checkpoints: Sequence[Checkpoint], model: Transformer) -> None:
    """Make the average the best checkpoint. The old best is kept as step-N, unless it is an average too."""
    mean = average_checkpoints(run, checkpoints, model)
    tensors, metadata, _ = read_tensors(run.checkpoint("best"))
    if AVERAGED_KEY not in metadata:
        write_checkpoint(run, f"step-{metadata['step']}", tensors, metadata)
    metadata = {"step": str(mean.step), AVERAGED_KEY: " ".join(map(str, mean.averaged))}
    write_checkpoint(run, "best", add_prefix(mean.tensors, WEIGHTS_PREFIX), metadata)


def average_checkpoints(run: RunDirectory, checkpoints: Sequence[Checkpoint], model: Transformer) -> SavedWeights:
    """The mean of the weights of checkpoints, summed in fp64, or the unchanged weights of a single one.

    Args:
        model: Defines the expected names and shapes.

    Raises:
        InputError: A checkpoint is missing, one of several is itself an average, or two are of the same step.
        RunError: A checkpoint is damaged, or does not fit the model.
    """
    sums, steps = dict[str, Tensor](), list[int]()
    for name in checkpoints:
        saved = read_weights(run, name)
        if saved.averaged and len(checkpoints) > 1:
            moment = describe_moment(saved.step, saved.averaged)
            raise InputError(f"{run.checkpoint(name)} is itself {moment}: name single checkpoints")
        check_same_tensors(get_parameters(model), saved.tensors, name=str(run.checkpoint(name)))
        if saved.step in steps:
            raise InputError(f"{run.checkpoint(name)} repeats the weights of step {saved.step}: name each step once")
        steps += saved.averaged or [saved.step]
        if len(checkpoints) == 1:
            return saved._replace(averaged=tuple(steps))
        for key, tensor in saved.tensors.items():
            sums[key] = sums[key].add_(tensor) if key in sums else tensor.double()
    means = {key: sums.pop(key).div_(len(checkpoints)).to(saved.tensors.pop(key).dtype) for key in [*sums]}
    return SavedWeights(means, max(steps), tuple(steps))
