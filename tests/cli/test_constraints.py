"""`translate decode` with files of constraints: seen in the output of every search that takes them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from harness import succeed

pytestmark = pytest.mark.usefixtures("no_shape_checks")

Decode = Callable[..., list[str]]

SOURCES = ["schläft Hund", "", "grün Haus läuft", "Hund"]
TEXT = "".join(f"{line}\n" for line in SOURCES).encode()


@pytest.fixture
def decode(learnt: Path, tmp_path: Path) -> Decode:
    """Lines of output for the four lines, with a file of constraints for an option."""

    def run(option: str = "", content: str = "", *more: str) -> list[str]:
        (tmp_path / "file").write_text(content, encoding="utf-8")
        constraint = [option, tmp_path / "file"] if option else []
        lines = succeed("decode", learnt, *constraint, *more, stdin=TEXT).stdout_bytes.decode().split("\n")
        assert lines.pop() == "" and len(lines) == len(SOURCES)
        return lines

    return run


def test_by_line(decode: Decode) -> None:
    """An empty line asks for nothing, and an empty source has an empty translation all the same."""
    without = decode()
    found = decode("--prefix", "house\ndog\n\nruns and\n")
    assert found[0].startswith("house") and found[3].startswith("runs and") and found[1:3] == ["", without[2]]
    found = decode("--require", "green\tand runs\n\n\nand\t\tdog\n")
    assert "green" in found[0].split() and "and runs" in found[0] and found[1:3] == ["", without[2]]
    assert {"and", "dog"} <= set(found[3].split())
    assert not without[0].startswith("house") and "green" not in without[0] and "and" not in without[3].split()


@pytest.mark.parametrize("search", ["beam", "sample"])
def test_forbidden_words(decode: Decode, search: str) -> None:
    """Empty lines of the file forbid nothing."""
    assert sum("dog" in text.split() for text in decode()) > 0
    found = decode("--forbid", "dog\n\nhouse\n", "--search", search)
    assert not any({"dog", "house"} & set(text.split()) for text in found)
    assert found[0] != "" != found[3]
