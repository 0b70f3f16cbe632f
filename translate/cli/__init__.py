"""Layer 7: commands, options and messages. No logic, and nothing heavy is imported before a command needs it."""

from typing import Annotated

import typer
from typer import Option

from translate.cli import check, decode, evaluate, export, train
from translate.cli.config import config_app
from translate.cli.console import ReportingGroup, run_command_line
from translate.cli.options import GroupedCommand
from translate.cli.show import show_app
from translate.cli.tokenizer import tokenizer_app

app = typer.Typer(
    name="translate", cls=ReportingGroup, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
)
app.command("check")(check.check)
app.command("train")(train.train)
app.command("decode", cls=GroupedCommand)(decode.decode)
app.command("eval", cls=GroupedCommand)(evaluate.evaluate)
app.command("score", cls=GroupedCommand)(decode.score)
app.command("shortlist")(export.shortlist)
app.command("export")(export.export)
app.command("verify")(check.verify)
app.add_typer(tokenizer_app, name="tokenizer")
app.add_typer(config_app, name="config")
app.add_typer(show_app, name="show")


def _print_version(wanted: bool) -> None:
    if wanted:
        from translate.versions import package_versions

        for package, version in package_versions().items():
            typer.echo(f"{package} {version}")
        raise typer.Exit


@app.callback()
def translate(
    version: Annotated[
        bool, Option("--version", callback=_print_version, is_eager=True, help="Print versions and exit.")
    ] = False,
) -> None:
    """Train, decode and score translation models, from raw text to a detokenised BLEU.

    \b
    A first run, on the embedded German-English corpus:
      translate train demo
      echo "Der Hund schläft, weil er müde ist." | translate decode runs/demo
      translate eval runs/demo
    """


def main() -> None:
    """The `translate` command."""
    run_command_line(app)
