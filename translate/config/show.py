"""A config as text: complete for machines, with the source of each value for people, and its JSON Schema."""

import json
from collections.abc import Iterator
from typing import Any

from translate.config.load import LoadedConfig
from translate.config.schema import Config
from translate.config.yaml import dump_scalar, dump_yaml, join_key

_WIDEST_VALUE = 60  # a longer line pushes its own comment to the right, not everyone's


def resolved_yaml(config: Config) -> str:
    """Write the whole config as YAML, defaults included, as a run directory keeps it."""
    return dump_yaml(config.model_dump(mode="json"))


def annotated_yaml(loaded: LoadedConfig) -> str:
    """Write the whole config as YAML, with a comment on each value that says where it was given."""
    lines = list(_annotated_lines(loaded.config.model_dump(mode="json"), "", "", loaded))
    width = min(max(len(text) for text, _ in lines), _WIDEST_VALUE)
    return "".join(f"{text:<{width}}  # {origin}\n" if origin else f"{text}\n" for text, origin in lines)


def _annotated_lines(value: Any, key: str, indent: str, loaded: LoadedConfig) -> Iterator[tuple[str, str]]:
    """Yield lines of YAML, each with its comment; a section's own line has none."""
    is_list = isinstance(value, list)
    for name, item in enumerate(value) if is_list else value.items():
        dotted = join_key(key, str(name))
        start = f"{indent}-" if is_list else f"{indent}{dump_scalar(name)}:"
        if not isinstance(item, dict | list) or not item:
            yield f"{start} {dump_scalar(item)}", str(loaded.origins.get(dotted, "default"))
            continue
        lines = _annotated_lines(item, dotted, f"{indent}  ", loaded)
        if is_list:  # a list's dash takes the place of its first line's indentation
            text, origin = next(lines)
            yield f"{start} {text[len(start) + 1 :]}", origin
        else:
            yield start, ""
        yield from lines


def json_schema() -> str:
    """Write the JSON Schema of a config file, for editors that complete and check YAML."""
    schema = json.loads(json.dumps(Config.model_json_schema()), object_hook=_allow_extension)
    schema["properties"]["extends"] = {
        "type": "string",
        "title": "Extends",
        "description": "Path or preset's name of a config that gives the values that this file leaves out.",
    }
    test_sets = schema["$defs"]["DataConfig"]["properties"]["test"]
    test_sets["additionalProperties"] = False
    for corpus in test_sets["patternProperties"].values():
        corpus["anyOf"].append({"type": "null", "description": "Removes this test set."})
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _allow_extension(part: dict[str, Any]) -> dict[str, Any]:
    """Require nothing: a file that extends another may give any part of a corpus, and several kinds may match."""
    part.pop("required", None)
    if "oneOf" in part:
        part.pop("discriminator", None)
        part["anyOf"] = part.pop("oneOf")
    return part
