"""The metadata of checkpoints, read without importing torch: their digest, and the step that they were saved at."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from safetensors import safe_open

from translate.errors import RunError
from translate.files import require_file
from translate.runs.checksums import DamageError

METADATA_KEY = "translate"
AVERAGED_KEY = "averaged"  # of an average of checkpoints: their steps


def split_metadata(path: Path, stored: dict[str, str] | None) -> tuple[dict[str, str], str]:
    """A file's metadata and digest; a DamageError if they cannot be read."""
    try:
        metadata = json.loads((stored or {})[METADATA_KEY])
        if wrong := [key for key, text in metadata.items() if not isinstance(text, str)]:
            raise TypeError(f"{ascii(wrong[0])} is not text")
        return metadata, metadata.pop("sha256")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamageError(path, f"its metadata cannot be read: {error}") from error


def read_metadata(path: Path) -> dict[str, str]:
    """A checkpoint's metadata. Only the header is read, so the digest is not checked.

    Raises:
        FileError, OSError, SafetensorError, RunError: It cannot be read, or is damaged.
    """
    require_file(path)
    with safe_open(path, framework="np") as file:
        return split_metadata(path, file.metadata())[0]


def read_step(path: Path, metadata: Mapping[str, str]) -> int:
    """The step at which a checkpoint was saved; a RunError if it is missing from the metadata."""
    step = metadata.get("step", "")
    if not re.fullmatch("[0-9]{1,16}", step):
        raise RunError(f"{path}: does not name its step, so it is not a checkpoint of this toolkit")
    return int(step)


def read_moment(path: Path, metadata: Mapping[str, str]) -> tuple[int, tuple[int, ...]]:
    """The step of a checkpoint, and for an average of checkpoints the steps of all of them; see `read_step`."""
    return read_step(path, metadata), tuple(map(int, re.findall("[0-9]{1,16}", metadata.get(AVERAGED_KEY, ""))))


def describe_moment(step: int, averaged: Sequence[int]) -> str:
    """When weights were saved: their step, or the steps of the checkpoints that were averaged."""
    return f"the average of steps {', '.join(f'{one:,}' for one in averaged)}" if averaged else f"step {step:,}"
