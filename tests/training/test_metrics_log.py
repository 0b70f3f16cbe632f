"""`metrics.jsonl` holds what its training computed, each record once, however often it was stopped."""

import contextlib
import json
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from translate.config import Config
from translate.errors import RunError
from translate.runs import RunDirectory
from translate.training import StoppedBySignal
from translate.training.metrics_log import MetricsLog, MetricsMark

Digits = Callable[..., Config]
RunTraining = Callable[..., list[str]]
Happening = Callable[..., contextlib.AbstractContextManager[None]]
StateOf = Callable[[Path], Any]


def test_metrics_are_cut_to_what_the_checkpoint_vouches_for(
    run_training: RunTraining,
    happening: Happening,
    progress_of: Callable[..., dict[str, Any]],
    stateful: Digits,
    tmp_path: Path,
    straight: Path,
    state_of: StateOf,
) -> None:
    config, run = stateful(), tmp_path / "run"
    with happening(in_step=9, what=signal.SIGINT), pytest.raises(StoppedBySignal):
        run_training(config, run)
    file = RunDirectory(run).metrics
    vouched = file.read_bytes()
    assert progress_of(run)["metrics_bytes"] == len(vouched)
    # Lines of the very step of the checkpoint, which a look at steps would keep; and half a line.
    file.write_bytes(vouched + b'{"kind": "train", "step": 9}\n{"kind": "valida')
    said = run_training(config, run, resume=True)
    assert file.read_bytes().startswith(vouched) and not any(str(file) in line for line in said)
    assert state_of(run) == state_of(straight)


def test_changed_metrics_are_kept_by_step_and_said(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    lines = [json.dumps({"kind": "train", "step": step}) + "\n" for step in (5, 10, 15)]
    said: list[str] = []
    for text in ("".join(lines), "".join(lines) + '{"kind": "tr'):
        file.write_text(text, encoding="utf-8")
        # Of a checkpoint of version 0.1.0, which has no mark, by step too, and nothing is to be said.
        MetricsLog(file, first_step=10, mark=None, say=said.append).close()
        assert file.read_text(encoding="utf-8") == lines[0] + lines[1] and not said
    file.write_text("".join(lines), encoding="utf-8")
    MetricsLog(file, first_step=10, mark=MetricsMark(30, "0" * 64), say=said.append).close()
    assert file.read_text(encoding="utf-8") == lines[0] + lines[1]
    assert said == [f"{file} is not as it was when the checkpoint was written: its lines up to step 10 stay"]


def test_metrics_that_cannot_be_written_are_told_once(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    log = MetricsLog(file, first_step=0, mark=None)
    log.append({"kind": "train", "step": 1})
    before, mark = file.read_bytes(), log.sync()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 5, hard))  # for this one write alone
    try:
        with pytest.raises(RunError) as caught:
            log.append({"kind": "train", "step": 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    log.close()
    assert str(caught.value) == f"{file}: cannot be written: File too large; free some space on that disk"
    assert file.read_bytes() != before, "a part of the line was written"
    continued = MetricsLog(file, first_step=1, mark=mark)
    assert file.read_bytes() == before and continued.sync() == mark
    continued.close()
