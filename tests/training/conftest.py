"""A tiny task that a tiny model learns in seconds: digits, reversed; and a run of it that was never stopped."""

import shutil
from pathlib import Path

import pytest
from harness import write_digits
from trainings import STATEFUL, Digits

from translate.training import train


@pytest.fixture
def digits(tmp_path: Path) -> Digits:
    """A function that gives the config of the task, with overrides; its files are in tmp_path."""
    return write_digits(tmp_path)


@pytest.fixture
def stateful(digits: Digits) -> Digits:
    """The same, of a training that has all the state that there is."""
    return lambda *overrides: digits(*STATEFUL, *overrides)


@pytest.fixture(scope="session")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of a `stateful` training that was never stopped, with checked shapes; only to be read."""
    directory = tmp_path_factory.mktemp("straight")
    train(write_digits(directory)(*STATEFUL), directory / "run", resume=False, command=["test"])
    return directory / "run"


@pytest.fixture
def finished(straight: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(straight, tmp_path / "finished"))
