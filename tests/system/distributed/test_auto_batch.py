"""A batch size that is found: by all processes, the same for all."""

from pathlib import Path
from typing import Any

from translate.config.load import read_resolved_config


def test_all_take_the_same(trainings: Any, tmp_path: Path) -> None:
    """And the training is the one that the number gives."""
    short = ("max_steps=3", "validate_every=3", "accumulate_batches=1")
    said = trainings.run(2, "found", "batch_tokens=auto", "step_tokens=700", *short)
    assert said.count("training.batch_tokens = auto: 700 tokens, 1 batch per step") == 1
    trainings.run(2, "given", "batch_tokens=700", *short)
    weights = [(tmp_path / run / "checkpoints" / "best.safetensors").read_bytes() for run in ("found", "given")]
    assert weights[0] == weights[1]
    assert read_resolved_config(tmp_path / "found" / "config.yaml").training.batch_tokens == 700
