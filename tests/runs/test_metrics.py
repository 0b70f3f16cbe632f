"""Records of trainings, read while one writes them; the time that they were reached in is worked out by hand."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from translate.runs.checkpoint import write_tensors
from translate.runs.directory import RunDirectory
from translate.runs.metrics import best_checkpoint_record, best_record, read_metrics


def recorded(path: Path, *records: dict[str, Any]) -> RunDirectory:
    run = RunDirectory(path)
    run.metrics.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return run


def test_the_time_and_the_loss_without_smoothing(tmp_path: Path) -> None:
    """6,000 tokens at 100 a second are a minute, and at 50 two; the validations take one and a half, and a half."""
    run = recorded(
        tmp_path,
        {"kind": "train", "step": 1, "loss": 5, "nll": 2.25, "target_tokens": 6000, "target_tokens_per_second": 100},
        {"kind": "validation", "step": 1, "loss": 2.5, "BLEU": 30, "seconds": 90, "name": "text"},
        {"kind": "train", "step": 2, "loss": 5, "nll": 1.25, "target_tokens": 12000, "target_tokens_per_second": 50},
        {"kind": "validation/news", "step": 2, "loss": 3.5, "seconds": 30},
        {"kind": "train", "step": 3, "target_tokens": 12000, "target_tokens_per_second": 0},
    )
    records = read_metrics(run)
    assert [each["minutes_so_far"] for each in records] == [1.0, 2.5, 4.5, 5.0, 5.0]
    assert [each.get("nll") for each in records] == [2.25, 2.5, 1.25, 3.5, None]
    assert records[1]["BLEU"] == 30.0 and "name" not in records[1], "numbers alone"


@pytest.mark.parametrize("averaged", [{"averaged": ["x"]}, {"averaged": 2}, {"averaged": [math.inf]}, {}])
def test_steps_that_are_no_numbers_are_no_record(tmp_path: Path, averaged: dict[str, object]) -> None:
    assert read_metrics(recorded(tmp_path, {"kind": "average", "step": 3, **averaged})) == []


@pytest.mark.parametrize("metric, step", [("bleu", 4), ("loss", 6)])
def test_the_best_is_the_first_validation_by_the_metric_of_the_config(tmp_path: Path, metric: Any, step: int) -> None:
    scores = [(2, 20.0, 2.0), (4, 25.0, 1.9), (6, 25.0, 1.5), (8, math.nan, math.nan), (9, 30.0, math.nan)]
    run = recorded(
        tmp_path, *({"kind": "validation", "step": at, "BLEU": bleu, "loss": loss} for at, bleu, loss in scores)
    )
    best = best_record(read_metrics(run), metric)
    assert best is not None and best["step"] == step
    assert best_record([], metric) is None


@pytest.mark.parametrize("averaged", [{}, {"averaged": "2 4"}])
def test_the_best_checkpoint_says_which_record_is_its_own(tmp_path: Path, averaged: dict[str, str]) -> None:
    """After a change of the validation set, a lower score is the best one: step 4 was validated twice.

    At its end, step 8, the training tried the best checkpoint and two averages; the first average is better.
    """
    validations = [(2, 90.0), (4, 80.0), (4, 20.0), (6, 10.0)]
    records = [{"kind": "validation", "step": step, "BLEU": bleu} for step, bleu in validations]
    tried = [([4], 20.5), ([2, 4], 21.0), ([2, 4, 6], 15.0)]
    records += [{"kind": "average", "step": 8, "BLEU": bleu, "averaged": steps} for steps, bleu in tried]
    run = recorded(tmp_path, *records)
    run.checkpoints.mkdir()
    write_tensors(run.checkpoint("best"), {"a": torch.zeros(1)}, {"step": "4", **averaged})
    best = best_checkpoint_record(run, read_metrics(run), "bleu")
    assert best is not None and best["BLEU"] == (21.0 if averaged else 20.0)
    run.checkpoint("best").write_bytes(b"")
    best = best_checkpoint_record(run, read_metrics(run), "bleu")
    assert best is not None and best["BLEU"] == 90.0


@pytest.mark.parametrize(
    "torn",
    [
        b'{"kind": "train", "st',
        b'{"kind": "tr\xff\xfe"}\n',
        b"[" * 10_000 + b"\n",
        b'{"kind": "train", "step": Infinity}\n',
        b'{"kind": {}, "step": 3}\n',
    ],
)
def test_a_torn_line_is_left_out_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture, torn: bytes) -> None:
    assert read_metrics(RunDirectory(tmp_path)) == []
    run = recorded(tmp_path, {"kind": "train", "step": 1}, {"kind": "train", "step": 2})
    with run.metrics.open("ab") as file:
        file.write(torn)
    assert [record["step"] for record in read_metrics(run)] == [1, 2]
    assert f"{run.metrics}: line 3 is left out" in caplog.text
