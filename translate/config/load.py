"""From a YAML file and overrides to a `Config`, remembering where each value came from so that errors can say it."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from translate.config.explain import explain
from translate.config.paths import find_files
from translate.config.presets import find_config
from translate.config.sections import Config
from translate.config.yaml import COMMAND_LINE, Document, Origin, join_key, parse_yaml, read_yaml, shown_path
from translate.errors import InputError

DEFAULT = Origin("default")
_MOST_PARENTS = 10  # of a key; no section is so deep


class LoadedConfig(NamedTuple):
    """A config and the origin of each value in it; a dotted key without origin has its default."""

    config: Config
    origins: dict[str, Origin]

    def origin_of(self, key: str) -> Origin:
        """Where the value of a dotted key was given."""
        return self.origins.get(key, DEFAULT)


def load_config(name: str, overrides: Sequence[str] = (), *, require_files: bool = False) -> LoadedConfig:
    """Read a config, what it extends, and the overrides; check it; find the files that it names.

    A relative path is looked for in `data.root`, then beside the config that says it, then in the working directory.
    A mapping is merged key by key into the one below it, a list replaces it, and so does a corpus of another kind; null
    for a test set removes it.

    Args:
        name: A path or a preset's name.
        overrides: `dotted.key=value` each, the value in YAML; a number in the key counts a list's items from 0.
        require_files: Whether an input file that is nowhere is an error; else its path stays as it was given.

    Raises:
        InputError: An unreadable file, an unknown key, a wrong type, a value out of bounds, a missing input file.
    """
    path = find_config(name)
    document = _read_extended(path, ())
    for override in overrides:
        _apply_override(document, override)
    document.values.setdefault("name", re.sub(r"[^\w.-]+", "-", path.stem).lstrip(".-") or "run")
    return LoadedConfig(find_files(_validate(document), document.origins, required=require_files), document.origins)


def read_resolved_config(path: Path) -> Config:
    """A config that `resolved_yaml` wrote: complete, its paths as they are.

    Raises:
        InputError: Unreadable or invalid.
    """
    return _validate(read_yaml(path))


def override_config(config: Config, values: Mapping[str, Any]) -> Config:
    """The config with some values replaced, and checked again.

    Args:
        values: By dotted key, in JSON's types; None leaves the value as it is.

    Raises:
        InputError: An unknown key, a wrong type, a value out of bounds.
    """
    document = Document(config.model_dump(mode="json"), {})
    for key, value in values.items():
        if value is not None:
            _apply_override(document, f"{key}={json.dumps(value)}")
    return _validate(document)


def _validate(document: Document) -> Config:
    try:
        # By way of JSON, where pydantic is strict ("8" is no number, 1 no boolean) and yet takes lists and paths.
        return Config.model_validate_json(json.dumps(document.values), strict=True)
    except ValidationError as error:
        raise InputError(explain(error, document)) from None


def _read_extended(path: Path, chain: tuple[Path, ...]) -> Document:
    document = read_yaml(path)
    base_name = document.values.pop("extends", None)
    origin = document.origins.pop("extends", DEFAULT)
    if base_name is None:
        return document
    if not isinstance(base_name, str):
        raise InputError(f"{origin}: extends takes one config's path or name, not {json.dumps(base_name)}")
    chain = (*chain, path.resolve())
    try:
        base_path = find_config(base_name, beside=path.resolve().parent)
    except InputError as error:
        raise InputError(f"{origin}: extends {base_name}: {error}") from None
    if base_path.resolve() in chain:
        way = " → ".join(shown_path(link) for link in (*chain, base_path))
        raise InputError(f"{origin}: a config cannot extend itself: {way}")
    base = _read_extended(base_path, chain)
    _merge(base, document)
    return base


def _merge(base: Document, above: Document) -> None:
    """Put the values of `above` over those of `base`."""
    _merge_mapping(base.values, above.values, "", base.origins, above.origins)


def _merge_mapping(
    below: dict[str, Any],
    above: dict[str, Any],
    prefix: str,
    origins: dict[str, Origin],
    new_origins: dict[str, Origin],
) -> None:
    kind = above.get("kind")
    if isinstance(kind, str) and below.get("kind", kind) != kind:
        # A corpus of another kind has other keys, so it takes the old one's place.
        below.clear()
        _replace_origins(prefix, origins, new_origins)
        origins.setdefault(prefix, new_origins[join_key(prefix, "kind")])
    for name, value in above.items():
        key = join_key(prefix, name)
        if isinstance(value, dict) and isinstance(below.get(name), dict):
            _merge_mapping(below[name], value, key, origins, new_origins)
            continue
        if value is None and prefix == "data.test" and name in below:
            del below[name]
        else:
            below[name] = value
        _replace_origins(key, origins, new_origins)


def _replace_origins(key: str, origins: dict[str, Origin], new_origins: dict[str, Origin]) -> None:
    def is_inside(name: str) -> bool:
        return name == key or name.startswith(f"{key}.")

    for stale in [name for name in origins if is_inside(name)]:
        del origins[stale]
    origins.update({name: origin for name, origin in new_origins.items() if is_inside(name)})


def _apply_override(document: Document, override: str) -> None:
    key, equals, text = override.partition("=")
    key = key.strip()
    *parents, last = key.split(".")
    if not equals or not all((*parents, last)) or len(parents) > _MOST_PARENTS or not _is_text(key):
        raise InputError(f"{override[:80]!r} is no override: write dotted.key=value, such as model.d_model=256")
    if key == "extends":
        raise InputError(f"{COMMAND_LINE}: {override}: extends is said in a config file only")
    value, new_origins = parse_yaml(text, path=None, key=key)
    new_origins.setdefault(key, Origin(COMMAND_LINE))  # an empty text is null, and has no node
    container: Any = document.values
    for depth, part in enumerate(parents):
        prefix = ".".join(parents[: depth + 1])
        slot = _list_index(container, part, key) if isinstance(container, list) else part
        if isinstance(container, dict) and container.get(part) is None:
            container[part] = {}
            document.origins[prefix] = Origin(COMMAND_LINE)
        container = container[slot]
        if not isinstance(container, dict | list):
            raise InputError(f"{COMMAND_LINE}: {override}: {prefix} is a value, not a section")
    if isinstance(container, dict):
        _merge_mapping(container, {last: value}, ".".join(parents), document.origins, new_origins)
        return
    index = _list_index(container, last, key)
    if isinstance(container[index], dict) and isinstance(value, dict):
        _merge_mapping(container[index], value, key, document.origins, new_origins)
    else:
        container[index] = value
        _replace_origins(key, document.origins, new_origins)


def _is_text(key: str) -> bool:
    """Whether it can be written as UTF-8: bytes of the command line that were none become lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in key)


def _list_index(items: list[Any], part: str, key: str) -> int:
    if not part.isdecimal() or int(part) >= len(items):
        raise InputError(f"{COMMAND_LINE}: {key}: {part!r} is no index of a list of {len(items)}, counted from 0")
    return int(part)
