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
BeamSize = Annotated[
    int | None,
    typer.Option(
        help="Hypotheses kept for each sentence; 1 is greedy. Default: the run's decoding.beam_size.",
        show_default=False,
    ),
]
LengthPenalty = Annotated[
    float | None,
    typer.Option(
        metavar="A",
        help="Scores are log-probability / ((5 + length) / 6)^A. Default: the run's decoding.length_penalty.",
        show_default=False,
    ),
]
CheckpointOption = Annotated[
    Literal["best", "last"], typer.Option("--checkpoint", help="Weights: the best on validation, or the last.")
]
Device = Annotated[
    str | None, typer.Option(help="cpu, cuda, cuda:N or mps. Default: the run's decoding.device.", show_default=False)
]
InputFile = Annotated[
    Path | None, typer.Argument(help="Text, one sentence a line; standard input without it.", show_default=False)
]
