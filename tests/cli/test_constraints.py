"""`translate decode` with files of constraints: seen in the output, and an error for a wrong file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import run_command as translate
from harness import succeed

pytestmark = pytest.mark.usefixtures("no_shape_checks")

Write = Callable[[str], Path]
Decode = Callable[..., list[str]]

SOURCES = ["schläft Hund", "", "grün Haus läuft", "Hund"]
TEXT = "".join(f"{line}\n" for line in SOURCES).encode()


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def file(text: str, name: str = "constraints.txt") -> Path:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / name

    return file


@pytest.fixture
def decode(learnt: Path) -> Decode:
    """Translations of the four lines."""

    def run(*options: Any) -> list[str]:
        result = succeed("decode", learnt, *options, stdin=TEXT)
        lines = result.stdout_bytes.decode().split("\n")
        assert lines.pop() == "" and len(lines) == len(SOURCES)
        return lines

    return run


def test_prefixes(decode: Decode, write: Write) -> None:
    """Line by line; an empty one asks for nothing, and an empty source has an empty translation all the same."""
    found, without = decode("--prefix", write("house\ndog\n\nruns and\n")), decode()
    assert found[0].startswith("house") and not without[0].startswith("house")
    assert (found[1], found[2]) == ("", without[2])
    assert found[3].startswith("runs and") and not without[3].startswith("runs and")


def test_a_prefix_holds_in_samples(learnt: Path, write: Write) -> None:
    prefixes = ["--n-best=3", "--format=jsonl", "--prefix", write("house\n" * len(SOURCES))]
    for record in map(
        json.loads, translate("decode", learnt, "--search=sample", *prefixes, stdin=TEXT).stdout.splitlines()
    ):
        texts = [each["translation"] for each in (record, *record["n_best"])]
        assert texts == [""] if not record["source"] else all(text.startswith("house") for text in texts)


def test_required_phrases(decode: Decode, write: Write) -> None:
    """Tabs are between them."""
    found, without = decode("--require", write("green\tand runs\n\n\nand\t\tdog\n")), decode()
    assert "green" in found[0].split() and "and runs" in found[0] and "green" not in without[0]
    assert (found[1], found[2]) == ("", without[2])
    assert {"and", "dog"} <= set(found[3].split()) and "and" not in without[3].split()


@pytest.mark.parametrize("search", ["beam", "sample"])
def test_forbidden_words(decode: Decode, write: Write, search: str) -> None:
    """Empty lines of the file forbid nothing."""
    assert sum("dog" in text.split() for text in decode()) > 0
    found = decode("--search", search, "--forbid", write("dog\n\nhouse\n"))
    assert not any({"dog", "house"} & set(text.split()) for text in found)
    assert found[0] != "" != found[3]


@pytest.mark.parametrize("option", ["--terminology", "--forbid"])
def test_an_empty_file(decode: Decode, write: Write, option: str) -> None:
    assert decode(option, write("")) == decode()
