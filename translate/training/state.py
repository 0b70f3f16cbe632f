"""The state of a training, to a checkpoint and back, so that a continued run computes what it would have computed.

Also whether a run can be continued with the settings and in the environment that are there now.
"""

import contextlib
import logging
import os
from importlib import metadata
from pathlib import Path

import torch
from torch import Tensor

from translate._version import __version__
from translate.config.load import read_resolved_config
from translate.config.schema import Config, TrainingConfig
from translate.distributed.process_group import World
from translate.distributed.state import (
    full_state_dict,
    load_model_state_dict,
    load_optimizer_state_dict,
    optimizer_state_dict,
)
from translate.errors import InputError, RunError
from translate.model import Transformer
from translate.model.device import choose_precision, has_streams
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
from translate.runs.directory import RunDirectory, check_holds_run, open_run
from translate.runs.loading import check_same_tensors, get_parameters
from translate.runs.progress import Progress
from translate.training.optimizer import AveragedWeights, expected_state
from translate.training.step import TrainStep

logger = logging.getLogger(__name__)

# A continued run may end at another step, and log and save at others; anything else would make it another training.
_MAY_CHANGE = {
    f"training.{name}"
    for name in (
        *("max_steps", "max_epochs", "validate_every", "validation_beam_size", "save_every", "log_every", "patience"),
        *("threads", "device", "parallel", "sample_translations", "trackers", "keep_last", "keep_best", "average_kept"),
    )
} | {"tokenizer.max_training_lines"}  # The tokenizer is trained already.
# The content of the training corpora is compared by fingerprint; where they lie may change.
_LOCATIONS = (
    *("data.train", "data.validation", "data.test", "data.root", "training.initialize_from"),
    *("tokenizer.source_model", "tokenizer.target_model"),
)


def decoding_weights(model: Transformer, average: AveragedWeights | None) -> dict[str, Tensor]:
    """The weights to translate with: averaged if there is an average, and merged with the updates of LoRA."""
    return merge_lora(model, get_parameters(model) | ({} if average is None else average.tensors))


def save_weights(
    run: RunDirectory, weights: dict[str, Tensor], progress: Progress, *, is_best: bool, world: World
) -> None:
    """Save the weights of this step's validation if they are the best so far, or are to be kept; rank 0 writes them.

    Raises:
        RunError: A checkpoint cannot be written.
    """
    step = progress.step
    names = [*(["best"] if is_best else []), *([f"step-{step}"] if step in progress.kept else [])]
    tensors = full_state_dict(add_prefix(weights, WEIGHTS_PREFIX), world) if names else {}
    for name in names if world.is_main_process else []:
        write_checkpoint(run, name, tensors, {"step": str(step)})


def remove_superseded(run: RunDirectory, progress: Progress, *, world: World) -> None:
    """Remove the weights of validations that the last checkpoint does not keep; rank 0 does."""
    for step in {*run.kept_steps()} - progress.kept.keys() if world.is_main_process else ():
        with contextlib.suppress(OSError):
            run.checkpoint(f"step-{step}").unlink()


def save_last(
    run: RunDirectory, train_step: TrainStep, average: AveragedWeights | None, progress: Progress, *, world: World
) -> None:
    """Save everything that `restore_last` needs; rank 0 writes it.

    Raises:
        RunError: The checkpoint cannot be written; those that were there are intact.
    """
    model, averages = train_step.model, {} if average is None else average.tensors
    weights = get_parameters(model)
    tensors = add_prefix(weights, WEIGHTS_PREFIX) | add_prefix(averages, AVERAGE_PREFIX)
    tensors |= add_prefix(optimizer_state_dict(model, train_step.optimizer), OPTIMIZER_PREFIX)
    tensors |= add_prefix(merged_matrices(model, weights | averages), MERGED_PREFIX)  # only read to translate
    tensors = full_state_dict(tensors, world)
    if world.is_main_process:
        write_checkpoint(run, "last", tensors, {"step": str(progress.step), "progress": progress.to_json()})


def restore_last(
    run: RunDirectory, train_step: TrainStep, average: AveragedWeights | None, *, world: World
) -> Progress | None:
    """Restore what `save_last` saved, perhaps in more or fewer processes. What is damaged is logged.

    Returns:
        Where the training stands; None: there is no checkpoint yet.

    Raises:
        RunError: All checkpoints are damaged, or the newest intact one is of another model or optimizer.
    """
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
            read_tensors(run.checkpoint(f"step-{progress.best_step}"), prefixes=())  # which `restore_kept` will need
    except RunError as error:
        lost, progress.best_step, progress.best_score = progress.best_step, None, None
        logger.warning(
            f"{error}. The best weights so far, of step {lost}, are lost: those of the next validation take their place"
        )


def restore_kept(run: RunDirectory, progress: Progress, *, world: World) -> None:
    """Remove weights of validations that this progress does not know, and forget those that are gone.

    If the best checkpoint is an average, that of the best validation takes its place again.
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


def holds_run(directory: Path) -> bool:
    """Whether there is a run to continue. What a process that was killed while it made a run left behind is none.

    Raises:
        InputError: There are checkpoints, but not the rest of the run.
    """
    run = RunDirectory(directory)
    if any(run.checkpoints.glob("*.safetensors")):
        check_holds_run(directory)
    return os.path.lexists(run.description)


def check_settings(config: Config, directory: Path) -> None:
    """Check that a run is continued with its own settings, but for those that do not change the steps already done.

    Raises:
        InputError: Other settings differ; the message names them.
    """
    before, settings = read_resolved_config(open_run(directory).config), config.training
    saved, given = (
        flatten(each.model_dump(mode="json", include={"tokenizer", "model", "training", "data"}))
        for each in (before, config)
    )
    different = [
        f"{key} = {given.get(key)} (the run has {saved.get(key)})"
        for key in sorted(saved.keys() | given.keys())
        if saved.get(key) != given.get(key) and key not in _MAY_CHANGE and not key.startswith(_LOCATIONS)
    ]
    if different:
        raise InputError(
            f"{directory} was begun with other settings, so it cannot be continued with {'; '.join(different)}"
        )
    if settings.schedule in {"linear", "cosine"} and settings.max_steps != before.training.max_steps:
        logger.info(f"training.max_steps is now {settings.max_steps}, and the {settings.schedule} schedule ends there")


def settings_of_all_processes(config: Config, device: torch.device) -> dict[str, str]:
    """What must be the same in all processes of a training, by name; where a machine keeps its files may differ."""
    facts = flatten(config.model_dump(mode="json")) | describe_environment(config.training, device)
    may_differ = (*_LOCATIONS, "training.threads", "CPU threads")
    return {key: str(value) for key, value in facts.items() if not key.startswith(may_differ)} | {"device": device.type}


def describe_environment(settings: TrainingConfig, device: torch.device, *, num_processes: int = 1) -> dict[str, str]:
    """What the last digits of a training depend on besides its settings: versions, precision and hardware, by name."""
    environment = {"translate": __version__}
    # numpy shuffles and samples, sentencepiece segments, torch computes.
    environment |= {package: metadata.version(package) for package in ("torch", "numpy", "sentencepiece")}
    environment["precision"] = choose_precision(settings.precision, device)
    environment["processes"] = f"{num_processes} ({settings.parallel})" if num_processes > 1 else "1"
    environment["device"] = device.type
    if device.type == "cpu":
        environment["device"] += f" ({torch.backends.cpu.get_cpu_capability()})"
        environment["CPU threads"] = str(torch.get_num_threads())
    elif has_streams(device):
        environment["device"] += f" ({torch.get_device_module(device).get_device_name(device)})"
    return environment


def flatten(value: object, prefix: str = "") -> dict[str, object]:
    """A nested mapping with dotted keys."""
    if not isinstance(value, dict):
        return {prefix: value}
    flat: dict[str, object] = {}
    for name, item in value.items():
        flat |= flatten(item, f"{prefix}.{name}" if prefix else name)
    return flat
