"""Layer 7: commands, options and messages. No logic, and nothing heavy is imported before a command needs it."""

from typing import Annotated

import typer
from typer import Option

from translate.cli.check import check as check_command
from translate.cli.check import verify
from translate.cli.config import config_app
from translate.cli.console import ReportingGroup
from translate.cli.decode import decode as decode_command
from translate.cli.decode import score
from translate.cli.evaluate import evaluate as evaluate_command
from translate.cli.export import export as export_command
from translate.cli.export import shortlist
from translate.cli.options import GroupedCommand
from translate.cli.show import show_app
from translate.cli.tokenizer import tokenizer_app
from translate.cli.train import train as train_command

app = typer.Typer(
    name="translate", cls=ReportingGroup, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
)
app.command("check")(check_command)
app.command("train")(train_command)
app.command("decode", cls=GroupedCommand)(decode_command)
app.command("eval", cls=GroupedCommand)(evaluate_command)
app.command("score", cls=GroupedCommand)(score)
app.command("shortlist")(shortlist)
app.command("export")(export_command)
app.command("verify")(verify)
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
    app(prog_name="translate")
