"""`train`: train a run from a config."""

import functools
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from translate.cli.terminal.console import fail_interrupted
from translate.cli.terminal.options import ConfigArgument, IgnoreErrors, Overrides, is_alone
from translate.errors import InputError

if TYPE_CHECKING:
    from translate.config.schema import Config


def train(
    config: ConfigArgument,
    overrides: Overrides = None,
    run: Annotated[
        str | None,
        # torchrun would read --run as an abbreviation of one of its own options.
        Option("--run", "--run-dir", metavar="DIR", help="Directory of the run. Default: runs/NAME, or the given run."),
    ] = None,
    resume: Annotated[bool, Option("--resume", help="Continue from the last checkpoint, or start a new run.")] = False,
    ignore_errors: IgnoreErrors = False,
) -> None:
    """Train a tokenizer and a model from a config, into a run directory.

    The data and settings are checked first; errors end the command with exit code 2, before anything is written.

    To continue a run, give its directory instead of a config, and --resume. A bare name, such as demo, is a preset; a
    path has a slash or a suffix, such as runs/demo, ./demo or demo.yaml.

    Examples:
      translate train demo
      translate train configs/multi30k.yaml model.d_model=512 --run runs/wide
      translate train runs/wide --resume
      translate train runs/wide --resume training.max_steps=4000
      translate train mine.yaml training.initialize_from=runs/wide
    """
    from translate.config.load import as_path, load_config
    from translate.runs.directory import check_holds_no_run

    def read() -> tuple[Path, "Config"]:
        named = _find_run(config, run, resume=resume)
        loaded = load_config(config, overrides or [], require_files=True).config
        directory = named or Path("runs") / loaded.name
        if not resume and is_alone():  # before torch is imported
            check_holds_no_run(directory)
        return directory, loaded

    try:
        directory, loaded = read()
    except Exception:
        if not is_alone():
            from translate.distributed.process_group import join_world

            # If several processes have this error, one reports it. Processes without it fail when the processes first
            # agree, at the start of training.
            with join_world() as world:
                world.run_on_all_ranks(read)
        raise
    command = ["translate", *sys.argv[1:]]
    from translate.lint.check import log_findings
    from translate.training import StoppedBySignal
    from translate.training import train as train_run

    try:
        inspect = functools.partial(log_findings, ignore_errors=ignore_errors)
        train_run(loaded, directory, resume=resume, command=command, inspect=inspect)
    except StoppedBySignal as stop:
        short = shlex.join(["translate", "train", as_path(directory), "--resume"])
        fail_interrupted(stop, f", and saved. Continue{'' if is_alone() else ' under torchrun'} with: {short}")
    except KeyboardInterrupt as error:
        again = shlex.join([*command, *([] if resume else ["--resume"])])  # perhaps there is no run yet
        fail_interrupted(error, f". Start again or continue with: {again}")


def _find_run(config: str, run: str | None, *, resume: bool) -> Path | None:
    """The directory that the command line names: a run in place of a config, or --run; None if neither.

    Raises:
        InputError: A run was given without --resume, the two differ, or a preset and a run here have the name.
    """
    from translate.config.load import is_run, names_run
    from translate.config.yaml import preset_names

    if not names_run(config):
        if resume and run is None and is_run(config) and config in preset_names():
            both = f"`translate train ./{config} --resume`, or --run runs/{config} for the preset"
            raise InputError(f"{config} is a preset, and a run here has its name: write {both}")
        return None if run is None else Path(run)
    named = Path(config)
    if run is not None and os.path.realpath(run) != os.path.realpath(named):
        begin = f"translate train {named / 'config.yaml'} --run {run}"
        raise InputError(f"{named} is a run, and --run {run} is another: leave out --run, or start a new run: {begin}")
    if not resume:
        raise InputError(f"{config} is a run: continue it with `translate train {config} --resume`")
    return named
