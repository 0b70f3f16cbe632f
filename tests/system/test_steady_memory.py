"""A long training on the CPU does not take more and more memory."""

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest

from translate.runs.directory import RunDirectory

PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 2**20
PERIOD = 500  # steps from one validation to the next, when memory is given back; in the first one shapes are still new


def last_step(metrics: Path) -> int:
    lines = metrics.read_text(encoding="utf-8").splitlines() if metrics.exists() else []
    try:
        return int(json.loads(lines[-1])["step"])
    except (IndexError, ValueError):  # none yet, or half a line
        return 0


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads Linux's account of a process")
def test_2000_steps_are_flat_within_5_percent(tmp_path: Path) -> None:
    """The demo in bf16, where oneDNN keeps a kernel for each shape."""
    run = tmp_path / "run"
    overrides = ("max_steps=2000", "precision=bf16", "threads=1", "device=cpu", "log_every=10", "sample_translations=0")
    command = [sys.executable, "-m", "translate", "train", "demo", "--run", str(run)]
    process = subprocess.Popen(
        [*command, *(f"training.{override}" for override in overrides)],
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    resident: dict[int, list[float]] = defaultdict(list)  # MiB, by hundreds of steps
    while process.poll() is None:
        hundred = last_step(RunDirectory(run).metrics) // 100
        for _ in range(20):
            try:
                pages = int(Path(f"/proc/{process.pid}/statm").read_text(encoding="ascii").split()[1])
            except (OSError, IndexError):  # it has just ended
                break
            resident[hundred].append(pages * PAGE_MIB)
            time.sleep(0.02)
    assert process.returncode == 0
    means = {100 * hundred: sum(seen) / len(seen) for hundred, seen in sorted(resident.items())}
    assert len([step for step in means if step < 2000]) == 20
    highest = [max(means[first + step] for step in range(0, PERIOD, 100)) for first in range(PERIOD, 2000, PERIOD)]
    assert max(highest) <= 1.05 * min(highest), means
