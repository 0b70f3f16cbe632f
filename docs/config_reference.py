"""Writes docs/config.md from the config's sections: `python docs/config_reference.py`, which `make docs` runs."""

import json
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from translate.config.data import Corpus
from translate.config.schema import Config
from translate.config.yaml import dump_scalar

PAGE = Path(__file__).with_name("config.md")
_BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
INTRODUCTION = """\
# Config

Made from the code by `make docs`: change the field in `translate/config/`, not this page.

A config is a YAML file with the sections below; `translate train FILE key=value` overrides single keys, such as
`model.d_model=256`. Every key has a default, except where none is given. A config may begin with `extends: NAME`, the
preset name or path of another config, which gives the values that are left out, except its `name`. A bare name, such as
`demo`, is a preset; a path has a slash or a suffix, such as `./demo` or `demo.yaml`. A relative path is
looked up in `data.root`, then in the folder of the config that names it, then in the working directory. `translate
config show` prints the resolved config with the source of each value, and with `--describe` the meaning of each key.

`translate init` writes a config for your text. Writing one by hand takes a few lines:

```yaml
# mine.yaml
extends: multi30k           # start from a preset: its model and its training settings
data:
  train: [{kind: text, source: train.de, target: train.en}]
  validation: {kind: text, source: valid.de, target: valid.en}
  test: {news: {kind: text, source: news.de, target: news.en}, test_2016_flickr: null}
tokenizer:
  vocab_size: 3000          # `translate check` warns if that is too many for your text
```
"""


def reference() -> str:
    """Write the whole page."""
    schema = Config.model_json_schema()
    definitions, keys = schema["$defs"], schema["properties"]
    sections = {name: field["$ref"].rpartition("/")[2] for name, field in keys.items() if "$ref" in field}
    kinds = [corpus.__name__ for corpus in typing.get_args(typing.get_args(Corpus)[0])]
    sections |= {f"{name.removesuffix('Corpus')} corpus": name for name in kinds} | {"augment": "Augmentation"}
    lines = [INTRODUCTION, *_table({"properties": {name: keys[name] for name in keys if name not in sections}})]
    for title, name in sections.items():
        lines += ["", f"## {title}", "", definitions[name]["description"], "", *_table(definitions[name])]
    return "\n".join(lines) + "\n"


def _table(section: dict[str, Any]) -> Iterator[str]:
    yield "| key | default | values | meaning |"
    yield "|---|---|---|---|"
    for name, field in section["properties"].items():
        default = "" if name in section.get("required", []) else f"`{dump_scalar(field['default'])}`"
        meaning = " ".join(field["description"].split()).replace("|", "\\|")
        yield f"| `{name}` | {default} | {_values(field)} | {meaning} |"


def _values(field: dict[str, Any]) -> str:
    """Describe type, choices and bounds of a field."""
    if options := field.get("anyOf") or ("discriminator" not in field and field.get("oneOf")):
        return " or ".join(map(_values, options))
    if "enum" in field or "const" in field:
        return ", ".join(f"`{dump_scalar(value)}`" for value in field.get("enum", [field.get("const")]))
    if "$ref" in field or "oneOf" in field:
        return "the keys of `augment`" if field.get("$ref") == "#/$defs/Augmentation" else "a corpus"
    if field["type"] == "array":
        items = field["items"]
        kinds = {"array": "lists of numbers", "string": "texts"}
        return f"a list of {_values(items) if 'enum' in items else kinds.get(items.get('type'), 'corpora')}"
    if field["type"] == "object":
        return "corpora by name" if "discriminator" in str(field) else "texts by name"
    names = {"integer": "whole number", "number": "number", "string": "text", "boolean": "`true`, `false`"}
    kind = "path" if field.get("format") == "path" else names.get(field["type"], field["type"])
    shown = [f"{sign} {json.dumps(field[name])}" for name, sign in _BOUNDS.items() if field.get(name, 2**53) != 2**53]
    return f"{kind} {', '.join(shown)}".strip()


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8", newline="\n")
