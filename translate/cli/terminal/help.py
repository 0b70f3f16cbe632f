"""Help in panels with examples, and errors of a command line."""

import copy
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

Function = TypeVar("Function", bound=Callable[..., Any])
UsageError: type[Exception] = typer.BadParameter.__mro__[1]  # typer's, or click's with an older typer


class _Strict:
    """An option that takes one value is given once: of two values, the last would win without a word."""

    def make_parser(self: Any, ctx: Any) -> Any:
        """Make a parser that refuses such an option if it is given twice."""
        parser = super().make_parser(ctx)  # type: ignore[misc]
        parse = parser.parse_args

        def parse_once(args: list[str]) -> Any:
            values, rest, order = parse(args=args)
            twice = [option for option in order if order.count(option) > 1 and not getattr(option, "multiple", True)]
            if twice and not ctx.resilient_parsing and not any(option.is_eager for option in order):
                names = " or ".join([*twice[0].opts, *twice[0].secondary_opts])
                raise UsageError(f"{names} is given several times, but has one value: give it once", ctx)
            return values, rest, order

        parser.parse_args = parse_once
        return parser


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
    """Show only the common options in a command's help, unless --help-all is given."""
    shown.help += "\n\nA run's own settings take the place of the defaults that are shown."
    shown.params[-1].opts.append("\n--help-all")
    shown.params[-1].help = "Show the common options, or all in groups, and exit."
    if "--help-all" not in ctx.find_root().command.arguments[1:]:
        shown.params = [option for option in shown.params if option.name in common or not option.rich_help_panel]
        for option in shown.params:
            option.rich_help_panel = None


class Command(_Strict, _ReadableHelp, TyperCommand):
    """A command."""


class CommandGroup(_Strict, _ReadableHelp, TyperGroup):
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
    """Print the usage of a command, and return the error."""
    if type(error).__name__ == "NoArgsIsHelpError":  # the help is printed
        raise error
    message = error.format_message().replace("Value error, ", "").replace("Input should", "it should")
    message = message[0].lower() + message[1:].rstrip(".").replace(". Did", "; did")
    if error.ctx is not None:
        typer.echo(f"{error.ctx.get_usage()}\nTry '{error.ctx.command_path} --help' for help.", err=True)
    return message
