"""A profile of work whose kind and amount the test knows; and a training that it does not change."""

import gzip
import json
from pathlib import Path

import pytest
from harness import state_of
from trainings import Digits

from translate.training import train
from translate.training.tracking import profile as module
from translate.training.tracking.profile import FORWARD

pytestmark = pytest.mark.usefixtures("no_shape_checks")

_STEPS = 10


@pytest.fixture
def four_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer than a user's profile watches: to tabulate them takes most of the time."""
    monkeypatch.setattr(module, "_STEPS", 4)


def test_a_profile_changes_no_number(
    digits: Digits, tmp_path: Path, four_steps: None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "translate")
    # Validations, checkpoints and the border of an epoch fall among the steps that are watched.
    work = ("max_steps=15", "validate_every=13", "save_every=12", "batch_tokens=1100", "threads=2")
    config = digits(*(f"training.{setting}" for setting in work))
    for name, profile in (("plain", False), ("profiled", True)):
        train(config, tmp_path / name, resume=False, command=["test"], profile=profile)
    assert state_of(tmp_path / "profiled") == state_of(tmp_path / "plain")
    assert not (tmp_path / "plain" / "profile").exists()
    folder = tmp_path / "profiled" / "profile"
    text = (folder / "time.txt").read_text(encoding="utf-8")
    assert all(part in text for part in (FORWARD, "autograd::engine::evaluate_function", "Optimizer.step#", "aten::"))
    assert "Profiling steps 11 to 14 after" in caplog.text
    assert f"Profile of steps 11 to 14: {folder / 'time.txt'}; {folder / 'trace.json.gz'} is for" in caplog.text
    with gzip.open(folder / "trace.json.gz", "rt", encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    names = [event.get("name", "") for event in events]
    assert sum(name.startswith("ProfilerStep") for name in names) == 4
    assert sum(name.startswith("Optimizer.step") for name in names) == 2 * 4  # a part of each step by each worker


@pytest.mark.parametrize(
    "max_steps, message", [(10, "No profile: training ended before step 11"), (13, "Profile of steps 11 to 13: ")]
)
def test_a_training_that_ends_before(
    digits: Digits, tmp_path: Path, caplog: pytest.LogCaptureFixture, max_steps: int, message: str
) -> None:
    caplog.set_level("INFO", "translate")
    config = digits(f"training.max_steps={max_steps}", "data.validation=null")
    train(config, tmp_path / "run", resume=False, command=["test"], profile=True)
    assert message in caplog.text
    assert (tmp_path / "run" / "profile" / "time.txt").exists() == (max_steps > 10)


def test_a_profile_that_cannot_be_written_stops_no_training(
    digits: Digits, tmp_path: Path, four_steps: None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "translate")
    run = tmp_path / "run"
    train(digits("training.max_steps=2"), run, resume=False, command=["test"])
    (run / "profile").write_text("in the way", encoding="utf-8")
    config = digits("training.max_steps=17")
    progress = train(config, run, resume=True, command=["test"], profile=True)
    assert progress.step == 17
    assert "Profiling steps 13 to 16" in caplog.text
    assert "The profile cannot be written: [Errno 17] File exists" in caplog.text
