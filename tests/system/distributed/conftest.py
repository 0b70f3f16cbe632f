"""Trainings by several processes that find each other as those of torchrun do."""

import random
from pathlib import Path
from typing import Any

import pytest
from harness import write_digits, write_reversed_digits

# Adam makes noise of a zero gradient as large as any other, unless its epsilon is large.
_SETTINGS = (
    *("tokenizer.subword_sampling=0.1", "training.batch_tokens=1600", "training.validate_every=5"),
    *("training.log_every=3", "training.ema_decay=0.9", "training.max_gradient_norm=0.5", "training.adam_epsilon=1e-4"),
)


class Trainings:
    """Runs of `translate train` on a tiny task: digits, to be reversed."""

    def __init__(self, processes: Any, directory: Path) -> None:
        self._processes, self.directory = processes, directory
        write_digits(directory)
        write_reversed_digits(directory, "train", num_pairs=811, draw=random.Random(5))

    def arguments(self, run: str, *overrides: str, resume: bool = False) -> list[str]:
        """What follows `translate` on the command line."""
        config = str(self.directory / "digits.yaml")
        # Each key once: every process would warn of one that is given several times.
        values = dict(setting.split("=", 1) for setting in (*_SETTINGS, *(f"training.{one}" for one in overrides)))
        return [
            "train",
            config,
            *map("=".join, values.items()),
            "--run",
            str(self.directory / run),
            *(["--resume"] if resume else []),
        ]

    def try_to(self, size: int, run: str, *overrides: str, resume: bool = False, first: str = "") -> Any:
        """A training by so many processes.

        Args:
            overrides: Of the settings of `training`.
            first: Python that each process runs before the command.
        """
        python = f"{first}\nimport translate.cli; translate.cli.main()"
        return self._processes.run(size, python, self.arguments(run, *overrides, resume=resume))

    def run(self, size: int, run: str, *overrides: str, resume: bool = False, first: str = "") -> str:
        """One that must succeed; what its first process says, which is all that is said."""
        ended = self.try_to(size, run, *overrides, resume=resume, first=first)
        assert [each.code for each in ended] == [0] * size, ended
        assert [each.said for each in ended[1:]] == [""] * (size - 1)
        return ended[0].said


@pytest.fixture
def trainings(processes: Any, tmp_path: Path) -> Trainings:
    """Trainings with their files in the test's directory."""
    return Trainings(processes, tmp_path)
