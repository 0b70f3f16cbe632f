"""The first two stages of a training: where it runs, and which run it is."""

import contextlib
import logging
import os
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import torch

from translate._version import __version__
from translate.config.load import read_resolved_config
from translate.config.schema import Config, TrainingConfig
from translate.distributed.process_group import DistributedEnvironment, World
from translate.errors import InputError
from translate.model.device import choose_device, choose_precision, has_streams, threads_per_process
from translate.runs.directory import RunDirectory, check_holds_no_run, check_holds_run, open_run, read_description
from translate.runs.initial import InitialWeights, read_initial_weights
from translate.runs.lock import lock_run
from translate.runs.log import RunLog
from translate.training.auto_batch import resolve_from_run, resolve_step_tokens
from translate.training.optimizer import learning_rate

logger = logging.getLogger(__name__)

# A resumed run may end at another step, and log and save at others; anything else would make it another training.
_MAY_CHANGE = {
    f"training.{name}"
    for name in (
        *("max_steps", "max_epochs", "validate_every", "validation_beam_size", "save_every", "log_every", "patience"),
        *("threads", "device", "parallel", "sample_translations", "trackers", "keep_last", "keep_best", "average_kept"),
    )
} | {"tokenizer.max_training_lines"}  # The tokenizer is already trained.
# Files may move: the content of the training corpora is compared by fingerprint.
_LOCATIONS = (
    *("data.train", "data.validation", "data.test", "data.root", "training.initialize_from"),
    *("tokenizer.source_model", "tokenizer.target_model"),
)


class Place(NamedTuple):
    """Where this process trains."""

    device: torch.device
    environment: dict[str, str]  # what the last digits of the training depend on in addition to its settings, by name


def choose_place(config: Config, world: World) -> Place:
    """Choose the device, give torch its threads, and check that all processes have the same settings.

    Raises:
        InputError: There is no such device, or another process has other settings or versions.
        SystemExit: On a rank > 0, when another rank raises the error.
    """
    settings = config.training
    device = world.run_on_all_ranks(lambda: choose_training_device(settings.device, world.environment))
    num_threads = settings.threads
    if num_threads is None and world.size > 1:  # else as torch chooses
        num_threads = threads_per_process(world.environment.local_world_size)
    if num_threads is not None:
        torch.set_num_threads(num_threads)
    environment = _describe_environment(settings, device, num_processes=world.size)
    facts = flatten(config.model_dump(mode="json")) | environment
    may_differ = (*_LOCATIONS, "training.threads", "CPU threads")
    same = {key: str(value) for key, value in facts.items() if not key.startswith(may_differ)}
    world.check_same_on_all_ranks(same | {"device": device.type})
    return Place(device, environment)


def choose_training_device(name: str, environment: DistributedEnvironment) -> torch.device:
    """Choose the device that a config names; each of several processes on a machine takes its own GPU.

    Raises:
        InputError: There is no such device for this process.
    """
    device = choose_device(name, key="training.device")
    if environment.world_size == 1 or device.type == "cpu":
        return device
    if not has_streams(device):
        raise InputError("training.device: only one process can train on Apple's GPU; use training.device=cpu")
    if ":" in name:
        raise InputError(
            f"training.device = {name}: each of {environment.world_size} processes takes its own GPU; use"
            " training.device=cuda, and CUDA_VISIBLE_DEVICES to choose among them"
        )
    count = torch.get_device_module(device).device_count()
    if environment.local_rank >= count:
        raise InputError(
            f"training.device = {name}: there are {environment.local_world_size} processes on this machine, and it has"
            f" {count} GPU{'s' * (count > 1)}; start with --nproc-per-node {count}, or use training.device=cpu"
        )
    return torch.device(device.type, environment.local_rank)


def _describe_environment(settings: TrainingConfig, device: torch.device, *, num_processes: int) -> dict[str, str]:
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


class Claim(NamedTuple):
    """A run directory that no other process trains in."""

    run: RunDirectory
    is_resumed: bool
    initial: InitialWeights | None  # the weights of another run, to begin with; None: a checkpoint's, or random ones


def claim_run(
    config: Config, directory: Path, *, resume: bool, world: World, held: contextlib.ExitStack, log: RunLog
) -> tuple[Config, Claim]:
    """Lock the run directory, and find out whether its run is resumed and which weights a new one begins with.

    Args:
        held: Releases the lock when the training ends.
        log: Is written into a resumed run from here on.

    Returns:
        The config with the batch size of the run that is resumed, and the claim.

    Raises:
        InputError: The directory holds a run and `resume` is off, its run was begun with other settings or cannot be
            resumed, another process trains there, or `training.initialize_from` cannot be used.
        RunError: The directory cannot be written, or a file is damaged.
        SystemExit: On a rank > 0, when another rank raises one of these errors.
    """
    run = RunDirectory(directory)

    def claim() -> tuple[TrainingConfig, bool, bool]:
        settled, is_resumed = _lock(config, run, resume=resume, held=held)
        if is_resumed:
            log.open(run.log)
        has_checkpoint = is_resumed and any(file.is_file() for file in (run.checkpoint("last"), run.previous))
        return settled.training, is_resumed, has_checkpoint

    settings, is_resumed, has_checkpoint = world.run_on_rank_0(claim)
    config = config.model_copy(update={"training": settings})
    initial = None if has_checkpoint else world.run_on_all_ranks(lambda: read_initial_weights(config))
    return config, Claim(run, is_resumed, initial)


def _lock(config: Config, run: RunDirectory, *, resume: bool, held: contextlib.ExitStack) -> tuple[Config, bool]:
    if not _holds_run(run):
        check_holds_no_run(run.path)  # before the lock file is written there
    held.enter_context(lock_run(run.path))  # first reports that another process trains there
    is_resumed = _holds_run(run) and resume
    if not is_resumed:
        check_holds_no_run(run.path)
    if is_resumed and (source := read_description(run).imported):
        raise InputError(
            f"{run.path} was imported from {source}, so it has no training to continue; fine-tune it in a new run,"
            f" with a config that names your data: translate train CONFIG training.initialize_from={run.path}"
        )
    config = resolve_step_tokens(config)
    if is_resumed:
        config = resolve_from_run(config, run.path)
        _check_settings(config, run.path)
    elif resume:
        logger.info(f"{run.path} holds no run to continue: beginning one")
    return config, is_resumed


def _holds_run(run: RunDirectory) -> bool:
    """Whether there is a run to resume; a directory that a killed process left half made does not count.

    Raises:
        InputError: There are checkpoints, but not the rest of the run.
    """
    if any(run.checkpoints.glob("*.safetensors")):
        check_holds_run(run.path)
    return os.path.lexists(run.description)


def _check_settings(config: Config, directory: Path) -> None:
    """Check that a run is resumed with its own settings, except those that do not change the steps already made.

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
    step, d_model = min(settings.max_steps, before.training.max_steps), config.model.d_model
    if learning_rate(step, settings, d_model=d_model) != learning_rate(step, before.training, d_model=d_model):
        logger.info(f"training.max_steps is now {settings.max_steps}, and the {settings.schedule} schedule ends there")


def flatten(value: object, prefix: str = "") -> dict[str, object]:
    """A nested mapping with dotted keys."""
    if not isinstance(value, dict):
        return {prefix: value}
    flat: dict[str, object] = {}
    for name, item in value.items():
        flat |= flatten(item, f"{prefix}.{name}" if prefix else name)
    return flat
