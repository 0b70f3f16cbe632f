"""`config show` and `presets`: show and explain configs."""

from typing import Annotated

from typer import Option

from translate.cli.terminal.help import Commands
from translate.cli.terminal.lines import aligned_columns, print_result, write_lines
from translate.cli.terminal.options import ConfigArgument, JsonOption, Overrides

config_app = Commands(help="Show and explain configs.")


@config_app.command("show")
def show_config(
    config: ConfigArgument,
    overrides: Overrides = None,
    with_meanings: Annotated[bool, Option("--describe", help="Print the meaning of each key above it.")] = False,
    changed: Annotated[bool, Option("--changed", help="Print only what differs from the defaults.")] = False,
) -> None:
    """Print the resolved config with the source of each value.

    Examples:
      translate config show multi30k model.d_model=512
      translate config show runs/demo --changed
      translate config show demo --describe
    """
    from translate.config.load import load_config
    from translate.config.show import annotated_yaml

    loaded = load_config(config, overrides or [])
    write_lines([annotated_yaml(loaded, describe=with_meanings, is_whole=not changed)[:-1]], None)


@config_app.command("presets")
def list_presets(as_json: JsonOption = False) -> None:
    """Print the preset configs: their data, the size of the model, minutes on a CPU, and BLEU on the test set.

    A dash means not measured. The page on recipes describes the conditions.

    Example:
      translate config presets
    """
    from translate.config.show import describe_presets

    header, *rows = describe_presets()
    document = {"presets": [dict(zip(header, row, strict=True)) for row in rows]}
    print_result("\n".join(aligned_columns([header, *rows])), document, as_json=as_json)
