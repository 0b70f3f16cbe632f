"""Commands, options and messages: no logic, and no heavy import before a command needs it."""

from collections.abc import Callable
from typing import Annotated

import typer
from typer import Option

from translate.cli import check, decode, evaluate, export, serve, synthetic, train
from translate.cli.average import average
from translate.cli.compare import compare
from translate.cli.config import config_app
from translate.cli.search import search
from translate.cli.show import show_app
from translate.cli.terminal.help import Commands
from translate.cli.terminal.options import split_after_equals
from translate.cli.terminal.process import ReportingGroup, run_command_line
from translate.cli.tokenizer import tokenizer_app

app = Commands(name="translate", cls=ReportingGroup)
_PANELS: dict[str, dict[str, Callable[..., None]]] = {
    "Train": {"check": check.check, "train": train.train, "search": search, "import": export.import_},
    "Translate and evaluate": {
        "decode": decode.decode,
        "eval": evaluate.evaluate,
        "compare": compare,
        "score": decode.score,
        "serve": serve.serve,
    },
    "Build on a run": {
        "average": average,
        "distill": synthetic.distill,
        "backtranslate": synthetic.backtranslate,
        "tune-decode": evaluate.tune_decode,
        "shortlist": export.shortlist,
        "export": export.export,
    },
}
for _panel, _commands in _PANELS.items():
    for _name, _command in _commands.items():
        app.command(_name, rich_help_panel=_panel)(_command)
app.command("verify", rich_help_panel="Inspect")(check.verify)
app.add_typer(show_app, name="show", rich_help_panel="Inspect")
app.add_typer(tokenizer_app, name="tokenizer", rich_help_panel="Inspect")
app.add_typer(config_app, name="config", rich_help_panel="Inspect")


def _print_version(wanted: bool) -> None:
    if wanted:
        from translate._version import package_versions

        for package, version in package_versions().items():
            typer.echo(f"{package} {version}")
        raise typer.Exit


@app.callback()
def translate(
    version: Annotated[
        bool, Option("--version", callback=_print_version, is_eager=True, help="Print versions and exit.")
    ] = False,
) -> None:
    """Train, decode and score translation models, from raw text to detokenised BLEU.

    Example of a first run, on the built-in German-English corpus:
      translate train demo
      echo "Der Hund schläft, weil er müde ist." | translate decode runs/demo
      translate eval runs/demo
    """


def main() -> None:
    """The `translate` command."""
    split_after_equals()
    run_command_line(app)
