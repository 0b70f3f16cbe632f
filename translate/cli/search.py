"""`search`: the settings of a config that train best, tried within a given time."""

import logging
import os
import shlex
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from translate.cli.terminal.console import ConsoleHandler, fail_interrupted
from translate.cli.terminal.options import ConfigArgument, Overrides
from translate.cli.terminal.tables import aligned_columns
from translate.errors import InputError
from translate.messages import escaped


def search(
    config: ConfigArgument,
    space: Annotated[Path, Argument(metavar="SPACE", help="A YAML file: the keys to search, and their choices.")],
    overrides: Overrides = None,
    directory: Annotated[
        Path | None, Option("--dir", metavar="DIR", help="Directory of the search. Default: runs/NAME-search.")
    ] = None,
    strategy: Annotated[
        Literal["random", "halving"],
        Option("--strategy", help="Train all trials to the end, or leave out the worse half again and again."),
    ] = "random",
    trials: Annotated[int, Option("--trials", metavar="N", min=1, help="Number of settings to try.")] = 16,
    minutes: Annotated[
        float | None, Option("--minutes", metavar="N", min=0.0, help="Stop when all trainings have taken so long.")
    ] = None,
    seed: Annotated[int, Option("--seed", metavar="N", min=0, help="Seed of the settings that are tried.")] = 1,
) -> None:
    """Search settings of a config by training with samples of them, and rank these by BLEU on validation.

    SPACE gives each key choices, as model.dropout: [0.1, 0.2], or a range, as training.learning_rate: {low: 5e-4, high:
    5e-3, log: true}.

    Each trial is a run with its own log, DIR/trial-001 and so on. The same command goes on where a search was stopped.

    Examples:
      translate search demo space.yaml --minutes 60
      translate search demo space.yaml --strategy halving --trials 32
      translate train runs/demo-search/best.yaml
    """
    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise InputError("a search trains in one process: start it without torchrun")
    from translate.config.load import load_config
    from translate.config.yaml import shown_path
    from translate.search import Search, read_space

    keys, base = read_space(space), load_config(config, overrides or [], require_files=True).config
    found = Search(
        directory or Path("runs") / f"{base.name}-search",
        base,
        keys,
        strategy=strategy,
        num_trials=trials,
        seed=seed,
        place=shown_path(space),
    )
    for handler in logging.getLogger("translate").handlers:
        if isinstance(handler, ConsoleHandler):  # the logs of the runs have the rest
            handler.addFilter(lambda each: each.name == "translate.search" or each.levelno >= logging.WARNING)
    command = ["translate", *sys.argv[1:]]
    try:
        try:
            found.run(minutes=minutes, command=command)
        finally:
            typer.echo(escaped("\n".join(line[:120] for line in aligned_columns(found.table()))))
    except KeyboardInterrupt as error:
        fail_interrupted(error, f". Go on with: {shlex.join(command)}")
    if found.ranking[0].bleu is not None:  # or nothing is validated yet
        typer.echo(f"The best config is {found.directory / 'best.yaml'}", err=True)
