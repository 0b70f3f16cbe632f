"""TensorBoard, Weights & Biases and MLflow receive what `metrics.jsonl` has, offline; and services that fail."""

import json
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from trainings import Digits, happening, records_of, run_training

from translate.config.schema import Config
from translate.errors import InputError
from translate.runs.directory import RunDirectory
from translate.runs.verify import verify_run
from translate.training import StoppedBySignal
from translate.training.tracking import trackers

pytestmark = pytest.mark.usefixtures("no_shape_checks")


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WANDB_PROJECT", "MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")


def numbers_of(run: RunDirectory) -> dict[str, dict[int, float]]:
    """The numbers of `metrics.jsonl`, by kind and name, and by step."""
    numbers: dict[str, dict[int, float]] = {}
    for record in records_of(run.path):
        for name, value in record.items():
            if name not in ("kind", "step"):
                numbers.setdefault(f"{record['kind']}/{name}", {})[record["step"]] = float(value)
    return numbers


def test_tensorboard(digits: Digits, tmp_path: Path) -> None:
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="the extra `tensorboard` is not installed"
    )
    run = RunDirectory(tmp_path / "run")
    for steps in (6, 10):
        config = digits(f"training.max_steps={steps}", "training.trackers=[tensorboard]", "training.log_every=3")
        run_training(config, run.path, resume=True)
    events = accumulator.EventAccumulator(str(run.tensorboard)).Reload()
    numbers = numbers_of(run)
    assert set(events.Tags()["scalars"]) == set(numbers)
    for name in ("train/nll", "validation/BLEU"):
        assert {event.step: event.value for event in events.Scalars(name)} == pytest.approx(numbers[name])


@pytest.mark.system
def test_weights_and_biases(digits: Digits, tmp_path: Path) -> None:
    wandb = pytest.importorskip("wandb", reason="the extra `wandb` is not installed")
    run = RunDirectory(tmp_path / "größe")
    for steps in (6, 10):
        config = digits(f"training.max_steps={steps}", "training.trackers=[wandb]", "training.log_every=3")
        said = run_training(config, run.path, resume=True)
    wandb.teardown()  # waits for the process that writes the files, as the end of a command does
    run_id = json.loads(run.trackers.read_bytes())["wandb"]
    begun, continued = sorted(run.wandb.glob(f"offline-run-*-{run_id}"), key=lambda folder: folder.stat().st_mtime)
    assert f"Weights & Biases: {continued}" in said
    contents = [(folder / f"run-{run_id}.wandb").read_bytes() for folder in (begun, continued)]
    for content, steps in zip(contents, (6, 10), strict=True):
        assert "größe".encode() in content and f'"max_steps":{steps},'.encode() in content
        assert b"train/nll" in content and b"validation/BLEU" in content and b"/kind" not in content
    assert not verify_run(run.path).unsound


@pytest.mark.system
def test_mlflow(digits: Digits, tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow", reason="the extra `mlflow` is not installed")
    run = RunDirectory(tmp_path / "run")

    def train(*overrides: str) -> list[str]:
        return run_training(digits("training.trackers=[mlflow]", *overrides), run.path, resume=True)

    with happening(in_step=6, what=signal.SIGINT), pytest.raises(StoppedBySignal):
        train("training.max_steps=10")
    run_id = json.loads(run.trackers.read_bytes())["mlflow"]
    client = mlflow.MlflowClient(f"sqlite:///{run.mlflow / 'mlflow.db'}")
    assert client.get_run(run_id).info.status == "KILLED"
    train("training.max_steps=11")
    found = client.get_run(run_id)
    (experiment,) = [each for each in client.search_experiments() if each.name == "translate"]
    assert [each.info.run_id for each in client.search_runs([experiment.experiment_id])] == [run_id]
    assert (found.info.status, found.info.run_name) == ("FINISHED", "run")
    assert found.data.params["training.max_steps"] == "10" and found.data.params["model.d_model"] == "16"
    numbers = numbers_of(run)
    assert set(found.data.metrics) == set(numbers)
    for name in ("train/nll", "validation/BLEU"):
        assert {each.step: each.value for each in client.get_metric_history(run_id, name)} == numbers[name]
    assert not verify_run(run.path).unsound
    # Another store, here an emptied one, begins a new run.
    run.trackers.write_text(json.dumps({"mlflow": "0" * 32, "wandb": "kept"}))
    said = train("training.max_steps=12")
    ids = json.loads(run.trackers.read_bytes())
    assert ids["mlflow"] not in (run_id, "0" * 32) and ids["wandb"] == "kept"
    assert f"MLflow: run {ids['mlflow']} in sqlite:///{run.mlflow / 'mlflow.db'}" in said


class FakeTracker:
    """A service that notes what it receives, and fails at a step."""

    run_id: str | None = "seven"
    fails_at: int | None = None
    happened: list[Any] = []

    def __init__(self, run: RunDirectory, config: Config, *, run_id: str | None, step: int) -> None:
        self.happened.append(("start", run_id, step))

    def log(self, kind: str, numbers: Mapping[str, float], *, step: int) -> None:
        if step == self.fails_at:
            raise ConnectionError("the server is gone")
        self.happened.append((kind, step, [name for name in ("nll", "BLEU") if name in numbers]))

    def close(self, *, is_done: bool) -> None:
        self.happened.append(("close", is_done))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> type[FakeTracker]:
    monkeypatch.setitem(trackers.SERVICES, "tensorboard", ("torch", FakeTracker))
    monkeypatch.setattr(FakeTracker, "happened", [])
    return FakeTracker


def test_a_service_receives_every_record_and_goes_on_with_its_run(
    fake: type[FakeTracker], digits: Digits, tmp_path: Path
) -> None:
    run, settings = tmp_path / "run", ("training.trackers=[tensorboard]", "training.log_every=6")
    run_training(digits("training.max_steps=6", *settings), run)
    train = ("train", 6, ["nll"])
    scored = [(kind, 6, ["BLEU"]) for kind in ("validation", "evaluation")]
    assert fake.happened == [("start", None, 0), train, *scored, ("close", True)]
    fake.happened.clear()
    run_training(digits("training.max_steps=7", *settings), run, resume=True)
    assert fake.happened[0] == ("start", "seven", 6) and fake.happened[-1] == ("close", True)
    RunDirectory(run).trackers.write_text("{damaged", encoding="utf-8")
    fake.happened.clear()
    run_training(digits("training.max_steps=8", *settings), run, resume=True)
    assert fake.happened[0] == ("start", None, 7)
    assert json.loads(RunDirectory(run).trackers.read_bytes()) == {"tensorboard": "seven"}


def test_a_service_that_fails_ends_no_training(
    fake: type[FakeTracker], digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fake, "fails_at", 4)
    config = digits("training.max_steps=8", "training.log_every=2", "training.trackers=[tensorboard]")
    said = run_training(config, tmp_path / "run")
    assert sum("training.trackers: tensorboard" in line and "the server is gone" in line for line in said) == 1
    assert [each[:2] for each in fake.happened] == [("start", None), ("train", 2)]
    assert list(numbers_of(RunDirectory(tmp_path / "run"))["train/nll"]) == [2, 4, 6, 8]


def test_a_service_that_cannot_start(
    fake: type[FakeTracker], digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise ValueError("no API key\n")

    monkeypatch.setitem(trackers.SERVICES, "mlflow", ("torch", FakeTracker))
    monkeypatch.setitem(trackers.SERVICES, "wandb", ("torch", refuse))
    with pytest.raises(InputError, match="training.trackers: wandb .*no API key"):
        run_training(digits("training.trackers=[mlflow, wandb]"), tmp_path / "run")
    assert fake.happened == [("start", None, 0), ("close", False)]


@pytest.mark.parametrize("name", trackers.SERVICES)
def test_a_missing_package_is_told_before_any_work(
    digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(sys.modules, trackers.SERVICES[name][0], None)
    monkeypatch.setattr("translate.errors.install_hint", lambda extra: f"pip install what-{extra}-needs")
    with pytest.raises(InputError, match=f"training.trackers: {name} .*what-{name}-needs"):
        run_training(digits(f"training.trackers=[{name}]"), tmp_path / "run")
    assert not (tmp_path / "run").exists()
