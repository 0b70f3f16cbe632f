"""Layer 7: commands, flags, printing. No logic, and nothing heavy imported before a command needs it."""

from typing import Annotated

import typer

from translate.cli.checking import check
from translate.cli.configs import config_app
from translate.cli.console import show_messages
from translate.cli.decoding import decode, export, score, shortlist
from translate.cli.running import evaluate, train
from translate.cli.showing import show_app
from translate.cli.tokenizers import tokenizer_app
from translate.cli.verifying import verify

app = typer.Typer(name="translate", no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)
app.command()(check)
app.command()(train)
app.command()(decode)
app.command("eval")(evaluate)
app.command()(score)
app.command()(shortlist)
app.command()(export)
app.command()(verify)
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
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print versions and exit.")
    ] = False,
) -> None:
    """Train, decode and score translation models, from raw text to a detokenised BLEU.

    \b
    A first run, on the embedded German-English corpus:
      translate train demo
      echo "Der Hund schläft, weil er müde ist." | translate decode runs/demo
      translate eval runs/demo
    """
    show_messages(context)


def main() -> None:
    """The `translate` command."""
    app(prog_name="translate")
