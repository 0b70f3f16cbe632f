"""Services such as TensorBoard that receive the numbers of a training run; when it is resumed, it continues there."""

import contextlib
import json
import logging
import os
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from translate.atomic import write_text
from translate.config.schema import Config, TrainingConfig
from translate.config.yaml import flatten_keys
from translate.errors import InputError, import_extra
from translate.files import FileError, read_json
from translate.messages import escaped
from translate.runs.directory import RunDirectory

logger = logging.getLogger(__name__)

_PROJECT = "translate"  # of Weights & Biases, and the experiment of MLflow, where the environment names none


class TensorBoardTracker:
    """Writes event files into the run's folder `tensorboard`."""

    run_id: str | None = None  # by which a service finds its run again; None: the files are enough

    def __init__(self, run: RunDirectory, config: Config, *, run_id: str | None, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(run.tensorboard, purge_step=step + 1)

    def log(self, kind: str, numbers: Mapping[str, float], *, step: int) -> None:
        """Receive the numbers of a record of this kind: train, validation, validation/NAME or evaluation."""
        for name, value in numbers.items():
            self._writer.add_scalar(f"{kind}/{name}", value, step)

    def close(self, *, is_done: bool) -> None:
        """Finish the service's run; a training run that is not done was stopped or has failed."""
        self._writer.close()


class WandbTracker(TensorBoardTracker):
    """Weights & Biases, which reads TensorBoard's event files; WANDB_MODE=offline writes into the run's folder."""

    def __init__(self, run: RunDirectory, config: Config, *, run_id: str | None, step: int) -> None:
        import wandb

        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", _PROJECT),
            name=escaped(run.path.resolve().name),
            id=run_id,
            resume="allow",
            dir=run.path,
            config=config.model_dump(mode="json"),
            allow_val_change=True,  # such as max_steps of a continued run
            sync_tensorboard=True,
            settings=wandb.Settings(console="off", silent=True, symlink=False),
        )
        self.run_id = self._run.id
        super().__init__(run, config, run_id=run_id, step=step)
        logger.info(f"Weights & Biases: {Path(self._run.dir).parent if self._run.offline else self._run.url}")

    def close(self, *, is_done: bool) -> None:
        super().close(is_done=is_done)
        self._run.finish(exit_code=0 if is_done else 1)


class MlflowTracker:
    """Sends to MLFLOW_TRACKING_URI, or writes into a database in the run's folder `mlflow` if that is not set."""

    def __init__(self, run: RunDirectory, config: Config, *, run_id: str | None, step: int) -> None:
        import mlflow
        from mlflow.entities import Param

        logging.getLogger("mlflow").setLevel(logging.WARNING)  # it would log how it creates its tables
        store = None  # the environment's
        if not mlflow.is_tracking_uri_set():
            run.mlflow.mkdir(exist_ok=True)
            store = f"sqlite:///{run.mlflow.resolve() / 'mlflow.db'}"
        self._client = mlflow.MlflowClient(store)
        self.run_id: str | None = None
        if run_id is not None:
            with contextlib.suppress(mlflow.MlflowException):  # in another store, start a new run
                self._client.update_run(run_id, status="RUNNING")
                self.run_id = run_id
        if self.run_id is None:
            name = os.environ.get("MLFLOW_EXPERIMENT_NAME", _PROJECT)
            found = self._client.get_experiment_by_name(name)
            number = found.experiment_id if found else self._client.create_experiment(name)
            self.run_id = self._client.create_run(number, run_name=escaped(run.path.resolve().name)).info.run_id
            params = [Param(key, str(value)) for key, value in flatten_keys(config.model_dump(mode="json")).items()]
            self._client.log_batch(self.run_id, params=params)
        logger.info(f"MLflow: run {self.run_id} in {self._client.tracking_uri}")

    def log(self, kind: str, numbers: Mapping[str, float], *, step: int) -> None:
        from mlflow.entities import Metric

        now = round(time.time() * 1000)
        metrics = [Metric(f"{kind}/{name}", value, now, step) for name, value in numbers.items()]
        self._client.log_batch(self.run_id, metrics=metrics)

    def close(self, *, is_done: bool) -> None:
        self._client.set_terminated(self.run_id, status="FINISHED" if is_done else "KILLED")


SERVICES: dict[str, tuple[str, type[TensorBoardTracker | MlflowTracker]]] = {  # a package, and its tracker
    "tensorboard": ("torch.utils.tensorboard", TensorBoardTracker),
    "wandb": ("wandb", WandbTracker),
    "mlflow": ("mlflow", MlflowTracker),
}


class Trackers:
    """The services that a config names. If one fails later, it receives nothing more, and training continues.

    Args:
        step: The last completed step; records of later steps will be sent again.

    Raises:
        InputError: A service cannot start.
        RunError: The run directory cannot be written.
    """

    def __init__(self, run: RunDirectory, config: Config, *, step: int) -> None:
        self._trackers: dict[str, TensorBoardTracker | MlflowTracker] = {}
        run_ids: dict[str, str | None] = {}
        names = set(config.training.trackers)
        with contextlib.suppress(FileError):  # without its id, a service begins a new run
            run_ids = read_json(run.trackers, dict[str, str | None]) if names else {}
        for name in sorted(names - {"tensorboard"} if "wandb" in names else names):  # W&B's has the same event files
            try:
                with warnings.catch_warnings(action="ignore"):  # meant for the package's authors
                    tracker = SERVICES[name][1](run, config, run_id=run_ids.get(name), step=step)
            except Exception as error:  # each package has its own exceptions
                self.close(is_done=False)
                raise InputError(
                    f"training.trackers: {name} cannot start: {str(error).strip()}; set it up, or leave it out"
                ) from error
            self._trackers[name] = tracker
            if tracker.run_id is not None:
                run_ids[name] = tracker.run_id
                write_text(run.trackers, json.dumps(run_ids) + "\n")

    def log(self, record: Mapping[str, Any]) -> None:
        """Send the numbers of a record to each service."""
        kind, step = record["kind"], record["step"]
        numbers = {name: float(value) for name, value in record.items() if isinstance(value, int | float)}
        del numbers["step"]
        self._for_each(lambda tracker: tracker.log(kind, numbers, step=step))

    def close(self, *, is_done: bool) -> None:
        """Finish the run of each service."""
        self._for_each(lambda tracker: tracker.close(is_done=is_done))

    def _for_each(self, call: Callable[[TensorBoardTracker | MlflowTracker], None]) -> None:
        for name, tracker in list(self._trackers.items()):
            try:
                call(tracker)
            except Exception as error:
                del self._trackers[name]
                logger.warning(f"training.trackers: {name} failed and receives nothing more: {error}")


def check_trackers(settings: TrainingConfig) -> None:
    """Check, before data is prepared, that the packages of a run's trackers can be imported.

    Raises:
        InputError: One cannot be imported.
    """
    for name in settings.trackers:
        with warnings.catch_warnings(action="ignore"):
            import_extra(SERVICES[name][0], needed_by=f"training.trackers: {name}")
