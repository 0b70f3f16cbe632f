"""Tensor headers that cannot be are refused before memory is given to any tensor."""

import json
from pathlib import Path

import pytest
import torch

from translate.errors import RunError
from translate.runs import read_tensors, write_tensors
from translate.runs.header import MOST_HEADER_BYTES, read_header

HUGE = 2**62


def entry(shape: object, offsets: object, dtype: object = "F32") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def write(path: Path, header: object, *, num_data_bytes: int = 0) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(num_data_bytes))
    return path


def test_what_the_library_accepts_is_read(tmp_path: Path) -> None:
    header = {"a": entry([2, 3], [8, 32]), "b": entry([], [0, 8], "I64"), "none": entry([0, 5], [32, 32], "BOOL")}
    path = write(tmp_path / "a.safetensors", {**header, "__metadata__": {"step": "1"}}, num_data_bytes=32)
    found = read_header(path)
    assert found.metadata == {"step": "1"}
    assert {name: (each.dtype, each.shape, each.begin, each.end) for name, each in found.entries.items()} == {
        "a": ("F32", (2, 3), 8, 32),
        "b": ("I64", (), 0, 8),
        "none": ("BOOL", (0, 5), 32, 32),
    }
    tensors = read_tensors(path).tensors
    assert torch.equal(tensors["a"], torch.zeros(2, 3)) and tensors["b"].shape == ()


@pytest.mark.parametrize(
    "header, num_data_bytes, reason",
    [
        (b"", 0, "Expecting value"),
        (b"[]", 0, "it is no mapping"),
        (b'{"a', 0, "Unterminated string"),
        (b"\xff{}", 0, "can't decode byte 0xff"),
        (b"[" * 100_000, 0, "recursion"),
        (b'{"a": {"dtype": "F32", "shape": [' + b"9" * 5000 + b'], "data_offsets": [0, 4]}}', 4, "digits"),
        (b'{"a": {}, "a": {}}', 0, "'a' is there twice"),
        (b'{"a": {"shape": [], "shape": []}}', 0, "'shape' is there twice"),
        ({"a": 5}, 0, "'a' does not say its dtype, shape and data_offsets"),
        ({"a": {"dtype": "F32", "shape": [1]}}, 4, "'a' does not say its dtype, shape and data_offsets"),
        ({"a": {**entry([1], [0, 4]), "code": "x"}}, 4, "'a' does not say its dtype, shape and data_offsets"),
        ({"a": entry([1], [0, 4], "F31")}, 4, "'a' has the dtype 'F31', not one of F64, F32, "),
        ({"a": entry([1], [0, 4], ["F32"])}, 4, r"'a' has the dtype \['F32'\], not one of F64, F32, "),
        ({"a": entry([HUGE], [0, 4])}, 4, f"'a' of shape .{HUGE}. needs {4 * HUGE} bytes, but has .* .0, 4."),
        ({"a": entry([HUGE, HUGE], [0, 2**126])}, 4, rf"the tensors need {2**126} bytes, but the file has 4 for them"),
        ({"a": entry([HUGE], [0, 4 * HUGE])}, 4, rf"the tensors need {4 * HUGE} bytes, but the file has 4 for them"),
        ({"a": entry([-1], [0, 4])}, 4, r"'a' has the shape \[-1\]"),
        ({"a": entry([1.0], [0, 4])}, 4, r"'a' has the shape \[1.0\]"),
        ({"a": entry([True], [0, 4])}, 4, r"'a' has the shape \[True\]"),
        ({"a": entry("1", [0, 4])}, 4, "'a' has the shape 1"),
        ({"a": entry([1] * 17, [0, 4])}, 4, "'a' has the shape"),
        ({"a": entry([1], [4, 0])}, 4, r"'a' of shape \[1\] needs 4 bytes, but has the data_offsets \[4, 0\]"),
        ({"a": entry([1], [-4, 0])}, 4, r"'a' has the data_offsets \[-4, 0\]"),
        ({"a": entry([1], [0, 4, 8])}, 4, r"'a' has the data_offsets \[0, 4, 8\]"),
        ({"a": entry([1], [4, 8])}, 4, "'a' begins at byte 4, but what is before it ends at 0"),
        ({"a": entry([1], [0, 4]), "b": entry([1], [2, 6])}, 6, "'b' begins at byte 2, .* ends at 4"),
        ({"a": entry([1], [0, 4]), "b": entry([1], [0, 4])}, 4, "'b' begins at byte 0, .* ends at 4"),
        ({"a": entry([1], [0, 4]), "b": entry([1], [8, 12])}, 12, "'b' begins at byte 8, .* ends at 4"),
        ({"a": entry([1], [0, 4])}, 5, "the tensors need 4 bytes, but the file has 5 for them"),
        ({"a": entry([1], [0, 4])}, 3, "the tensors need 4 bytes, but the file has 3 for them"),
        ({"\x1b[31m": entry([1], [0, 4])}, 4, r"'\\x1b\[31m' is no name of a tensor"),
        ({"a" * 301: entry([1], [0, 4])}, 4, "is no name of a tensor"),
        ({"__metadata__": {"step": 5}}, 0, "__metadata__ is no mapping of texts"),
        ({"__metadata__": ["step"]}, 0, "__metadata__ is no mapping of texts"),
    ],
)
def test_a_header_that_cannot_be(tmp_path: Path, header: object, num_data_bytes: int, reason: str) -> None:
    path = write(tmp_path / "a.safetensors", header, num_data_bytes=num_data_bytes)
    with pytest.raises(RunError, match=rf"^{path}: damaged: its header: .*{reason}.*; copy the file anew from where"):
        read_tensors(path)


@pytest.mark.parametrize("length", [100, 2**40, 2**64 - 1])
def test_a_header_longer_than_the_file(tmp_path: Path, length: int) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(length.to_bytes(8, "little") + b"{}")
    with pytest.raises(
        RunError, match=rf"^{path}: damaged: its header should have {length} bytes, but the file has 10"
    ):
        read_tensors(path)


def test_a_header_longer_than_any_is(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    with path.open("wb") as file:
        file.write((MOST_HEADER_BYTES + 1).to_bytes(8, "little"))
        file.truncate(MOST_HEADER_BYTES + 100)  # a hole, which needs no room
    with pytest.raises(RunError, match=rf"^{path}: damaged: its header has 33554433 bytes, more than 33554432"):
        read_tensors(path)


@pytest.mark.parametrize("kept", [0, 5, 8, 100, -1])
def test_a_cut_file(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "a.safetensors"
    write_tensors(path, {"a": torch.arange(50)}, {})
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(RunError, match=rf"^{path}: damaged: its header"):
        read_tensors(path)


def test_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=rf"^{tmp_path}: damaged: it is no regular file"):
        read_tensors(tmp_path)
    with pytest.raises(RunError, match=rf"^{tmp_path}/gone: damaged: it cannot be read: No such file or directory"):
        read_tensors(tmp_path / "gone")
