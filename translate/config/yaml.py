"""YAML as people expect it: `1e-4` is a number, `no` is text, a repeated key is an error, every value has a place.

PyYAML follows YAML 1.1; this reader follows the YAML 1.2 core schema where the two differ: `010` is ten, `12:30` and
`2024-01-01` are text. Beyond it, `100_000` is a number, `2e5` (no dot) is an integer, and keys are always text.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from translate.errors import InputError
from translate.files import read_input

_MOST_VALUES = 100_000  # nested aliases can turn a small file into a huge value
_TAG = "tag:yaml.org,2002:"
_SCALARS = (  # implicit scalars: tag, pattern, possible first characters
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", list("tTfF")),
    ("int", r"^[-+]?[0-9][0-9_]*$", list("-+0123456789")),
    ("float", r"^[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", list("-+0123456789.")),
    ("float", r"^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$", list("-+.")),
)


class Origin(NamedTuple):
    """Where a value was given."""

    path: Path | None = None  # None: not from a file, but from `place`
    line: int | None = None  # counted from 1
    place: str = "command line"

    def __str__(self) -> str:
        place = self.place if self.path is None else shown_path(self.path)
        return place if self.line is None else f"{place}:{self.line}"


class Document(NamedTuple):
    """A YAML mapping and the origin of each of its dotted keys."""

    values: dict[str, Any]
    origins: dict[str, Origin]


class _Loader(yaml.SafeLoader):
    """PyYAML's parser without the scalars of YAML 1.1: no yes/no/on/off, sexagesimals, octals, dates, `=`, `<<`."""

    yaml_implicit_resolvers = {}


class _Dumper(yaml.SafeDumper):
    """A writer that quotes text which a YAML 1.1 or 1.2 reader would not read as text."""


for _name, _pattern, _first in _SCALARS:
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(_TAG + _name, re.compile(_pattern), _first)


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = None if text.isprintable() else '"'  # escapes line breaks, among which PyYAML counts U+0085
    return dumper.represent_scalar(f"{_TAG}str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def read_yaml(path: Path, *, dotted_keys: bool = False, may_be_pipe: bool = True) -> Document:
    """Read the mapping of a config file.

    Args:
        dotted_keys: Whether a key may also be written as `section.key`.
        may_be_pipe: Whether to wait for a pipe, such as a shell's `<(…)`.

    Raises:
        InputError: The file cannot be read, is not UTF-8, YAML or a mapping, or repeats a key.
    """
    try:
        text = read_input(path, may_be_pipe=may_be_pipe).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place, wrong = Origin(path, error.object.count(b"\n", 0, error.start) + 1), error.object[error.start]
        raise InputError(f"{place}: the byte 0x{wrong:02x} is not UTF-8; convert the file") from error
    value, origins = parse_yaml(text, path=path, dotted_keys=dotted_keys)
    if not isinstance(value, dict | None):
        what = "a list" if isinstance(value, list) else "one value"
        raise InputError(f"{shown_path(path)}: a config must be a mapping of keys to values, not {what}")
    return Document(value or {}, origins)


def parse_yaml(
    text: str, *, path: Path | None, key: str = "", dotted_keys: bool = False
) -> tuple[Any, dict[str, Origin]]:
    """Parse a YAML text into its value and the origin of each dotted key.

    Args:
        path: File of the text; None: a value on the command line, which has no comment: `a #2` is text as a whole.
        key: Dotted key of the value; empty for a whole file.
        dotted_keys: Whether keys of mappings may have dots.

    Raises:
        InputError: The text is not valid YAML, or repeats a key; the message names the line.
    """
    origins: dict[str, Origin] = {}

    def origin(mark: yaml.Mark | None) -> Origin:
        return Origin(path, mark.line + 1 if path and mark else None)

    def error(mark: yaml.Mark | None, message: str) -> InputError:
        return InputError(f"{origin(mark)}: {'' if path else f'{key}: '}{message}")

    def build(node: yaml.Node, dotted: str) -> Any:
        """Turn a node into its value, and record its origin; an alias becomes a copy."""
        if dotted:  # in a mapping, whose position is already recorded
            origins.setdefault(dotted, origin(node.start_mark))
        if len(origins) > _MOST_VALUES:
            raise error(node.start_mark, f"more than {_MOST_VALUES} values")
        kind = node.tag.removeprefix(_TAG)
        if isinstance(node, yaml.MappingNode) and kind == "map":
            return build_mapping(node, dotted)
        if isinstance(node, yaml.SequenceNode) and kind == "seq":
            return [build(item, join_key(dotted, str(index))) for index, item in enumerate(node.value)]
        if kind not in _READERS or not isinstance(node, yaml.ScalarNode):
            raise error(node.start_mark, f"the tag {node.tag!r} has no meaning in a config")
        try:
            return _READERS[kind](node.value)
        except (ValueError, KeyError) as problem:
            raise error(node.start_mark, f"{node.value[:40]!r} is not a valid {kind}") from problem

    def build_mapping(node: yaml.MappingNode, prefix: str) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            name, mark = key_node.value, key_node.start_mark
            if not isinstance(key_node, yaml.ScalarNode) or not name or not name.isprintable():
                raise error(mark, "a key must be a printable word")
            if "." in name and not dotted_keys:
                raise error(mark, f"the key {name!r} has a dot; write the keys of a section as a mapping below it")
            dotted = join_key(prefix, name)
            if name in values:
                raise error(mark, f"the key {name!r} is given twice{f' (first in {origins[dotted]})' if path else ''}")
            origins[dotted] = origin(mark)
            values[name] = build(value_node, dotted)
        return values

    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if path is None and text[node.end_mark.index if node else 0 :].lstrip().startswith("#"):
            node = yaml.ScalarNode(f"{_TAG}str", text.strip())
        return None if node is None else build(node, key), origins
    except yaml.reader.ReaderError as problem:
        raise error(None, f"not valid YAML: the character {chr(int(problem.character))!r} is not allowed") from problem
    except yaml.MarkedYAMLError as problem:
        reason = ", ".join(part for part in (problem.context, problem.problem) if part)
        raise error(problem.problem_mark, f"not valid YAML: {reason}") from problem
    except (ValueError, OverflowError) as problem:  # of chr()
        raise error(loader.get_mark(), "not valid YAML: this escape is not a Unicode character") from problem
    except RecursionError as problem:
        raise error(None, "nested too deeply, or an alias inside its own value") from problem


def _float(text: str) -> int | float:
    number = float(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))
    is_whole = "." not in text and number.is_integer() and abs(number) < 2**53
    return int(number) if is_whole else number


_READERS: dict[str, Callable[[str], Any]] = {  # by kind of scalar
    "str": lambda text: text.encode().decode(),  # an error for half a surrogate pair, from an escape
    "null": lambda text: None,
    "bool": lambda text: {"true": True, "false": False}[text.lower()],
    "int": lambda text: int(text.replace("_", "")),
    "float": _float,
}


def dump_yaml(value: Any, *, is_short: bool = False) -> str:
    """Write a value as block YAML that `parse_yaml` reads back exactly; if short, with inner mappings on one line."""
    options: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": float("inf")}
    return yaml.dump(value, Dumper=_Dumper, default_flow_style=None if is_short else False, **options)


def dump_scalar(value: Any) -> str:
    """Write a value as YAML on one line."""
    text = yaml.dump(value, Dumper=_Dumper, default_flow_style=True, allow_unicode=True, width=float("inf"))
    return text.removesuffix("\n").removesuffix("\n...")


def join_key(prefix: str, key: str) -> str:
    """Join `model` and `d_model` into `model.d_model`."""
    return f"{prefix}.{key}" if prefix else key


def flatten_keys(value: object, prefix: str = "") -> dict[str, object]:
    """A nested mapping with dotted keys."""
    if not isinstance(value, dict):
        return {prefix: value}
    flat: dict[str, object] = {}
    for name, item in value.items():
        flat |= flatten_keys(item, join_key(prefix, name))
    return flat


def presets_directory() -> Path:
    """The folder of the presets: inside the package in a wheel, next to it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    bundled = package / "bundled" / "configs"
    return bundled if bundled.is_dir() else package.parent / "configs"


def preset_names() -> list[str]:
    """The names of the presets."""
    return sorted(path.stem for path in presets_directory().glob("*.yaml"))


def shown_path(path: Path) -> str:
    """A config's path for messages: relative to the working directory if inside it, otherwise as given; a preset by its
    name."""
    relative = os.path.relpath(path)
    shown = str(path) if relative.split(os.sep)[0] == os.pardir else relative
    if shown == str(presets_directory() / path.name):
        shown = f"preset {path.stem}"
    return shown.encode(errors="backslashreplace").decode()
