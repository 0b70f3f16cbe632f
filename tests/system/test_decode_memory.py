"""Decoding streams: the memory of `translate decode` does not grow with its input, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from harness import make_toy, tiny_config

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

# The command's own high-water mark: RUSAGE_CHILDREN would count what this process had at the fork.
COMMAND = (
    "import sys, atexit\n"
    "atexit.register(lambda: print(open('/proc/self/status').read(), file=sys.stderr))\n"
    "from translate.cli import main\n"
    "main()"
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny untrained model, which translates everything quickly."""
    search = {"beam_size": 1, "max_length_constant": 2, "workers": 1, "look_ahead_lines": 200}
    return make_toy(tmp_path_factory.mktemp("memory") / "run", tiny_config(decoding=search), num_steps=0).path


def peak_mebibytes(run: Path, folder: Path, num_lines: int, *, padding: int, command: str = "decode") -> float:
    """The most memory that the command had, reading files of so many lines; there are as many lines out.

    Args:
        padding: Spaces at the end of each line: a long line, fast to translate.
    """
    source, wishes, output = (folder / f"{num_lines}.{ending}" for ending in ("de", "prefix", "out"))
    with source.open("w", encoding="utf-8") as file:
        file.writelines(f"Hund {number} läuft.{' ' * padding}\n" for number in range(num_lines))
    with wishes.open("w", encoding="utf-8") as file:
        file.writelines("A dog\n" if number % 2 else "\n" for number in range(num_lines))
    files = [source, "--prefix", wishes] if command == "decode" else [source, wishes]
    result = subprocess.run(
        [sys.executable, "-c", COMMAND, command, run, *files, "-o", output],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert result.returncode == 0, result.stderr
    with output.open("rb") as written:
        assert sum(1 for _ in written) == num_lines
    (peak,) = (line.split()[1] for line in result.stderr.splitlines() if line.startswith("VmHWM:"))
    return int(peak) / 1024


@pytest.mark.parametrize("command", ["decode", pytest.param("score", marks=pytest.mark.slow)])
def test_memory_does_not_grow_with_the_input(run: Path, tmp_path: Path, command: str) -> None:
    """The larger file is 20 MiB longer, which is more than is allowed here."""
    small, large = (peak_mebibytes(run, tmp_path, number, padding=10_000, command=command) for number in (400, 2_400))
    assert large < small + 10
