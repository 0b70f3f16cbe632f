"""`config show`, `schema` and `presets`: configs before they run."""

from typing import Annotated

import typer

from translate.cli.console import reports_errors
from translate.cli.options import Overrides

config_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Look at configs before they run.")


@config_app.command("show")
@reports_errors
def show_config(
    config: Annotated[str, typer.Argument(help="A config file, or a preset's name.", show_default=False)],
    overrides: Overrides = None,
) -> None:
    """Print the resolved config with the source of each value.

    \b
    Example:
      translate config show multi30k model.d_model=512
    """
    from translate.config import load_config
    from translate.config.show import annotated_yaml

    typer.echo(annotated_yaml(load_config(config, overrides or [])), nl=False)


@config_app.command("schema")
@reports_errors
def print_schema() -> None:
    """Print the JSON Schema of configs, so that an editor completes and checks them.

    \b
    Example:
      translate config schema > translate.schema.json
    """
    from translate.config.show import json_schema

    typer.echo(json_schema(), nl=False)


@config_app.command("presets")
@reports_errors
def list_presets() -> None:
    """Print the names of the configs that come with the toolkit.

    \b
    Example:
      translate config presets
    """
    from translate.config.files import preset_names

    for name in preset_names():
        typer.echo(name)
