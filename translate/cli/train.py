"""`train`: make a run from a config."""

import logging
import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

from typer import Option

from translate.cli.console import fail_interrupted
from translate.cli.options import ConfigArgument, Overrides
from translate.errors import InputError

logger = logging.getLogger(__name__)


def train(
    config: ConfigArgument,
    overrides: Overrides = None,
    run: Annotated[
        str | None,
        # torchrun would read --run as short for an option of its own.
        Option("--run", "--run-dir", metavar="DIR", help="Directory of the run. Default: runs/NAME."),
    ] = None,
    resume: Annotated[bool, Option("--resume", help="Continue from the last checkpoint, or begin a new run.")] = False,
    profile: Annotated[bool, Option("--profile", help="Profile ten steps into DIR/profile, and train on.")] = False,
) -> None:
    """Train a tokenizer and a model, as a config says, into a run directory.

    \b
    Examples:
      translate train demo
      translate train configs/multi30k.yaml model.d_model=512 training.max_steps=2000 --run runs/wide
      translate train configs/multi30k.yaml --resume
      translate train demo training.max_steps=30 --profile
    """
    from translate.config.load import load_config

    try:
        loaded = load_config(config, overrides or [], require_files=True).config
    except InputError:
        if os.environ.get("WORLD_SIZE", "1") != "1":
            from translate.distributed.process_group import join_world

            # Of several processes with this error one reports it; a process without it meets it in the first agreement
            # of the training, and ends with it.
            with join_world() as world:
                world.run_on_all_ranks(lambda: load_config(config, overrides or [], require_files=True))
        raise
    if run == "":
        raise InputError("--run '': name a directory")
    directory = Path("runs") / loaded.name if run is None else Path(run)
    command = [*_launcher(), *sys.argv[1:]]
    continue_command = shlex.join([*command, *([] if resume else ["--resume"])])
    from translate.lint.check import log_findings
    from translate.training import StoppedBySignal
    from translate.training import train as train_run

    try:
        progress = train_run(loaded, directory, resume=resume, command=command, profile=profile, inspect=log_findings)
    except StoppedBySignal as stop:
        fail_interrupted(stop, f", and saved. Continue with: {continue_command}")
    except KeyboardInterrupt as error:
        fail_interrupted(error, f". Begin again or continue with: {continue_command}")
    best = "" if progress.best_step is None else f"; the best checkpoint is of step {progress.best_step}"
    logger.info(f"Training ended after {progress.step} steps{best}. Next: translate eval {directory}")


def _launcher() -> list[str]:
    """What starts this command: `translate`, or the torchrun that has started it in several processes."""
    if os.environ.get("WORLD_SIZE", "1") == "1":
        return ["translate"]
    machines = os.environ.get("GROUP_WORLD_SIZE", "1")
    processes = os.environ.get("LOCAL_WORLD_SIZE", "1")
    nodes = [] if machines == "1" else ["--nnodes", machines]
    # The command may have --run, which torchrun without `--` takes for an option of its own.
    return ["torchrun", *nodes, "--nproc-per-node", processes, "-m", "--", "translate"]
