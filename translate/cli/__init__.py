"""Commands, options and messages: no logic, and no heavy import before a command needs it."""

import importlib
from typing import Annotated, Any

import typer
from typer import Option

from translate.cli.terminal.help import Commands
from translate.cli.terminal.process import ReportingGroup, run_command_line

_PANELS = {  # help panels, with the location of each command's function or group
    "Train": {
        "init": "init.init",
        "check": "check.check",
        "clean": "check.clean",
        "train": "train.train",
        "import": "export.import_",
    },
    "Translate and evaluate": {
        "decode": "decode.decode",
        "eval": "evaluate.evaluate",
        "compare": "compare.compare",
        "score": "decode.score",
        "serve": "serve.serve",
    },
    "Build on a run": {
        "average": "average.average",
        "distill": "synthetic.distill",
        "backtranslate": "synthetic.backtranslate",
        "tune-decode": "evaluate.tune_decode",
        "export": "export.export",
    },
    "Inspect": {
        "runs": "runs.runs",
        "info": "runs.info",
        "verify": "runs.verify",
        "show": "show.show_app",
        "tokenizer": "tokenizer.tokenizer_app",
        "config": "config.config_app",
    },
}


class _LazyGroup(ReportingGroup):
    """All commands; the module of each is imported when the command is run or its help is shown."""

    commands: dict[str, Any]

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = dict.fromkeys(name for places in _PANELS.values() for name in places)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of this name, or None."""
        for panel, places in _PANELS.items():
            if cmd_name in places and self.commands[cmd_name] is None:
                module, _, name = places[cmd_name].partition(".")
                found = getattr(importlib.import_module(f"translate.cli.{module}"), name)
                if not isinstance(found, Commands):
                    function, found = found, Commands()
                    found.command()(function)
                command: Any = typer.main.get_command(found)
                command.name, command.rich_help_panel = cmd_name, panel
                self.commands[cmd_name] = command
        return self.commands.get(cmd_name)


app = Commands(name="translate", cls=_LazyGroup, add_completion=True)


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
    run_command_line(app)
