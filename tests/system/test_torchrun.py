"""Processes that torchrun itself starts: it takes a training down, or starts it again, when one of them dies."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import state_of

OVERRIDES = ("training.max_steps=100", "training.validate_every=40", "training.batch_tokens=1100")


class Job:
    """What torchrun runs; what is said goes to a file."""

    def __init__(self, log: Path, options: list[str], arguments: list[str]) -> None:
        self.log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", *options, "-m", "--"]
                + ["translate", *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            )

    @property
    def said(self) -> str:
        """The log so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait_until_said(self, text: str) -> None:
        """Until the log contains this text."""
        while text not in self.said:
            assert self.process.poll() is None, self.said
            time.sleep(0.05)

    def kill(self, *, rank: int) -> None:
        """Kill one of its two processes, as if memory were out."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        environments = {child: Path(f"/proc/{child}/environ").read_bytes().split(b"\0") for child in children}
        (found,) = [child for child, environment in environments.items() if f"RANK={rank}".encode() in environment]
        os.kill(int(found), signal.SIGKILL)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    """A function that starts torchrun, with options of its own, on a `translate` command."""
    jobs: list[Job] = []

    def start(*options: str, arguments: list[str]) -> Job:
        jobs.append(Job(tmp_path / f"torchrun-{len(jobs)}", list(options), arguments))
        return jobs[-1]

    yield start
    for job in jobs:
        job.process.terminate()  # it ends its own
        job.process.wait()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds processes in /proc")
def test_it_starts_them_again_and_they_go_on(start: Callable[..., Job], trainings: Any, tmp_path: Path) -> None:
    job = start("--max-restarts", "1", arguments=trainings.arguments(tmp_path / "killed", *OVERRIDES, resume=True))
    job.wait_until_said("Step 6: loss")
    job.kill(rank=0)  # which holds the lock of the run
    assert job.process.wait() == 0, job.said
    assert "another process has ended or does not answer, and this one cannot go on without it" in job.said
    assert "Going on from step" in job.said
    assert job.said.count("ended after 100 steps") == 1, "the first process alone speaks"
    straight = start(arguments=trainings.arguments(tmp_path / "straight", *OVERRIDES))
    assert straight.process.wait() == 0, straight.said
    assert state_of(tmp_path / "killed") == state_of(tmp_path / "straight")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_signal_to_torchrun_stops_and_saves(start: Callable[..., Job], trainings: Any, tmp_path: Path) -> None:
    job = start(arguments=trainings.arguments(tmp_path / "run", *OVERRIDES, "training.max_steps=100000"))
    job.wait_until_said("Step 6: loss")
    job.process.send_signal(signal.SIGTERM)
    assert job.process.wait(timeout=60) != 0
    assert job.said.count(", and saved. Continue with: torchrun --nproc-per-node 2 -m -- translate train") == 1
