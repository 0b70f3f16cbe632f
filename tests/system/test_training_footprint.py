"""The least memory that a training is said to need is below what it takes, and not by far."""

from pathlib import Path

import pytest
import torch
from harness import write_digits

from translate.lint.check import check
from translate.lint.dry_run import peak_memory
from translate.training import footprint

WIDE = ("model.d_model=512", "model.num_heads=4", "model.d_ff=2048")


@pytest.mark.parametrize(
    "overrides",
    [
        WIDE,
        (*WIDE, "training.r_drop=5"),
        (*WIDE, "training.freeze=[encoder]"),
        (*WIDE, "training.lora_rank=4"),
        (*WIDE, "model.activation=swiglu"),
    ],
    ids=lambda overrides: overrides[-1],
)
def test_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overrides: tuple[str, ...]) -> None:
    if peak_memory(torch.device("cpu")) is None:
        pytest.skip("the peak of memory is not known here")
    bounds: list[int] = []
    monkeypatch.setattr(footprint, "check_free_memory", lambda num_bytes, *_, **__: bounds.append(num_bytes))
    report = check(write_digits(tmp_path)(*overrides))
    assert report.dry_run is not None and report.dry_run.peak_bytes is not None
    assert 0.15 * report.dry_run.peak_bytes < bounds[0] < report.dry_run.peak_bytes
