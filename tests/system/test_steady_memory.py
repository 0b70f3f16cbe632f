"""A long training on the CPU does not take more and more memory."""

import json
import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from translate.run import RunDirectory

PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 2**20


def last_step(metrics: Path) -> int:
    lines = metrics.read_text(encoding="utf-8").splitlines() if metrics.exists() else []
    try:
        return int(json.loads(lines[-1])["step"])
    except (IndexError, ValueError):  # none yet, or half a line
        return 0


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads Linux's account of a process")
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_2000_steps_are_flat_within_5_percent(trainings: Any, tmp_path: Path, precision: str) -> None:
    draw = random.Random(3)
    # Lengths from 1 to 60, so that there are hundreds of shapes of batches.
    sources = [" ".join(draw.choices("0123456789", k=draw.randint(1, 60))) for _ in range(3000)]
    for side, lines in (("in", sources), ("out", [line[::-1] for line in sources])):
        (tmp_path / f"train.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    process = trainings.start(
        trainings.arguments(
            tmp_path / "run",
            *("model.d_model=64", "model.d_ff=256", "model.num_encoder_layers=2", "model.num_decoder_layers=2"),
            *("tokenizer.vocab_size=20", "tokenizer.subword_sampling=null"),
            *("data.validation=null", f"training.precision={precision}"),
            *("training.max_steps=2000", "training.save_every=500", "training.validate_every=1000"),
            *("training.log_every=20", "training.batch_tokens=700", "training.accumulate_batches=1"),
        )
    )
    metrics = RunDirectory(tmp_path / "run").metrics
    peaks: dict[int, float] = {}  # MiB, by hundreds of steps
    while (step := last_step(metrics)) < 1980:
        account = Path(f"/proc/{process}/statm")
        assert account.exists(), trainings.log.read_text(encoding="utf-8")
        resident = int(account.read_text(encoding="ascii").split()[1]) * PAGE_MIB
        peaks[step // 100] = max(peaks.get(step // 100, 0.0), resident)
        time.sleep(0.02)
    assert trainings.wait() == 0
    settled = [peaks[hundred] for hundred in sorted(peaks) if hundred >= 4]
    assert len(settled) >= 12
    assert max(settled) <= 1.05 * settled[0], peaks
