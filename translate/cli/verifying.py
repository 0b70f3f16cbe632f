"""The command `verify`: whether a run directory is as it was written."""

import json
from typing import Annotated

import typer

from translate.cli.options import RunArgument


def verify(
    run: RunArgument,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, for machines.")] = False,
) -> None:
    """Compare every file of a run with its checksum, and report what is missing, damaged or does not belong.

    Exit code 0: sound; 1: not; 2: no run.

    \b
    Examples:
      translate verify runs/demo
      translate verify runs/demo --json
    """
    from translate.runs.verify import verify_run

    result = verify_run(run)
    if as_json:
        values = {
            "run": str(run),
            "sound": result.is_sound,
            "version": result.writer,
            "created": result.created,
            "format": result.run_format,
            "files": [file._asdict() for file in result.files],
        }
        typer.echo(json.dumps(values, indent=2, ensure_ascii=False))
    else:
        when = f" on {result.created[:10]}" if result.created else ""
        by = "an unknown version" if result.writer is None else f"translate {result.writer}{when}"
        typer.echo(f"{run}: written by {by}\n")
        width = max(len(file.name) for file in result.files)
        for file in result.files:
            typer.echo(f"  {file.state:<11}  {file.name:<{width}}  {file.detail}".rstrip())
        typer.echo(f"\n{result.summary}")
    if not result.is_sound:
        raise typer.Exit(1)
