"""Help in panels with examples, and errors of a command line."""

import copy
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from translate.cli.terminal.options import show_defaults_of
from translate.messages import escaped
from translate.nearest import did_you_mean, nearest

Function = TypeVar("Function", bound=Callable[..., Any])
UsageError: type[Exception] = typer.BadParameter.__mro__[1]  # typer's, or click's with an older typer


class _ReadableHelp:
    """Help that ends with examples, one command per line, and shows no type for flags."""

    def format_help(self: Any, ctx: Any, formatter: Any) -> None:
        """Print the help in panels as wide as the terminal, then the examples, whose lines are never wrapped."""
        shown = copy.copy(self)
        shown.params, shown.add_help_option = [*map(copy.copy, self.get_params(ctx))], False
        text, example, lines = (self.help or "").replace("\b\n", "").partition("\n\nExample")
        shown.help = re.sub(r"(?<!\n)\n(?!\n)", " ", text)
        shown.params[-1].opts = ["--help", "-h"]
        if common := getattr(self.callback, "common_options", None):
            _show_common(shown, common, ctx)
        for parameter in shown.params:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
                names = [*parameter.opts, *(f"\n{name}" for name in parameter.secondary_opts)]  # below, in one column
                parameter.opts, parameter.secondary_opts = names, []
        super(_ReadableHelp, shown).format_help(ctx, formatter)  # type: ignore[misc]
        if example:
            typer.echo(f" {example.strip()}{lines}".replace("\n", "\n "))


def _show_common(shown: Any, common: Sequence[str], ctx: Any) -> None:
    """Show only the common options in a command's help, unless --help-all is given, with the first run's defaults."""
    line = ctx.find_root().command.arguments[1:]
    arguments, _, _ = ctx.command.make_parser(ctx).parse_args([*line])
    run = arguments.get("run") or (arguments.get("runs") or [""])[0]
    whose = run if run and show_defaults_of(Path(run), shown.params) else "a new config; name a run to see its own"
    shown.help += escaped(f"\n\nThe defaults shown are those of {whose}.").replace("[", "\\[")
    shown.params[-1].opts.append("\n--help-all")
    shown.params[-1].help = "Show the common options, or all in groups, and exit."
    if "--help-all" not in line:
        shown.params = [each for each in shown.params if each.name in common or not each.rich_help_panel]
        for parameter in shown.params:
            parameter.rich_help_panel = None


class Command(_ReadableHelp, TyperCommand):
    """A command."""


class CommandGroup(_ReadableHelp, TyperGroup):
    """A group of commands."""


class Commands(typer.Typer):
    """A group of commands with -h and help in panels."""

    def __init__(self, **settings: Any) -> None:
        defaults: dict[str, Any] = {"cls": CommandGroup, "add_completion": False, "no_args_is_help": True}
        names = {"help_option_names": ["--help", "-h", "--help-all"]}
        super().__init__(**defaults | settings, context_settings=names, pretty_exceptions_enable=False)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Function], Function]:
        """Make a function a command."""
        return super().command(name, cls=Command, **settings)


def explain_usage(error: Any) -> str:
    """Print the usage of a command; return the error, with the options or keys that were probably meant."""
    if type(error).__name__ == "NoArgsIsHelpError":  # the help is printed
        raise error
    wrong = getattr(error, "option_name", None)
    message = error.message if wrong else error.format_message()
    message = message.replace("Value error, ", "").replace("Input should", "it should")
    message = message[0].lower() + message[1:].rstrip(".").replace(". Did", "; did")
    if choice := re.search(r"'([^']*)' is not one of (.*)", message):
        from translate.config.errors import suggested_choice

        message += suggested_choice(*choice.groups())
    if error.ctx is None:
        return message
    if wrong:
        parameters = error.ctx.command.get_params(error.ctx)
        meant = nearest(wrong, [name for parameter in parameters for name in parameter.opts if name[:2] == "--"])
        if not meant and any(parameter.name == "overrides" for parameter in parameters):
            from translate.config.errors import nearest_keys

            meant = [f"{key}=…" for key in nearest_keys(wrong.lstrip("-").replace("-", "_"))]
        message += did_you_mean(meant)
    typer.echo(f"{error.ctx.get_usage()}\nTry '{error.ctx.command_path} --help' for help.", err=True)
    return message
