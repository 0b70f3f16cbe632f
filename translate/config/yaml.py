"""YAML as people expect it: `1e-4` is a number, `no` is text, a key said twice is an error; and where each value stood.

PyYAML follows YAML 1.1; this reader follows the YAML 1.2 core schema where the two differ: `010` is ten, `12:30` and
`2024-01-01` are text. Beyond it, `100_000` is a number, `2e5` (no dot) is an integer, and keys are always text.
"""

import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from translate.errors import InputError

COMMAND_LINE = "command line"
_MOST_VALUES = 100_000  # aliases of aliases can make a small file a huge value
_MOST_BYTES = 250_000
_DEEPEST = 50
_TAG = "tag:yaml.org,2002:"
_SCALARS = (  # the implicit scalars: tag, pattern, possible first characters
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", list("tTfF")),
    ("int", r"^[-+]?[0-9][0-9_]*$", list("-+0123456789")),
    ("float", r"^[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", list("-+0123456789.")),
    ("float", r"^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$", list("-+.")),
)


class Origin(NamedTuple):
    """Where a value was given."""

    place: str  # a file's path, "command line" or "default"
    line: int | None = None  # counted from 1
    directory: Path | None = None  # what relative paths in it may be relative to

    def __str__(self) -> str:
        return self.place if self.line is None else f"{self.place}:{self.line}"


class Document(NamedTuple):
    """A YAML mapping and the origin of each of its dotted keys."""

    values: dict[str, Any]
    origins: dict[str, Origin]


class _Loader(yaml.SafeLoader):
    """PyYAML's parser without 1.1's table of scalars: no yes/no/on/off, sexagesimals, octals, dates, `=`, `<<`."""

    yaml_implicit_resolvers = {}


class _Dumper(yaml.SafeDumper):
    """Quotes text that this reader or a YAML 1.1 reader would take for something else."""


for _name, _pattern, _first in _SCALARS:
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(_TAG + _name, re.compile(_pattern), _first)


def read_yaml(path: Path) -> Document:
    """A config file's mapping.

    Raises:
        InputError: The file cannot be read, is no UTF-8, no YAML, no mapping, or says a key twice; with the line.
    """
    place = shown_path(path)
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise InputError(f"{place}: is no config: it has more than {_MOST_BYTES:,} bytes")
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before, wrong = error.object[: error.start], error.object[error.start]
        line, byte = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
        raise InputError(
            f"{place}:{line}: byte {byte} of the line (0x{wrong:02x}) is not UTF-8; convert the file"
        ) from error
    except OSError as error:
        raise InputError(f"{place}: cannot be read: {error.strerror}") from error
    value, origins = parse_yaml(text, path=path)
    if value is None:
        value = {}
    if not isinstance(value, dict):
        what = "a list" if isinstance(value, list) else "one value"
        raise InputError(f"{place}: a config is a mapping of keys to values, not {what}")
    return Document(value, origins)


def parse_yaml(text: str, *, path: Path | None, key: str = "") -> tuple[Any, dict[str, Origin]]:
    """The value that a YAML text stands for, and the origin of each dotted key in it.

    Args:
        path: The file that the text is from; None for the command line.
        key: The dotted key that the value is for; empty for a whole file.

    Raises:
        InputError: Invalid YAML or a repeated key, with the line.
    """
    builder = _Builder(path, key)
    try:
        node = _Loader(text).get_single_node()
        value = None if node is None else builder.build(node, key, ())
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position)
        raise builder.error(line, f"not valid YAML: the character {chr(int(error.character))!r}") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line if error.problem_mark else 0
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        raise builder.error(line, f"not valid YAML: {reason}") from error
    except RecursionError as error:
        raise builder.error(0, "nested too deeply") from error
    return value, builder.origins


class _Builder:
    """Turns parsed nodes into values and notes the origin of each; an alias becomes a copy."""

    def __init__(self, path: Path | None, key: str) -> None:
        self.key = key
        self.place = COMMAND_LINE if path is None else shown_path(path)
        self.directory = None if path is None else path.resolve().parent
        self.origins: dict[str, Origin] = {}

    def build(self, node: yaml.Node, key: str, ancestors: tuple[yaml.Node, ...]) -> Any:
        if key:
            # A scalar or sequence stands where its key stands, which the mapping has noted already.
            self.origins.setdefault(key, self._origin(node))
        if any(node is ancestor for ancestor in ancestors):
            raise self.error(node, f"{key} is an alias of what it stands in, and so would be endless")
        if len(ancestors) > _DEEPEST:
            raise self.error(node, "nested too deeply")
        if len(self.origins) > _MOST_VALUES:
            raise self.error(node, f"more than {_MOST_VALUES} values")
        ancestors = (*ancestors, node)
        if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
            return self._mapping(node, key, ancestors)
        if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            return [self.build(item, join_key(key, str(index)), ancestors) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        raise self.error(node, f"the tag {node.tag!r} has no meaning in a config")

    def _mapping(self, node: yaml.MappingNode, prefix: str, ancestors: tuple[yaml.Node, ...]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        first_lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            key, line = key_node.value, key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode) or not key:
                raise self.error(key_node, "a key must be a word")
            if "." in key:
                raise self.error(key_node, f"the key {key!r} has a dot; in a mapping, write a section's keys below it")
            if key in values:
                where = f" (first in line {first_lines[key]})" if self.directory else ""
                raise self.error(key_node, f"the key {key!r} is given twice{where}")
            first_lines[key] = line
            dotted = join_key(prefix, key)
            self.origins[dotted] = self._origin(key_node)
            values[key] = self.build(value_node, dotted, ancestors)
        return values

    def _scalar(self, node: yaml.ScalarNode) -> None | bool | int | float | str:
        text = node.value
        try:
            match node.tag.removeprefix(_TAG):
                case "str":
                    text.encode()  # an escape can make half of a surrogate pair
                    return str(text)
                case "null":
                    return None
                case "bool":
                    return {"true": True, "false": False}[text.lower()]
                case "int":
                    return int(text.replace("_", ""))
                case "float":
                    return _float(text)
        except (ValueError, KeyError) as error:
            raise self.error(node, f"{text[:40]!r} is no valid {node.tag.removeprefix(_TAG)}") from error
        raise self.error(node, f"the tag {node.tag!r} has no meaning in a config")

    def error(self, at: yaml.Node | int, message: str) -> InputError:
        """An error at a node or at a line, counted from 0."""
        line = at if isinstance(at, int) else at.start_mark.line
        where = f"{self.place}: {self.key}" if self.directory is None else f"{self.place}:{line + 1}"
        return InputError(f"{where}: {message}")

    def _origin(self, node: yaml.Node) -> Origin:
        line = node.start_mark.line + 1 if self.directory is not None else None
        return Origin(self.place, line, self.directory)


def _float(text: str) -> int | float:
    number = float(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))
    is_whole = "." not in text and number.is_integer() and abs(number) < 2**53
    return int(number) if is_whole else number


def dump_yaml(value: Any) -> str:
    """A value as block YAML that `parse_yaml` reads back exactly."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=float("inf"))


def dump_scalar(value: Any) -> str:
    """A number, text, null, or empty list or mapping as YAML on one line."""
    for style in (None, '"'):
        text = yaml.dump(value, Dumper=_Dumper, default_style=style, allow_unicode=True, width=float("inf"))
        text = text.removesuffix("\n").removesuffix("\n...")
        if "\n" not in text:
            break
    return text


def join_key(prefix: str, key: str) -> str:
    """`model` and `d_model` make `model.d_model`."""
    return f"{prefix}.{key}" if prefix else key


def shown_path(path: Path) -> str:
    """A path as messages say it: relative to the working directory if it is in there, else absolute."""
    absolute = os.path.abspath(path)
    relative = os.path.relpath(absolute)
    return absolute if relative.split(os.sep)[0] == os.pardir else relative
