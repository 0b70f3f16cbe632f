"""Arguments and options that several commands have."""

from pathlib import Path
from typing import Annotated, Literal

import typer

RunArgument = Annotated[
    Path, typer.Argument(help="A run directory, as `translate train` makes it.", show_default=False)
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(help="key=value in place of the config's, such as model.d_model=256.", show_default=False),
]
CheckpointOption = Annotated[
    Literal["best", "last"], typer.Option("--checkpoint", help="Weights: the best on validation, or the last.")
]
InputFile = Annotated[
    Path | None, typer.Argument(help="Text, one sentence a line; standard input without it.", show_default=False)
]
