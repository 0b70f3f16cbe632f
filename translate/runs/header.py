"""What a safetensors file says of its tensors: read and judged before memory is given to any of them."""

import contextlib
import json
import math
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import torch

from translate.runs.seal import damage

MOST_HEADER_BYTES = 32 * 2**20  # of the deepest models, a fraction
METADATA = "__metadata__"
TORCH_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
_MOST_DIMENSIONS = 16
_LONGEST_NAME = 300


class TensorEntry(NamedTuple):
    """A tensor in the file."""

    dtype: str  # as safetensors writes it: F32, BF16, …
    shape: tuple[int, ...]
    begin: int  # bytes after the header
    end: int


class Header(NamedTuple):
    """The beginning of a safetensors file."""

    entries: dict[str, TensorEntry]
    metadata: dict[str, str]
    content: bytes  # of the file up to the first tensor


def read_header(path: Path) -> Header:
    """The header of a file, if all that it says can be.

    Raises:
        RunError: No regular file, cut short, too long, or a header that contradicts itself or the file.
    """
    with opened(path) as file:
        return parse_header(path, file)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A file to read from. However often it is replaced meanwhile, what was opened stays as it is.

    Raises:
        RunError: No regular file, or it cannot be read.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise damage(path, "it is no regular file")
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise damage(path, f"it cannot be read: {error.strerror or error}") from error


def parse_header(path: Path, file: BinaryIO) -> Header:
    """The header of an open file, from its beginning; afterwards the first tensor's bytes are next.

    Args:
        path: What errors call the file.

    Raises:
        RunError: Cut short, too long, or a header that contradicts itself or the file.
    """
    num_bytes = os.fstat(file.fileno()).st_size
    length_bytes = file.read(8)
    length = int.from_bytes(length_bytes, "little")
    if len(length_bytes) < 8 or 8 + length > num_bytes:
        raise damage(path, f"its header should have {length} bytes, but the file has {num_bytes}")
    if length > MOST_HEADER_BYTES:
        raise damage(path, f"its header has {length} bytes, more than {MOST_HEADER_BYTES}")
    text = file.read(length)
    try:
        values = json.loads(text.decode(), object_pairs_hook=_without_repetition)
        if not isinstance(values, dict):
            raise ValueError("it is no mapping")
        metadata = _metadata(values.pop(METADATA, {}))
        entries = {name: _entry(name, value) for name, value in values.items()}
        _check_offsets(entries, num_data_bytes=num_bytes - 8 - length)
    except (ValueError, RecursionError) as error:
        raise damage(path, f"its header: {error}") from error
    return Header(entries, metadata, length_bytes + text)


def _without_repetition(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise ValueError(f"{name!r} is there twice")
        values[name] = value
    return values


def _metadata(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise ValueError(f"{METADATA} is no mapping of texts")
    return value


def _entry(name: str, value: Any) -> TensorEntry:
    if not name.isprintable() or len(name) > _LONGEST_NAME:
        raise ValueError(f"{name[:80]!r} is no name of a tensor")
    if not isinstance(value, dict) or value.keys() != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{name!r} does not say its dtype, shape and data_offsets")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in TORCH_DTYPES:
        raise ValueError(f"{name!r} has the dtype {dtype!r}, not one of {', '.join(TORCH_DTYPES)}")
    if not _are_sizes(shape) or len(shape) > _MOST_DIMENSIONS:
        raise ValueError(f"{name!r} has the shape {str(shape)[:80]}")
    if not _are_sizes(offsets) or len(offsets) != 2:
        raise ValueError(f"{name!r} has the data_offsets {str(offsets)[:80]}")
    num_bytes = math.prod(shape) * TORCH_DTYPES[dtype].itemsize
    if offsets[1] - offsets[0] != num_bytes:
        raise ValueError(f"{name!r} of shape {shape} needs {num_bytes} bytes, but has the data_offsets {offsets}")
    return TensorEntry(dtype, tuple(shape), *offsets)


def _are_sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(size) is int and size >= 0 for size in value)


def _check_offsets(entries: dict[str, TensorEntry], *, num_data_bytes: int) -> None:
    """The tensors lie one behind the other, from the header to the end of the file."""
    position = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin != position:
            raise ValueError(f"{name!r} begins at byte {entry.begin}, but what is before it ends at {position}")
        position = entry.end
    if position != num_data_bytes:
        raise ValueError(f"the tensors need {position} bytes, but the file has {num_data_bytes} for them")
