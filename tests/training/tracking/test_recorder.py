"""`metrics.jsonl` holds each record once, however often its training was stopped; lines and a bar for people."""

import json
import logging
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from harness import files_up_to, state_of, terminal
from trainings import Digits, progress_of, run_training, stop_training

from translate.config.schema import Config
from translate.errors import RunError
from translate.runs.directory import RunDirectory
from translate.runs.progress import Progress
from translate.training.tracking.recorder import Recorder

pytestmark = pytest.mark.usefixtures("no_shape_checks")


def test_metrics_are_cut_to_what_the_checkpoint_vouches_for(stateful: Digits, tmp_path: Path, straight: Path) -> None:
    config, run = stateful(), tmp_path / "run"
    stop_training(config, run, in_step=9)
    file = RunDirectory(run).metrics
    vouched = file.read_bytes()
    assert progress_of(run)["metrics_bytes"] == len(vouched)
    # Lines of the very step of the checkpoint, which a look at steps would keep; and half a line.
    file.write_bytes(vouched + b'{"kind": "train", "step": 9}\n{"kind": "valida')
    said = run_training(config, run, resume=True)
    assert file.read_bytes().startswith(vouched) and not any(str(file) in line for line in said)
    assert state_of(run) == state_of(straight)


def test_changed_metrics_are_kept_by_step_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "metrics.jsonl"
    lines = [json.dumps({"kind": "train", "step": step}) + "\n" for step in (5, 10, 15)]
    huge = '{"step": ' + "9" * 5000 + "}\n"
    text = "".join(lines)
    changed = [text, text + '{"kind": "tr', text + "[" * 10_000 + "\n[]\n" + huge, text.replace("\n", "\r\n")]
    for content in (*changed, "".join(lines[:2]).rstrip()):  # the last without a newline at its end
        file.write_bytes(content.encode())
        # With a checkpoint that has no mark, they are kept by step too, and nothing is to be said.
        with Recorder(RunDirectory(tmp_path), Config(), Progress("data", step=10)):
            pass
        assert file.read_text(encoding="utf-8") == lines[0] + lines[1] and not caplog.messages
    file.write_text("".join(lines), encoding="utf-8")
    marked = Progress("data", step=10, metrics_bytes=30, metrics_sha256="0" * 64)
    with Recorder(RunDirectory(tmp_path), Config(), marked):
        pass
    assert file.read_text(encoding="utf-8") == lines[0] + lines[1]
    assert caplog.messages == [f"{file} has changed since its checkpoint; its lines up to step 10 are kept"]


def test_metrics_that_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    run, settings = RunDirectory(tmp_path), Config()
    with Recorder(run, settings, Progress("data")) as recorder:
        recorder.record({"kind": "train", "step": 1})
        before, mark = file.read_bytes(), recorder.sync()
        with files_up_to(len(before) + 5), pytest.raises(RunError) as caught:
            recorder.record({"kind": "train", "step": 2})
    assert str(caught.value) == f"{file}: cannot be written: File too large"
    assert file.read_bytes() != before, "a part of the line was written"
    continued = Progress("data", step=1, metrics_bytes=mark[0], metrics_sha256=mark[1])
    with Recorder(run, settings, continued) as recorder:
        assert file.read_bytes() == before and recorder.sync() == mark


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_bar_asks_for_its_text_once_a_second_and_a_validation_has_one_below(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    asked, now = list[str](), 1000.0
    monkeypatch.setattr("tqdm.std.time", lambda: now)
    monkeypatch.setattr("translate.training.tracking.recorder.time", SimpleNamespace(perf_counter=lambda: now))

    def describe() -> str:
        asked.append("loss 3.210, 5,000 tok/s, 12 min left")
        return asked[-1]

    with terminal(is_pipe=not is_terminal, columns=120) as (stream, read):
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr(logging.getLogger("translate"), "level", logging.INFO)
        with Recorder(RunDirectory(tmp_path), Config(), Progress("data")) as recorder:
            for number in range(50):
                now += 0.15 * (number == 49)  # tqdm draws ten times a second
                recorder.advance(describe, num_steps=7000)
            with recorder.validating(20) as advance:
                now += 0.15
                advance(9)
        text = read()
    if not is_terminal:
        assert (asked, text) == ([], "")
        return
    assert len(asked) == 1 and "50/7,000 [" in text and f", {asked[0]}]" in text
    _, begun, after = text.partition("\n\rValidating:   0%|")
    assert begun and "50/7,000 [00:00, validating]" in text, "nothing is said to be left"
    assert re.search(r"\rValidating:  45%\|█+.*\| 9/20 lines \[.*, 00:00 left\]", after)
    assert after.rpartition("Validating")[2].count(" " * 119) == 2, "both are cleared"
