"""Whether a run can be continued with the settings, data and environment that are there now."""

import logging
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import torch

import translate
from translate.config import Config, TrainingConfig, read_resolved_config
from translate.errors import InputError
from translate.model.device import choose_precision
from translate.runs import RunDirectory, open_run

logger = logging.getLogger(__name__)

# A continued run may end at another step, and log and save at others; anything else would make it another training.
_MAY_CHANGE = {
    f"training.{name}"
    for name in (
        *("max_steps", "max_epochs", "validate_every", "save_every", "log_every", "patience"),
        *("threads", "device", "parallel", "sample_translations", "tensorboard"),
    )
} | {"tokenizer.max_training_lines"}  # The tokenizer is trained already.
# The content of the training corpora is compared by fingerprint; where they lie may change.
_LOCATIONS = (
    *("data.train", "data.validation", "data.test", "data.root"),
    *("tokenizer.source_model", "tokenizer.target_model"),
)


def holds_run(directory: Path) -> bool:
    """Whether there is a run to continue. What a process that was killed while it made a run left behind is none.

    Raises:
        InputError: There are checkpoints, but not the rest of the run.
    """
    run = RunDirectory(directory)
    if run.description.exists():
        return True
    left = sorted(run.checkpoints.glob("*.safetensors"))
    if left:
        raise InputError(
            f"{directory} is an incomplete run: it has {left[0].relative_to(directory)} but no {run.description.name}."
            " Copy the whole run, or choose another directory with --run"
        )
    return False


def check_settings(config: Config, directory: Path) -> None:
    """Check that a run is continued with its own settings, except for those that do not change the steps already done.

    Raises:
        InputError: Other settings differ; the message names them.
    """
    before, settings = read_resolved_config(open_run(directory).config), config.training
    saved, given = (
        _flatten(each.model_dump(mode="json", include={"tokenizer", "model", "training", "data"}))
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
        logger.info(
            "training.max_steps is now %d, and the %s schedule ends there", settings.max_steps, settings.schedule
        )


def settings_of_all_processes(config: Config, device: torch.device) -> dict[str, str]:
    """What must be the same in all processes of a training, by name; where a machine keeps its files may differ."""
    flat = _flatten(config.model_dump(mode="json"))
    settings = {key: str(value) for key, value in flat.items() if not key.startswith((*_LOCATIONS, "training.threads"))}
    settings |= describe_environment(config.training, device) | {"device": device.type}
    settings.pop("CPU threads", None)
    return settings


def describe_environment(settings: TrainingConfig, device: torch.device, *, num_processes: int = 1) -> dict[str, str]:
    """What the last digits of a training depend on besides its settings: versions, precision and hardware, by name."""
    environment = {"translate": translate.__version__}
    # numpy shuffles and samples, sentencepiece segments, torch computes.
    environment |= {package: metadata.version(package) for package in ("torch", "numpy", "sentencepiece")}
    environment["precision"] = choose_precision(settings.precision, device)
    environment["processes"] = f"{num_processes} ({settings.parallel})" if num_processes > 1 else "1"
    match device.type:
        case "cpu":
            environment["device"] = f"cpu ({torch.backends.cpu.get_cpu_capability()})"
            environment["CPU threads"] = str(torch.get_num_threads())
        case "cuda":
            environment["device"] = f"cuda ({torch.cuda.get_device_name(device)})"
        case other:
            environment["device"] = other
    return environment


def describe_changes(before: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """One sentence on what differs between two environments, and what that means; None if nothing differs.

    Args:
        before: Environment in which the checkpoint was saved; empty for a checkpoint of version 0.1.0.
    """
    changes = [
        f"{name} {now.get(name, 'unknown')} (it was {value})"
        for name, value in before.items()
        if now.get(name) != value
    ]
    if not changes:
        return None
    return (
        f"continued in another environment: {', '.join(changes)}. The training is as good, but its numbers are not bit"
        " for bit those of a run that was never stopped"
    )


def _flatten(value: object, prefix: str = "") -> dict[str, object]:
    """A nested mapping with dotted keys."""
    if not isinstance(value, dict):
        return {prefix: value}
    return {
        key: leaf
        for name, item in value.items()
        for key, leaf in _flatten(item, f"{prefix}.{name}" if prefix else name).items()
    }
