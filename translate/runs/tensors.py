"""safetensors files with their own checksum in their metadata: written durably, checked whenever they are read."""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import torch
from torch import Tensor

from translate.atomic import atomic_write
from translate.errors import RunError
from translate.runs.header import METADATA, TORCH_DTYPES, Header, TensorEntry, opened, parse_header
from translate.runs.seal import UNSEALED, check_seal, find_seal

SEAL_KEY = "sha256"
_ALIGNMENT = 8  # bytes, of the header's end
_NAMES = {dtype: name for name, dtype in TORCH_DTYPES.items()}


class TensorFile(NamedTuple):
    """A safetensors file in memory."""

    tensors: dict[str, Tensor]
    metadata: dict[str, str]


def write_tensors(
    path: Path,
    tensors: Mapping[str, Tensor],
    metadata: Mapping[str, str],
    *,
    before_rename: Callable[[], None] = lambda: None,
) -> None:
    """Write a sealed safetensors file whole, or leave the old one as it was. The same content gives the same bytes.

    Args:
        before_rename: Called when the new file is written and has not got its name yet.

    Raises:
        RunError: The disk is full, the directory gone or read-only.
    """
    # The widest numbers first, so that each tensor is aligned; safetensors itself writes them so.
    names = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header = _header(names, tensors, metadata)
    seal = find_seal(header)
    assert seal is not None and seal.digest == UNSEALED
    digest = hashlib.sha256(header)
    try:
        with atomic_write(path) as file:
            file.write(header)
            for name in names:
                content = tensors[name].detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
                digest.update(content)
                file.write(content)
            file.seek(seal.start)
            file.write(digest.hexdigest().encode())
            before_rename()
    except RunError as error:
        raise RunError(f"{error}; earlier checkpoints are intact") from error


def _header(names: list[str], tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    values: dict[str, object] = {METADATA: {**dict(sorted(metadata.items())), SEAL_KEY: UNSEALED}}
    position = 0
    for name in names:
        tensor = tensors[name]
        dtype = _NAMES[tensor.dtype]
        end = position + tensor.numel() * tensor.element_size()
        values[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [position, end]}
        position = end
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def read_tensors(path: Path) -> TensorFile:
    """A safetensors file, whole, if its content is what was written.

    The file is opened once, so that what was checked is what is read, also while a training replaces it. The tensors
    lie in a private memory map of it.

    Raises:
        RunError: The file is damaged or cannot be read.
    """
    with opened(path) as file:
        header = _check(path, file)
        num_bytes = sum(entry.end - entry.begin for entry in header.entries.values())
        content = torch.empty(0, dtype=torch.uint8)
        if num_bytes:
            mapped = np.memmap(file, dtype=np.uint8, mode="c", offset=len(header.content), shape=(num_bytes,))
            content = torch.from_numpy(mapped)
    metadata = {key: text for key, text in header.metadata.items() if key != SEAL_KEY}
    return TensorFile({name: _tensor(content, entry) for name, entry in header.entries.items()}, metadata)


def check_tensors(path: Path) -> Header:
    """The header of a safetensors file whose content is what was written; the tensors are not loaded.

    Raises:
        RunError: The file is damaged or cannot be read.
    """
    with opened(path) as file:
        return _check(path, file)


def _check(path: Path, file: BinaryIO) -> Header:
    header = parse_header(path, file)
    check_seal(path, header.content, file)
    return header


def _tensor(content: Tensor, entry: TensorEntry) -> Tensor:
    dtype, part = TORCH_DTYPES[entry.dtype], content[entry.begin : entry.end]
    if part.data_ptr() % _ALIGNMENT or entry.begin % _ALIGNMENT:
        part = part.clone()  # torch takes some bytes for structures, such as its random generators' state
    return part.view(dtype).view(entry.shape) if part.numel() else torch.empty(entry.shape, dtype=dtype)
