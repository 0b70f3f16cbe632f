"""Where everything lies in a run directory."""

from pathlib import Path
from typing import Literal

Checkpoint = Literal["best", "last"]


class RunDirectory:
    """Paths in a run directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.yaml"
        self.description = path / "run.json"
        self.tokenizer = path / "tokenizer"
        self.checkpoints = path / "checkpoints"
        self.previous = self.checkpoints / "previous.safetensors"  # the last one before the last
        self.metrics = path / "metrics.jsonl"
        self.evaluation = path / "evaluation"
        self.export = path / "export"
        self.shortlist = path / "shortlist.safetensors"
        self.lock = path / "lock"

    def checkpoint(self, which: Checkpoint) -> Path:
        """The file of a checkpoint, whether it exists yet or not."""
        return self.checkpoints / f"{which}.safetensors"
