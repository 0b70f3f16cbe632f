"""Whether a run can go on with the settings that are given now."""

from collections.abc import Callable
from pathlib import Path

import torch

from translate.config import Config, read_resolved_config
from translate.errors import InputError
from translate.runs import RunDirectory, open_run
from translate.training.circumstances import circumstances

# A continued run may end later, or say more or less of itself; anything else would make it another training.
_MAY_CHANGE = {
    f"training.{name}"
    for name in (
        *("max_steps", "max_epochs", "validate_every", "save_every", "log_every", "patience"),
        *("threads", "device", "parallel", "sample_translations", "tensorboard"),
    )
} | {"tokenizer.max_training_lines"}  # the tokenizer is there
# What the training corpora hold is compared by checksum; where they lie may change.
_PLACES = (
    *("data.train", "data.validation", "data.test", "data.root"),
    *("tokenizer.source_model", "tokenizer.target_model"),
)


def is_begun(directory: Path) -> bool:
    """Whether there is a run to go on with. What a process left behind that was killed while it made one is none.

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


def check_settings(config: Config, directory: Path, say: Callable[[str], None]) -> None:
    """A run is continued with the settings it was begun with, but for those that change nothing of the steps done."""
    before, settings = read_resolved_config(open_run(directory).config), config.training
    saved, given = (
        _flatten(each.model_dump(mode="json", include={"tokenizer", "model", "training", "data"}))
        for each in (before, config)
    )
    different = [
        f"{key} = {given.get(key)} (the run has {saved.get(key)})"
        for key in sorted(saved.keys() | given.keys())
        if saved.get(key) != given.get(key) and key not in _MAY_CHANGE and not key.startswith(_PLACES)
    ]
    if different:
        raise InputError(f"{directory} was begun with other settings, so it cannot go on with: {'; '.join(different)}")
    if settings.schedule in {"linear", "cosine"} and settings.max_steps != before.training.max_steps:
        say(f"training.max_steps is now {settings.max_steps}, and the {settings.schedule} schedule ends there")


def comparable(config: Config, device: torch.device) -> dict[str, str]:
    """What must be the same in all processes of a training, by its name; where a machine keeps its files need not."""
    flat = _flatten(config.model_dump(mode="json"))
    facts = {key: str(value) for key, value in flat.items() if not key.startswith((*_PLACES, "training.threads"))}
    facts |= circumstances(config.training, device) | {"device": device.type}
    facts.pop("CPU threads", None)
    return facts


def _flatten(value: object, prefix: str = "") -> dict[str, object]:
    if not isinstance(value, dict):
        return {prefix: value}
    return {
        key: leaf
        for name, item in value.items()
        for key, leaf in _flatten(item, f"{prefix}.{name}" if prefix else name).items()
    }
