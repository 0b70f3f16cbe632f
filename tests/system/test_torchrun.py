"""Processes that torchrun itself starts: it takes a training down, or starts it again, when one of them dies."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import state_of

OVERRIDES = ("training.max_steps=300", "training.validate_every=120", "training.batch_tokens=1100")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds processes in /proc")
def test_it_starts_them_again_and_they_go_on(torchrun: Callable[..., Any], trainings: Any, tmp_path: Path) -> None:
    job = torchrun("--max-restarts", "1", arguments=trainings.arguments(tmp_path / "killed", *OVERRIDES, resume=True))
    job.wait_until_said("Step 6: loss")
    job.kill(rank=0)  # which holds the lock of the run
    assert job.process.wait() == 0, job.said
    assert "another process has ended or does not answer, and this one cannot continue alone" in job.said
    assert "Continuing from step" in job.said
    assert job.said.count("ended after 300 steps") == 1, "the first process alone speaks"
    straight = torchrun(arguments=trainings.arguments(tmp_path / "straight", *OVERRIDES))
    assert straight.process.wait() == 0, straight.said
    assert state_of(tmp_path / "killed") == state_of(tmp_path / "straight")
