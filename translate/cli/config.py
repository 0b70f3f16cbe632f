"""`config show`, `schema` and `presets`: configs before they run."""

import typer

from translate.cli.commands import Commands
from translate.cli.lines import write_lines
from translate.cli.options import ConfigArgument, Overrides

config_app = Commands(help="Look at configs before they run.")


@config_app.command("show")
def show_config(config: ConfigArgument, overrides: Overrides = None) -> None:
    """Print the resolved config with the source of each value.

    Example:
      translate config show multi30k model.d_model=512
    """
    from translate.config.load import load_config
    from translate.config.show import annotated_yaml

    write_lines([annotated_yaml(load_config(config, overrides or [])).removesuffix("\n")], None)


@config_app.command("schema")
def print_schema() -> None:
    """Print the JSON Schema of configs, so that an editor completes and checks them.

    Example:
      translate config schema > translate.schema.json
    """
    from translate.config.show import json_schema

    typer.echo(json_schema(), nl=False)


@config_app.command("presets")
def list_presets() -> None:
    """Print the names of the configs that come with the toolkit.

    Example:
      translate config presets
    """
    from translate.config.load import preset_names

    typer.echo("\n".join(preset_names()))
