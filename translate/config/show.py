"""A config as text: complete for machines, with the source of each value for people; and its JSON Schema."""

import json
import re
import typing
from collections.abc import Container, Iterator
from typing import Any, NamedTuple

from pydantic_core import to_jsonable_python

from translate.config.data import Corpus
from translate.config.errors import nearest_keys
from translate.config.load import LoadedConfig, load_config
from translate.config.schema import Config
from translate.config.section import Section
from translate.config.yaml import Origin, dump_scalar, dump_yaml, join_key, preset_names, presets_directory
from translate.errors import InputError
from translate.files import read_input
from translate.messages import wrap
from translate.nearest import did_you_mean

_WIDEST_VALUE = 60  # a longer line moves only its own comment to the right
_IN_CORPUS = re.compile(
    r"data\.(?:train(?:\.\d+)?|validation(?:\.(?!augment\.)[\w-]+)?|(?:validation_also|test)\.[\w-]+)"
    r"\.(augment\.)?(\w+)"
)
_CORPORA = ("data.train", "data.validation", "data.validation_also", "data.test")
_BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}


class KeyDescription(NamedTuple):
    """Type, default and meaning of a key."""

    default: str | None  # in YAML; None: the key must be given
    values: str  # the type, the choices and the bounds, in Markdown
    meaning: str


class SectionDescription(NamedTuple):
    """Meaning and keys of a section, or of a kind of corpus."""

    meaning: str
    keys: dict[str, KeyDescription]


def resolved_yaml(config: Config) -> str:
    """Write the whole config as YAML, including defaults, as in a run directory."""
    return dump_yaml(config.model_dump(mode="json"))


def annotated_yaml(loaded: LoadedConfig, *, describe: bool = False, is_whole: bool = True) -> str:
    """Write a config as YAML, with the place where each value was given, and the meaning above if wanted.

    If it is not whole, values that equal the defaults are left out, unless a run that is fine-tuned could have others:
    it can be read as a config all the same.
    """
    (config, origins), run = loaded, loaded.config.training.initialize_from
    own = [key for key, origin in origins.items() if run and origin.path != run / "config.yaml"]
    lines = list(_annotated_lines(config, "", "", origins, stated=None if is_whole else {"name", *own}))
    width = min(max(len(text) for text, _, _ in lines), _WIDEST_VALUE)
    written = []
    for text, origin, meaning in lines:
        start = " " * (len(text) - len(text.lstrip())) + "# "
        written += wrap(meaning if describe else "", 100, initial_indent=start, subsequent_indent=start)
        written.append(f"{text:<{width}}  # {origin}" if origin else text)
    return "\n".join(written) + "\n"


def _annotated_lines(
    value: Any, key: str, indent: str, origins: dict[str, Origin], *, stated: Container[str] | None
) -> Iterator[tuple[str, str, str]]:
    """Yield lines of YAML with the meaning of the key, and the origin, which is empty for a section's own line."""
    is_list = isinstance(value, tuple)
    for name, item in enumerate(value) if is_list else dict(value).items():
        dotted, field = join_key(key, str(name)), getattr(type(value), "model_fields", {}).get(name)
        is_default = field and name != "kind" and item == field.get_default(call_default_factory=True)
        if is_default and stated is not None and dotted not in stated and not isinstance(item, Section):
            continue
        meaning = (field and field.description) or ""
        start = f"{indent}-" if is_list else f"{indent}{dump_scalar(name)}:"
        if not isinstance(item, Section | dict | tuple) or not item:
            yield f"{start} {dump_scalar(to_jsonable_python(item))}", str(origins.get(dotted, "default")), meaning
            continue
        lines = list(_annotated_lines(item, dotted, f"{indent}  ", origins, stated=stated))
        if is_list:  # a list's dash takes the place of its first line's indentation
            text, origin, meaning = lines.pop(0)
            yield f"{start} {text[len(start) + 1 :]}", origin, meaning
        elif lines:
            yield start, "", meaning
        yield from lines


def describe_presets() -> list[list[str]]:
    """A table of the presets, with a header: data, size, and the minutes and the score that their files state."""
    rows = [["preset", "data", "model", "minutes", "BLEU"]]
    for name in preset_names():
        text = read_input(presets_directory() / f"{name}.yaml").decode()
        facts = {"data": "–", "minutes": "–", "BLEU": "–"} | dict(re.findall("(?m)^# (data|minutes|BLEU): (.+)$", text))
        rows.append([name, facts["data"], load_config(name).config.model.brief, facts["minutes"], facts["BLEU"]])
    return rows


def json_schema() -> str:
    """Write the JSON Schema of a config file, for editors that complete and check YAML."""
    schema = json.loads(json.dumps(Config.model_json_schema()), object_hook=_allow_extension)
    schema["properties"]["extends"] = {
        "type": "string",
        "title": "Extends",
        "description": "Path or preset name of a config that supplies the values left out here.",
    }
    data = schema["$defs"]["DataConfig"]["properties"]
    train = data["train"]
    train["anyOf"] = [{"type": train.pop("type"), "items": (corpus := train.pop("items"))}, corpus]
    for by_name in (data["validation"]["anyOf"][0]["anyOf"][1], data["validation_also"], data["test"]):
        by_name["additionalProperties"] = False
        for corpus in by_name["patternProperties"].values():
            corpus["anyOf"].append({"type": "null", "description": "Removes this corpus."})
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _allow_extension(part: dict[str, Any]) -> dict[str, Any]:
    """Require nothing: a file that extends another may give any part of a corpus, which may match several kinds."""
    part.pop("required", None)
    if "oneOf" in part:
        part.pop("discriminator", None)
        part["anyOf"] = part.pop("oneOf")
    return part


def describe_sections() -> dict[str, SectionDescription]:
    """Describe the sections by key, and each kind of corpus, such as `Text corpus`; "" has the keys outside sections.

    `augment` is a section of a corpus.
    """
    schema = Config.model_json_schema()
    places = {name: field["$ref"].rpartition("/")[2] for name, field in schema["properties"].items() if "$ref" in field}
    corpora = [corpus.__name__ for corpus in typing.get_args(typing.get_args(Corpus)[0])]
    top = {name: field for name, field in schema["properties"].items() if name not in places}
    parts = {"": {**schema, "properties": top}, **{title: schema["$defs"][name] for title, name in places.items()}}
    parts |= {f"{name.removesuffix('Corpus')} corpus": schema["$defs"][name] for name in corpora}
    parts["augment"] = schema["$defs"]["Augmentation"]
    sections = {}
    for title, part in parts.items():
        keys = {}
        for name, field in part["properties"].items():
            default = None if name in part.get("required", []) else dump_scalar(field["default"])
            keys[name] = KeyDescription(default, _values(field), " ".join(field["description"].split()))
        sections[title] = SectionDescription(part["description"], keys)
    return sections


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


def describe(key: str, *, width: int) -> str:
    """Describe a key, a section with its keys or, for an empty key, everything.

    Raises:
        InputError: There is no such key; the message names similar ones.
    """
    sections = describe_sections()
    in_corpus = _IN_CORPUS.fullmatch(key)

    def is_meant(title: str, name: str) -> bool:
        if in_corpus:
            return name == in_corpus[2] and (title == "augment" if in_corpus[1] else title.endswith(" corpus"))
        if title.endswith(" corpus"):
            return key in ("", *_CORPORA)
        return key in ("", title, join_key(title, name))

    shown = [(title, name) for title, section in sections.items() for name in section.keys if is_meant(title, name)]
    if in_corpus:  # once, if it is the same in several kinds of corpora
        shown = [*{sections[title].keys[name]: (title, name) for title, name in reversed(shown)}.values()]
    if not shown:
        raise InputError(f"unknown key {key}{did_you_mean(nearest_keys(key))}")
    lines: list[str] = []
    for number, (title, name) in enumerate(shown):
        if len(shown) > 1 and (number == 0 or shown[number - 1][0] != title):
            lines += ["", *wrap(f"{title or 'Config'}: {sections[title].meaning}", width), ""]
        default, values, meaning = sections[title].keys[name]
        full_key = key if in_corpus else join_key("" if title.endswith(" corpus") else title, name)
        given = "must be given" if default is None else f"default: {default}"
        lines += wrap(f"{full_key}: {values.replace('`', '')}; {given}", width, subsequent_indent="    ")
        lines += wrap(meaning, width, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(lines).strip("\n")
