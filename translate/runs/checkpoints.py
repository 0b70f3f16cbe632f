"""Checkpoints of a training: written so that there is always a sound one; a damaged one is passed over.

The last one stays as the previous one until the next is on the disk. Who writes here has the run's lock.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from translate.atomic import remove_leftovers
from translate.errors import RunError
from translate.runs.directory import Checkpoint, RunDirectory
from translate.runs.seal import DamageError
from translate.runs.tensors import check_tensors, read_tensors, write_tensors

OPTIMIZER_PREFIX = "optimizer."


class SoundCheckpoint(NamedTuple):
    """A checkpoint to go on from."""

    path: Path
    tensors: dict[str, Tensor]
    metadata: dict[str, str]
    damaged: tuple[str, ...]  # a sentence for each newer file that was passed over


def write_checkpoint(
    run: RunDirectory, which: Checkpoint, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]
) -> None:
    """Write a checkpoint; the last one before it is kept as the previous one.

    Args:
        metadata: With the step.

    Raises:
        RunError: It cannot be written; the checkpoints that were there are intact.
    """
    write_tensors(
        run.checkpoint(which),
        tensors,
        metadata,
        before_rename=(lambda: _keep_as_previous(run, step=metadata.get("step"))) if which == "last" else lambda: None,
    )


def _keep_as_previous(run: RunDirectory, *, step: str | None) -> None:
    """Make the last checkpoint the previous one too, unless it is of the step that is now saved again."""
    last, previous = run.checkpoint("last"), run.previous
    if not last.exists():
        return
    try:
        if check_tensors(last).metadata.get("step") == step:  # a validation has been added to the same state
            return
    except RunError:
        return
    remove_leftovers(previous)
    link = previous.with_name(f"{previous.name}.{os.getpid()}.tmp")
    try:
        os.link(last, link)
    except OSError:  # a file system without links: for a moment the previous one is all there is
        os.replace(last, previous)
    else:
        os.replace(link, previous)


def read_newest_sound(run: RunDirectory) -> SoundCheckpoint | None:
    """The newest checkpoint to go on from that is not damaged; None if there is none yet.

    Raises:
        RunError: All are damaged; each is named with its reason.
    """
    damaged: list[str] = []
    for path in (run.checkpoint("last"), run.previous):
        if not path.exists():
            continue
        try:
            tensors, metadata = read_tensors(path)
            read_step(path, metadata)
        except DamageError as error:
            damaged.append(error.fact)
        except RunError as error:
            damaged.append(str(error))
        else:
            return SoundCheckpoint(path, tensors, metadata, tuple(damaged))
    if damaged:
        raise RunError(
            f"{run.path} has no sound checkpoint to go on from: {'; '.join(damaged)}. Copy the run anew from where it"
            " came, or train it again"
        )
    return None


def read_step(path: Path, metadata: Mapping[str, str]) -> int:
    """The step at which a checkpoint was saved.

    Raises:
        RunError: It does not say it.
    """
    step = metadata.get("step", "")
    if not (step.isascii() and step.isdecimal() and len(step) <= 18):
        raise RunError(f"{path}: does not say its step; it is no checkpoint of this toolkit")
    return int(step)
