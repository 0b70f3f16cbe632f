"""`translate decode` by several processes under torchrun: the bytes of one process, whatever happens meanwhile."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from harness import counts_told

Trainings = Any  # conftest.py's: test modules cannot import each other

NUM_LINES = 301
LINES_PER_BLOCK = 5
NUM_BLOCKS = 61
OPTIONS = ["--look-ahead-lines", str(LINES_PER_BLOCK), "--workers", "1", "--format", "jsonl", "--alignments"]


@pytest.fixture
def folder(trainings: Trainings, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the commands: a run, the lines in.txt, and their translations plain.txt by one process."""
    folder = Path(trainings.directory)
    monkeypatch.chdir(folder)
    trainings.run(folder / "run", "training.max_steps=3", "training.validate_every=3")
    lines = Path("validation.in").read_text(encoding="utf-8").splitlines()
    text = "".join(f"{lines[number % len(lines)] if number % 9 else ''}\n" for number in range(NUM_LINES))
    Path("in.txt").write_text(text, encoding="utf-8")
    run, source, links, output = (str(folder / name) for name in ("run", "in.txt", "plain.links", "plain.txt"))
    trainings.command("decode", run, source, *OPTIONS, links, "-o", output)
    return folder


@pytest.mark.timeout(300)  # other tests may keep the cores busy
def test_a_killed_process_and_a_second_start(trainings: Trainings, torchrun: Any, folder: Path) -> None:
    """Another number of processes continues with what is finished, and the output is that of one process."""
    expected = counts_told(trainings.log.read_text(encoding="utf-8"))
    parts = folder / "out.txt.parts"
    command = ["decode", "run", "in.txt", *OPTIONS, "out.links", "-o", "out.txt"]

    def finished() -> list[Path]:
        return list(parts.glob("*.part"))

    job = torchrun(arguments=command)
    while len(finished()) < 4:
        assert job.process.poll() is None, job.said
    os.kill(int((parts / "lock").read_text().split()[4]), signal.SIGKILL)
    assert job.process.wait(timeout=200) != 0 and not (folder / "out.txt").exists()
    num_finished = len(finished())
    assert 4 <= num_finished < NUM_BLOCKS

    again = torchrun(arguments=command, num_processes=3)
    assert again.process.wait(timeout=200) == 0, again.said
    for suffix in ("txt", "links"):
        assert (folder / f"out.{suffix}").read_bytes() == (folder / f"plain.{suffix}").read_bytes() != b""
    assert counts_told(again.said) == expected and not parts.exists()
    assert (
        again.said.count(f" by 3 processes; {LINES_PER_BLOCK * num_finished} of the lines were already finished\n") == 1
    )


@pytest.mark.timeout(300)
def test_an_error_of_all_processes_is_reported_once(torchrun: Any, folder: Path) -> None:
    job = torchrun(arguments=["decode", "run"])
    assert job.process.wait(timeout=200) != 0
    assert job.said.count("decode needs FILE and --output FILE") == 1
