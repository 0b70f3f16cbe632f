"""`search`: try settings of a config, and rank the runs."""

import functools
import shlex
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from translate.cli.terminal.console import fail_interrupted, show_only
from translate.cli.terminal.lines import aligned_columns, print_result
from translate.cli.terminal.options import ConfigArgument, IgnoreErrors, JsonOption, Overrides, is_alone
from translate.errors import InputError, import_extra


def search(
    config: ConfigArgument,
    space: Annotated[Path, Argument(metavar="SPACE", help="A YAML file: the keys to search, and their choices.")],
    overrides: Overrides = None,
    directory: Annotated[Path | None, Option("--dir", metavar="DIR", help="Default: runs/NAME-search.")] = None,
    sampler: Annotated[Literal["tpe", "random"], Option(help="TPE learns from earlier trials.")] = "tpe",
    pruner: Annotated[Literal["none", "halving", "hyperband"], Option(help="Stop worse trials early.")] = "none",
    trials: Annotated[int, Option("--trials", metavar="N", min=1, max=10_000, help="Number of settings to try.")] = 16,
    minutes: Annotated[
        float | None, Option(metavar="N", min=0.0, max=1e7, help="Stop after N minutes of training.")
    ] = None,
    seed: Annotated[int, Option("--seed", metavar="N", min=0, max=2**31, help="Seed of the sampler.")] = 1,
    ignore_errors: IgnoreErrors = False,
    as_json: JsonOption = False,
) -> None:
    """Try settings of a config, and rank the runs by BLEU on validation.

    SPACE gives each key choices, as in model.dropout: [0.1, 0.2], or a range, as in training.learning_rate: {low: 5e-4,
    high: 5e-3, log: true}.

    Each trial is a separate run, DIR/trial-001 and so on. The same command continues a search that was stopped, and
    several processes can run it at the same time. Needs Optuna, which the extra `search` installs.

    Examples:
      translate search demo space.yaml --minutes 60
      translate search demo space.yaml --pruner halving --trials 32
      translate train runs/demo-search/best.yaml
    """
    if not is_alone():
        raise InputError("a search trains in one process: start it without torchrun")
    from translate.config.load import load_config
    from translate.config.yaml import shown_path
    from translate.files import require_file

    require_file(space, may_be_pipe=True)
    base = load_config(config, overrides or [], require_files=True).config
    import_extra("optuna", needed_by="a search")
    from translate.lint.check import log_findings
    from translate.training.search import Search, read_space

    directory = directory or Path("runs") / f"{base.name}-search"
    study = Search(directory, base, read_space(space), pruner=pruner, place=shown_path(space))
    show_only("translate.training.search")  # everything else is in the runs' logs
    command = ["translate", *sys.argv[1:]]
    inspect = functools.partial(log_findings, ignore_errors=ignore_errors)
    try:
        try:
            study.run(num_trials=trials, sampler=sampler, seed=seed, minutes=minutes, command=command, inspect=inspect)
        finally:
            header, *rows = study.write()
            best, results = study.best(), [dict(zip(header, row, strict=True)) for row in rows]
            table = "\n".join(line[:120] for line in aligned_columns([header, *rows]))
            print_result(table, {"trials": results, "best": best and best.run}, as_json=as_json)
    except KeyboardInterrupt as error:
        fail_interrupted(error, f". Continue with: {shlex.join(command)}")
    where = "" if study.best() is None else f"; its config is {directory / 'best.yaml'}"
    typer.echo(f"{study.verdict()}{where}", err=True)
