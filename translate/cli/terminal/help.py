"""Help in panels with examples, and errors of a command line."""

import re
from collections.abc import Callable
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from translate.nearest import did_you_mean, nearest

Function = TypeVar("Function", bound=Callable[..., Any])
UsageError: type[Exception] = typer.BadParameter.__mro__[1]  # typer's, or click's with an older typer


class _ReadableHelp:
    """Help that ends with examples, one command per line, and shows no type for flags."""

    help: str | None

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help in panels as wide as the terminal, then the examples, whose lines are never wrapped."""
        for parameter in self.get_params(ctx):  # type: ignore[attr-defined]
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
                parameter.opts += [f"\n{name}" for name in parameter.secondary_opts]  # below, not in its own column
                parameter.secondary_opts = []
        whole = self.help or ""
        text, example, lines = whole.replace("\b\n", "").partition("\n\nExample")
        self.help = re.sub(r"(?<!\n)\n(?!\n)", " ", text)
        super().format_help(ctx, formatter)  # type: ignore[misc]
        self.help = whole
        if example:
            typer.echo(f" {example.strip()}{lines}".replace("\n", "\n "))


class Command(_ReadableHelp, TyperCommand):
    """A command."""


class CommandGroup(_ReadableHelp, TyperGroup):
    """A group of commands."""


class Commands(typer.Typer):
    """A group of commands with -h and help in panels."""

    def __init__(self, **settings: Any) -> None:
        defaults: dict[str, Any] = {"cls": CommandGroup, "add_completion": False, "no_args_is_help": True}
        names = {"help_option_names": ["--help", "-h"]}
        super().__init__(**defaults | settings, context_settings=names, pretty_exceptions_enable=False)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Function], Function]:
        """Make a function a command."""
        return super().command(name, cls=Command, **settings)


def explain_usage(error: Any) -> str:
    """Print the usage of a command; return the error, with the options or keys that were probably meant."""
    if type(error).__name__ == "NoArgsIsHelpError":  # the help is printed
        raise error
    wrong = getattr(error, "option_name", None)
    message = error.message if wrong else error.format_message().replace("Value error, ", "")
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
