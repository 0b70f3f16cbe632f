"""From a config to a trained run directory: everything that `translate train` does, in order."""

import contextlib
import logging
import shlex
from collections.abc import Callable
from pathlib import Path

from translate._version import __version__
from translate.config.schema import Config
from translate.data.cache import DataCache
from translate.distributed.process_group import join_world
from translate.memory import configure_memory
from translate.runs.directory import RunDirectory
from translate.runs.log import RunLog
from translate.runs.progress import Progress
from translate.runs.run import SavedRun
from translate.training.preparation import TrainingData, prepare_data
from translate.training.resume import claim_run, start_or_resume
from translate.training.setup import choose_place, log_setup, setup_training
from translate.training.signals import StopRequests, interrupted_together
from translate.training.state import Training
from translate.training.tracking.recorder import Recorder
from translate.training.tracking.trackers import check_trackers
from translate.training.trainer import Trainer

logger = logging.getLogger(__name__)

Inspect = Callable[[TrainingData, int], object]


def train(
    config: Config, directory: Path, *, resume: bool, command: list[str], inspect: Inspect | None = None
) -> Progress:
    """Train as the config says, into a run directory.

    Args:
        resume: Resume the run in that directory; if there is none yet, start one.
        command: The command that the user typed, which the run keeps.
        inspect: Called before a new run is created, with its data and number of trained parameters, such as
            `translate.lint.check.log_findings`; it may raise an InputError.

    Returns:
        The progress at the end of training.

    Raises:
        InputError: The config or the data cannot be used, the directory holds a run and `resume` is off, or another
            process trains there.
        RunError: Something failed during training; checkpoints written so far are intact.
        StoppedBySignal: SIGINT, SIGTERM or SIGHUP was received, and the run is saved. A `KeyboardInterrupt`.
        SystemExit: On a rank > 0, when another rank raises one of these errors.
    """
    configure_memory()
    run = RunDirectory(directory)
    with join_world() as world, contextlib.ExitStack() as held, interrupted_together(world):
        log = RunLog()
        if world.is_main_process:
            held.enter_context(log)
            log.keep(f"translate {__version__}: {shlex.join(command)}")

        # Where to run: services that receive the numbers, device, threads, processes.
        world.run_on_rank_0(lambda: check_trackers(config.training))
        device = choose_place(config, world)

        # What the run is: a new one, or one that is resumed.
        is_resumed, initial = claim_run(config, run, resume=resume, world=world, held=held, log=log)

        # Data: corpora, tokenizers, and batches. The config of the data has a number for their size.
        resumed = SavedRun(directory) if is_resumed else None
        data = prepare_data(config, device=device, world=world, cache=DataCache(), resumed=resumed)

        # Model, and the step that trains it.
        largest = data.batches.largest_batch
        train_step = setup_training(
            data.config, data.tokenizers, device=device, batch_tokens=largest, world=world, initial=initial
        )

        # Inspect what a new run would learn from, before anything of it is written.
        if inspect is not None and not is_resumed:
            num_parameters = train_step.model.num_trained_parameters
            world.run_on_rank_0(lambda: inspect(data, num_parameters))

        # Start or resume.
        training = Training(run, data, train_step, world)
        if not start_or_resume(training, is_resumed=is_resumed, initial=initial, command=command, log=log):
            return training.progress
        log_setup(train_step)

        # Loop: train, validate, save.
        is_silent = not world.is_main_process
        recorder = world.run_on_all_ranks(lambda: Recorder(run, data.config, training.progress, is_silent=is_silent))
        with recorder, StopRequests().listening() as stop:
            trainer = Trainer(training, recorder=recorder, stop=stop)
            trainer.train()

        # End.
        if world.is_main_process:
            step, best = trainer.progress.step, trainer.best.description
            ended = f"Training ended after {step:,} step{'s' * (step != 1)}"
            logger.info(f"{ended}{best and f'; best checkpoint: {best}'}")
            logger.info(f"Next: translate {'eval' if config.data.test else 'decode'} {run.path}")
        return training.progress
