"""Writes docs/config.md from the config's sections: `python docs/config_reference.py`, which `make docs` runs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from translate.config.schema import Config
from translate.config.yaml import dump_scalar

PAGE = Path(__file__).with_name("config.md")
BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
INTRODUCTION = """\
# Config

Made from the code by `make docs`: change the field in `translate/config/`, not this page.

A config is a YAML file with the sections below; `translate train FILE key=value` overrides single keys, such as
`model.d_model=256`. Every key has a default, except where none is given. A config may begin with `extends: NAME`, the
path or preset's name of another config that gives the values left out. A relative path is looked for in `data.root`,
then beside the config that names it, then in the working directory. `translate config show` prints the resolved
config with the source of each value, and `translate config schema` a JSON Schema for editors.
"""


def reference() -> str:
    """Write the whole page."""
    schema = Config.model_json_schema()
    sections = {name: field["$ref"] for name, field in schema["properties"].items() if "$ref" in field}
    corpora = {f"Corpus: {name}": f"#/$defs/{name}Corpus" for name in ("Text", "Tsv", "Table", "Hub")}
    top = {name: field for name, field in schema["properties"].items() if name not in sections}
    lines = [INTRODUCTION, *_table(top, [])]
    for title, place in {**sections, **corpora}.items():
        section = schema["$defs"][place.rpartition("/")[2]]
        lines += ["", f"## {title}", "", section["description"], ""]
        lines += _table(section["properties"], section.get("required", []))
    return "\n".join(lines) + "\n"


def _table(fields: dict[str, Any], required: list[str]) -> Iterator[str]:
    yield "| key | default | values | meaning |"
    yield "|---|---|---|---|"
    for name, field in fields.items():
        default = "" if name in required else f"`{dump_scalar(field['default'])}`"
        meaning = " ".join(field["description"].split()).replace("|", "\\|")
        yield f"| `{name}` | {default} | {_values(field)} | {meaning} |"


def _values(field: dict[str, Any]) -> str:
    """Describe the type, the choices and the bounds of a field."""
    if "anyOf" in field:
        return " or ".join(_values(option) for option in field["anyOf"])
    if "enum" in field or "const" in field:
        return ", ".join(f"`{dump_scalar(value)}`" for value in field.get("enum", [field.get("const")]))
    if "$ref" in field or "oneOf" in field:
        return "a corpus"
    if field["type"] in ("array", "object"):
        return "a list of corpora" if field["type"] == "array" else "corpora by name"
    names = {"integer": "whole number", "number": "number", "string": "text", "boolean": "`true`, `false`"}
    kind = "path" if field.get("format") == "path" else names.get(field["type"], field["type"])
    shown = [f"{sign} {json.dumps(field[name])}" for name, sign in BOUNDS.items() if field.get(name, 2**53) != 2**53]
    return f"{kind} {', '.join(shown)}".strip()


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8", newline="\n")
