"""Checkpoints: safetensors files that carry a digest of everything in them, written so that one is always intact.

The digest covers the tensors' names, types, shapes and bytes and the other metadata. It is part of the file's metadata,
so file and digest cannot be separated. All metadata is one JSON text: safetensors writes several entries in random
order, so two runs of the same training could not be compared by their files.

The last checkpoint stays as the previous one until the next is on the disk. A process that writes checkpoints holds the
run's lock.
"""

import contextlib
import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from translate.atomic import atomic_path, explain_write_errors, temporary_beside
from translate.config.schema import TrainingConfig
from translate.errors import RunError
from translate.files import FileError, MissingFileError, require_file
from translate.model.device import check_loading
from translate.runs.checksums import DamageError, compare
from translate.runs.directory import Checkpoint, RunDirectory
from translate.runs.metadata import METADATA_KEY, read_step, split_metadata
from translate.runs.metrics import read_metrics
from translate.runs.progress import Progress

WEIGHTS_PREFIX = "model."
AVERAGE_PREFIX = "average."
OPTIMIZER_PREFIX = "optimizer."
_SYSTEM_ERROR = "(os error "  # in the text of safetensors' errors


class TensorFile(NamedTuple):
    """A safetensors file in memory."""

    tensors: dict[str, Tensor]
    metadata: dict[str, str]
    sha256: str  # of all of its content


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str], *, keep_old_as: Path | None = None
) -> None:
    """Write a safetensors file with its digest, atomically. The same content gives the same bytes.

    Args:
        keep_old_as: New path of the replaced file, which it gets just before the new file gets its name.

    Raises:
        RunError: The disk is full, the directory is missing, or it is read-only.
    """
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    digest = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
    for name in sorted(tensors):
        _update_digest(digest, name, tensors[name])
    text = json.dumps({**metadata, "sha256": digest.hexdigest()}, sort_keys=True, ensure_ascii=False)
    try:
        with atomic_path(path) as temporary:
            temporary.touch(exist_ok=False)
            mode = temporary.stat().st_mode
            save_file(tensors, temporary, {METADATA_KEY: text})
            temporary.chmod(mode)  # safetensors has replaced the file by one of its own, which only its owner may read
            if keep_old_as is not None:
                _link(path, keep_old_as)
    except (RunError, SafetensorError) as error:
        cause = error if isinstance(error, RunError) else f"{path}: cannot be written: {error}"
        raise RunError(f"{cause}; earlier checkpoints are intact") from error


def read_tensors(path: Path, *, prefixes: Sequence[str] = ("",)) -> TensorFile:
    """Read a safetensors file and check its digest.

    The file is opened once and read through that handle, so a training run may replace it at the same time.

    Args:
        prefixes: Only tensors whose names begin with one of these are kept, without it; if two then have the same name,
            the earlier prefix wins. The others only count towards the digest.

    Raises:
        DamageError: The file is damaged or missing.
        RunError: The file cannot be read for another reason, which may pass, such as an error of a network disk.
    """
    kept: dict[str, Tensor] = {}
    try:
        with _open(path) as file:
            names = sorted(file.keys())
            metadata, expected = split_metadata(path, file.metadata())
            digest = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
            chosen = {
                name.removeprefix(prefix): name
                for prefix in reversed(prefixes)
                for name in names
                if name.startswith(prefix)
            }
            short_names = {name: short for short, name in chosen.items()}
            parts = [file.get_slice(name) for name in chosen.values()]
            check_loading(
                path, sum((2 if "16" in part.get_dtype() else 4) * math.prod(part.get_shape()) for part in parts)
            )
            for name in names:
                tensor = file.get_tensor(name)
                _update_digest(digest, name, tensor)
                if name in short_names:
                    kept[short_names[name]] = tensor
    except MissingFileError as error:
        raise DamageError(path, error.reason) from error
    except (OSError, FileError, SafetensorError) as error:
        if isinstance(error, SafetensorError) and _SYSTEM_ERROR not in str(error):
            raise DamageError(path, f"it cannot be read: {error}") from error
        raise RunError(f"{path}: {getattr(error, 'reason', f'cannot be read: {error}')}") from error
    compare(path, expected, digest.hexdigest())
    return TensorFile(kept, metadata, expected)


def write_checkpoint(
    run: RunDirectory, which: Checkpoint, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]
) -> None:
    """Write a checkpoint, whose metadata include the step. The last one becomes the previous one if its step differs.

    Raises:
        RunError: The checkpoint cannot be written; earlier ones are intact.
    """
    path = run.checkpoint(which)
    is_newer = False
    with contextlib.suppress(OSError, FileError, SafetensorError, RunError), _open(path) as file:
        old_metadata, _ = split_metadata(path, file.metadata())
        is_newer = which == "last" and old_metadata.get("step", metadata["step"]) != metadata["step"]
    write_tensors(path, tensors, metadata, keep_old_as=run.previous if is_newer else None)


class Resumable(NamedTuple):
    """A checkpoint to continue from."""

    path: Path
    tensors: dict[str, Tensor]
    progress: Progress
    damaged: list[str]  # why each newer checkpoint cannot be used


def read_newest_intact(run: RunDirectory) -> Resumable | None:
    """The newest intact checkpoint, to continue from; None: there is no checkpoint yet.

    If the last checkpoint is damaged, it gets another name; otherwise the next save would replace the intact one by it.

    Raises:
        RunError: All are damaged; the message gives the reason for each. Or the newest one is not known to be damaged,
            but cannot be read, or its progress cannot.
    """
    damaged: list[str] = []
    last = run.checkpoint("last")
    for path in (last, run.previous):
        if not path.exists():
            continue
        try:
            file = read_tensors(path)
            progress = read_progress(path, file.metadata)
        except DamageError as error:
            damaged.append(error.fact)
            continue
        if damaged:
            aside = last.with_name(f"{last.name}.damaged")
            with explain_write_errors(aside):
                os.replace(last, aside)
            damaged[0] += f"; it is kept as {aside.name}"
        return Resumable(path, file.tensors, progress, damaged)
    if damaged:
        hint = "Copy the run again from its source, or train it again"
        raise RunError(f"{run.path} has no intact checkpoint to continue from: {'; '.join(damaged)}. {hint}")
    return None


def find_trace_of_steps(run: RunDirectory, settings: TrainingConfig) -> str:
    """Evidence that a run has made steps, even if it has no checkpoint to continue from; empty: there is none.

    A training run saves such a checkpoint before it writes any of this.

    Args:
        settings: The run's own.
    """
    best, kept = run.checkpoint("best"), [step for step in run.kept_steps() if step > 0]
    if best.exists():
        with contextlib.suppress(RunError):
            if read_step(best, read_tensors(best, prefixes=()).metadata) == 0:  # imported, or initial weights
                return ""
        return best.name
    if kept:
        return f"step-{kept[-1]}.safetensors"
    first_save = {"train": min(settings.save_every, settings.validate_every)}
    steps = [record["step"] for record in read_metrics(run) if record["step"] > first_save.get(record["kind"], 0)]
    return f"step {steps[-1]:.0f} of {run.metrics.name}" if steps else ""


def read_progress(path: Path, metadata: Mapping[str, str]) -> Progress:
    """The progress when a checkpoint was saved; a RunError if it is missing from the metadata or has wrong types."""
    step = read_step(path, metadata)
    try:
        progress = Progress.from_json(metadata.get("progress", ""))
        if progress.step != step:
            raise RunError(f"step = {progress.step}, but the checkpoint is of step {step}")
    except RunError as error:
        hint = "a newer version may have saved it: update this one, or move the file away"
        raise RunError(f"{path}: its progress is missing or unreadable: {error}; {hint}") from error
    return progress


def strip_prefix(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors under a prefix, by their names without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def add_prefix(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors with a prefix before their names."""
    return {prefix + name: tensor for name, tensor in tensors.items()}


def _open(path: Path) -> Any:
    """Open a safetensors file, which must be one: safetensors itself would wait for a pipe, even against signals."""
    require_file(path)
    return safe_open(path, framework="pt", backend="pread")


def _update_digest(digest: "hashlib._Hash", name: str, tensor: Tensor) -> None:
    digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
    digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)


def _link(source: Path, target: Path) -> None:
    """Give a file a second name, replacing any other file of that name."""
    with temporary_beside(target) as temporary:
        try:
            os.link(source, temporary)
        except OSError:  # A file system without links; for a moment the file has only its new name.
            os.replace(source, target)
        else:
            os.replace(temporary, target)  # does nothing if both are names of the same file
