"""From a YAML file and overrides to a `Config`: extended configs, the origin of each value, input files."""

import glob
import json
import logging
import os
import re
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from translate.config.data import DataConfig, by_name, is_by_name
from translate.config.errors import REMOVED_KEYS, explain
from translate.config.inherit import inherit
from translate.config.languages import Languages
from translate.config.schema import Config, ModelConfig
from translate.config.section import Section
from translate.config.yaml import (
    Document,
    Origin,
    join_key,
    parse_yaml,
    preset_names,
    presets_directory,
    read_yaml,
    shown_path,
)
from translate.errors import InputError
from translate.files import require_utf8
from translate.nearest import did_you_mean, nearest

logger = logging.getLogger(__name__)

_BARE_NAME = re.compile(r"[\w-]+")  # of a preset; a path has a slash or a suffix
_INDEX = re.compile(r"-?\d+")  # of a list; a negative one is an error
_DOTTED_KEY = re.compile(r"[\w-]{1,100}(\.[\w-]{1,100}){0,9}")  # no section is deeper, and no key longer


class LoadedConfig(NamedTuple):
    """A config, and the origin of each value by its dotted key; a key without an origin has its default."""

    config: Config
    origins: dict[str, Origin]


def load_config(
    config: str | Mapping[str, Any],
    overrides: Sequence[str] | Mapping[str, Any] = (),
    *,
    require_files: bool = False,
    place: str = "Python",
) -> LoadedConfig:
    """Read a config, the configs that it extends, and overrides; check it, and find the files that it names.

    A relative path is looked up in `data.root`, then next to the config that names it, then in the working directory.
    A mapping is merged key by key into the mapping of the extended config. A list, or a corpus that names its kind,
    replaces what the extended config has, and null removes a test set.

    Args:
        config: A path, the name of a preset, or the content of a config file.
        overrides: Texts `dotted.key=value` with a YAML value, or Python values by dotted key; a number in a key is the
            index in a list.
        require_files: Whether a missing input file is an error; otherwise its path stays as given.
        place: Where the values of mappings were given, for messages.

    Raises:
        InputError: An unreadable file, an unknown key, a wrong type, a value out of bounds, a missing input file.
    """
    values = {} if isinstance(config, str) else dict(config)
    base = config if isinstance(config, str) else values.pop("extends", None)
    if not isinstance(base, str | os.PathLike | None):
        raise InputError(f"{place}: extends takes the path or name of one config, not {base!r}")
    path = Path("run") if base is None else find_config(base if isinstance(base, str) else as_path(base))
    document = Document({}, {}) if base is None else _read_extended(path, ())
    given, texts = (overrides, ()) if isinstance(overrides, Mapping) else ({}, overrides)
    for key, value in (*values.items(), *given.items()):
        _apply_override(document, str(key), value, place=place)
    for key, value in map(_parse_override, texts):
        if document.origins.get(key) == Origin(place="command line"):
            logger.warning(f"{key} is given several times on the command line, and the last value counts")
        _apply_override(document, key, value)
    document.values.setdefault("name", re.sub(r"[^\w.-]+", "-", path.stem).lstrip(".-") or "run")
    _inherit_from_run(document, required=require_files)
    checked = _validate(document)
    _check_languages(checked, document.origins)
    _follow_directions(document, checked.data)
    return LoadedConfig(_find_files(checked, document.origins, required=require_files), document.origins)


def read_resolved_config(path: Path) -> Config:
    """Read a config that `resolved_yaml` wrote, with every value, and leave its paths unchanged.

    A missing value would get its default, so a truncated file would silently give a different model. Sections and model
    keys that are newer than version 0.8 must be excepted here; there are none.

    Raises:
        InputError: The file is unreadable, invalid or incomplete.
    """
    document = read_yaml(path, may_be_pipe=False)
    _convert_old_keys(document, path)
    config = _validate(document)
    missing = [name for name in Config.model_fields if name not in config.model_fields_set]
    given = config.model.model_fields_set
    missing = missing or [f"model.{name}" for name in ModelConfig.model_fields if name not in given]
    if missing:
        raise InputError(f"{path}: incomplete, without {', '.join(missing)}; copy it again from its source")
    return config


def override_config(config: Config, values: Mapping[str, Any]) -> Config:
    """Replace values of a config, and check it again.

    Args:
        values: JSON values by dotted key; None keeps the config's value.

    Raises:
        InputError: An unknown key, a wrong type, a value out of bounds.
    """
    document = Document(config.model_dump(mode="json"), {})
    for key, value in values.items():
        if value is not None:
            _apply_override(document, key, value)
    return _validate(Document(document.values, {}))


def override_decoding(config: Config, options: Mapping[str, Any]) -> Config:
    """Replace values of the section `decoding`, as `override_config` does."""
    return override_config(config, {f"decoding.{key}": value for key, value in options.items()})


def _validate(document: Document) -> Config:
    try:
        # Through JSON, where pydantic is strict ("8" is not a number, 1 not a boolean) and yet accepts lists and paths.
        return Config.model_validate_json(json.dumps(document.values), strict=True)
    except ValidationError as error:
        raise InputError(explain(error, document)) from None


def _read_extended(path: Path, chain: tuple[Path, ...]) -> Document:
    """Read a config file and merge it over the one that it extends."""
    of_run = is_run(str(path.parent))
    document = read_yaml(path, may_be_pipe=not of_run)
    if of_run:
        _convert_old_keys(document, path)
    base = Document({}, {})
    if (base_name := document.values.pop("extends", None)) is not None:
        base = _read_base(base_name, document.origins.pop("extends"), (*chain, path.resolve()))
    base.values.update(_merge(base.values, document.values, "", base.origins, document.origins))
    return base


def _read_base(base_name: object, origin: Origin, chain: tuple[Path, ...]) -> Document:
    """Read the config that the last one of a chain extends, without its name."""
    if not isinstance(base_name, str):
        raise InputError(f"{origin}: extends takes the path or name of one config, not {json.dumps(base_name)}")
    try:
        base_path = find_config(base_name, beside=chain[-1].parent)
    except InputError as error:
        raise InputError(f"{origin}: extends {base_name}: {error}") from None
    if base_path.resolve() in chain:
        way = " → ".join(shown_path(link) for link in (*chain, base_path))
        raise InputError(f"{origin}: a config cannot extend itself: {way}")
    base = _read_extended(base_path, chain)
    base.values.pop("name", None)  # of another run
    base.origins.pop("name", None)
    return base


def _convert_old_keys(document: Document, path: Path) -> None:
    """Replace what only older versions have in a run's config, and warn of what was set."""
    decoding = document.values.get("decoding")
    if isinstance(decoding, dict) and decoding.get("mbr") == "bleu":  # until 0.13.0
        decoding["mbr"] = "chrf"
        logger.warning(f"{path}: decoding.mbr = bleu is no longer supported, and chrf is used instead")
    for key, (default, advice) in REMOVED_KEYS.items():
        section, _, name = key.partition(".")
        keys = document.values.get(section)
        if isinstance(keys, dict) and (value := keys.pop(name, default)) != default:
            logger.warning(f"{path}: {key} = {value!r} is ignored: {advice}")


def _parse_override(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not _DOTTED_KEY.fullmatch(key.strip()):
        raise InputError(f"{text[:80]!r} is not an override: write dotted.key=value, such as model.d_model=256")
    return key.strip(), parse_yaml(value, path=None, key=key.strip())[0]


def _apply_override(document: Document, key: str, value: Any, *, place: str = "command line") -> None:
    for name in reversed(key.split(".")):
        value = {name: value}
    origins: dict[str, Origin] = {}
    value = _copy_value(value, "", origins, Origin(place=place))
    document.values.update(_merge(document.values, value, "", document.origins, origins))


def _copy_value(value: Any, key: str, origins: dict[str, Origin], origin: Origin) -> Any:
    """Copy a value as JSON has it, such as lists for tuples, and give all dotted keys in it their origin."""
    origins[key] = origin
    if hasattr(value, "tolist"):  # a number or an array of numpy or torch
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): _copy_value(item, join_key(key, str(name)), origins, origin) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_copy_value(item, join_key(key, str(index)), origins, origin) for index, item in enumerate(value)]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if not isinstance(value, str | int | float | None):
        raise InputError(f"{key} = {value!r}: should be a number, text, true, false, null, a list or a mapping")
    return value


def _merge(below: Any, above: Any, key: str, origins: dict[str, Origin], new_origins: dict[str, Origin]) -> Any:
    """Merge a value into the one that it overrides, and their origins likewise."""
    if key == "data.train" and isinstance(above, dict) and not all(map(_INDEX.fullmatch, above)):  # it is one corpus
        is_part = isinstance(below, list) and len(below) == 1
        above = {"0": above} if is_part else [above] if not below or "kind" in above else above
        names = [name for name in new_origins if f"{name}.".startswith(f"{key}.")]
        new_origins = new_origins | {f"{key}.0{name.removeprefix(key)}": new_origins[name] for name in names}
    if below is None and isinstance(above, dict):
        below = {}
        origins.update({name: origin for name, origin in new_origins.items() if name == key})
    if isinstance(below, list) and isinstance(above, dict) and above:  # its keys are indices
        items = {str(index): item for index, item in enumerate(below)}
        if wrong := [name for name in above if name not in items]:
            dotted = join_key(key, wrong[0])
            place = new_origins[dotted]
            raise InputError(f"{dotted} ({place}): not an index of a list of {len(below)}, counted from {key}.0")
        return list(_merge(items, above, key, origins, new_origins).values())
    if isinstance(below, dict) and isinstance(above, dict):
        # A corpus that names its kind and more is another text, without the old one's licence; so are corpora by name.
        kind = above.get("kind")
        is_other = isinstance(kind, str) and (len(above) > 1 or below.get("kind", kind) != kind)
        if key == "data.validation" and is_by_name(below) != is_by_name(above):
            is_other |= "kind" in (below | above)
        if not is_other:
            merged = dict(below)
            for name, value in above.items():
                merged[name] = _merge(below.get(name), value, join_key(key, name), origins, new_origins)
                if key in ("data.test", "data.validation", "data.validation_also") and value is None and name in below:
                    del merged[name]
            return merged
    for stale in [name for name in origins if f"{name}.".startswith(f"{key}.")]:
        del origins[stale]
    origins.update({name: origin for name, origin in new_origins.items() if f"{name}.".startswith(f"{key}.")})
    return above


def is_run(name: str) -> bool:
    """Whether a name in place of a config is a run directory, which means its resolved config."""
    return bool(name) and os.path.isfile(os.path.join(os.path.expanduser(name), "run.json"))


def names_run(name: str) -> bool:
    """Whether a name in place of a config is the path of a run; a bare name is a preset, also next to such a run."""
    return not _BARE_NAME.fullmatch(name) and is_run(name)


def as_path(path: str | os.PathLike[str]) -> str:
    """The name of a config for its path, which is never a preset's: `./demo` for the path `demo`."""
    return os.path.join(os.curdir, path) if _BARE_NAME.fullmatch(os.fspath(path)) else os.fspath(path)


def find_config(name: str, *, beside: Path | None = None) -> Path:
    """Find a config file by a preset name, by its path, or by a run directory (for its resolved config).

    Args:
        name: `demo` is a preset; `demo.yaml`, `./demo` and `runs/demo` are paths. If something here has the name of a
            preset, a warning says so.
        beside: Folder of the config that extends this one, from which a relative path starts; None: the working
            directory.

    Raises:
        InputError: There is no such file or preset; the message lists the places and the presets.
    """
    path, is_bare = Path(os.path.expanduser(name)), bool(_BARE_NAME.fullmatch(name))
    place, preset = path if beside is None else beside / path, presets_directory() / f"{name}.yaml"
    here = [place, place.with_suffix(".yaml")] if is_bare and beside is None else [place]
    found = [as_path(other) for other in here if name and _is_config(other) and other.resolve() != preset.resolve()]
    if is_bare and name in preset_names():
        if found:
            logger.warning(f"{name} is the preset; for what is here, write {' or '.join(found)}")
        return preset
    if found and not is_bare:
        return place / "config.yaml" if place.is_dir() else place
    what = "preset" if is_bare else "config file or run"
    looked = "a path has a slash or a suffix" if is_bare else f"looked for {shown_path(place)}"
    runs = [run for run in [os.path.join("runs", path.name)] if is_run(run)]
    meant = did_you_mean([*found, *runs, *nearest(path.stem, preset_names(), cutoff=0.75)])
    raise InputError(f"no {what} {name!r}: {looked}; the presets are {', '.join(preset_names())}{meant}")


def _is_config(path: Path) -> bool:
    """Whether a path is a run or a file, which may be a pipe."""
    return is_run(str(path)) or (os.path.exists(path) and not os.path.isdir(path))


def _candidates(name: str, origin: Origin | None, *, root: Path | None = None) -> list[Path]:
    """The places to look for a path: in `data.root`, next to the config that names it, in the working directory."""
    beside = origin.path.resolve().parent if origin and origin.path else None
    return list(dict.fromkeys(place / name for place in (root, beside, Path.cwd()) if place))


def _inherit_from_run(document: Document, *, required: bool) -> None:
    """Find the run of `training.initialize_from`, and inherit from it the keys that the user does not give.

    The config of a run that was fine-tuned states everything, and no longer needs the base run.
    """
    training = document.values.get("training")
    name = training.get("initialize_from") if isinstance(training, dict) else None
    origin = document.origins.get("training.initialize_from")
    if not isinstance(name, str) or (origin and origin.path and is_run(str(origin.path.parent))):
        return
    assert isinstance(training, dict)
    candidates = _candidates(os.path.expanduser(name), origin)
    run = next((Path(os.path.abspath(path)) for path in candidates if is_run(str(path))), None)
    if run is not None:
        training["initialize_from"] = str(run)
        not_own = {key for key, given in document.origins.items() if not _is_written_by_user(given)}
        inherit(document, read_resolved_config(run / "config.yaml"), run=run, not_own=not_own)
    elif required:
        problem = f"no such run; looked for {', '.join(map(str, candidates))}"
        if any(path.exists() for path in candidates):
            problem = "is not a run directory: it has no run.json; `translate import` converts other toolkits' models"
        where = f" ({origin})" if origin else ""
        raise InputError(f"training.initialize_from = {name}{where}: {problem}")


def _is_written_by_user(origin: Origin) -> bool:
    """Whether a value is not from a preset or from a run's config, which the user only chose."""
    folder = origin.path and origin.path.resolve().parent
    return not (folder and (folder == presets_directory() or is_run(str(folder))))


def _check_languages(config: Config, origins: Mapping[str, Origin]) -> None:
    """Check that the languages of `data.languages` have tags.

    A fine-tuned run may have tags of further languages: see `runs.initial.check_languages`.
    """
    data, tagged = config.data, Languages(config.data).tagged
    untagged = [code for code in data.languages if code not in tagged]
    if data.train and untagged and config.training.initialize_from is None:
        where = f" ({origin})" if (origin := origins.get("data.languages")) else ""
        raise InputError(
            f'data.languages: "{untagged[0]}"{where} has no tag, because no corpus of data.train gives it one: train on'
            " it, leave it out, or start from a run that knows it (training.initialize_from)"
        )


def _follow_directions(document: Document, data: DataConfig) -> None:
    """Give the origins of corpora their new keys, because `both_directions` has made two corpora of one."""
    before = dict(document.origins)
    for kind in ("train", "validation", "validation_also", "test"):
        named = by_name(document.values.get("data", {}).get(kind))
        old = [name for name, corpus in named.items() for _ in range(1 + (corpus.get("both_directions") is True))]
        for name, new in zip(old, data.corpora(kind), strict=True):
            section = f"data.{kind}.{name}".rstrip(".")
            own = {key: origin for key, origin in before.items() if f"{key}.".startswith(f"{section}.")}
            document.origins.update({new + key.removeprefix(section): origin for key, origin in own.items()})


def _find_files(config: Config, origins: dict[str, Origin], *, required: bool) -> Config:
    """Make the path of each existing input file absolute; if `required`, report all missing ones."""
    problems: list[str] = []
    root: Path | None = None

    def find(path: Path, key: str) -> Path:
        origin, name = origins.get(key), os.path.expanduser(path)
        candidates = _candidates(name, origin, root=root)
        for candidate in candidates:
            is_there = os.path.exists(candidate) and os.path.isdir(candidate) == (key == "data.root")
            if is_there or (key.endswith(".path") and any(glob.iglob(str(candidate), recursive=True))):
                # Without `..`, but a link keeps its name, whose extension may determine the format.
                found = candidate.parent.resolve() / candidate.name
                try:
                    require_utf8(found, place=key)
                except InputError as error:
                    problems.append(str(error))
                return found
        looked = ", ".join(dict.fromkeys(os.path.abspath(candidate) for candidate in candidates))
        kind, where = "folder" if key == "data.root" else "file", f" ({origin})" if origin else ""
        problems.append(f"{key} = {path}: no such {kind}{where}; looked for {looked}")
        return Path(name)

    def replace_paths(value: Any, key: str) -> Any:
        if key == "data.root":
            return root
        origin = origins.get(key)
        is_copied = key.startswith("tokenizer.") and origin is not None and not _is_written_by_user(origin)
        if key == "training.initialize_from" or is_copied:  # a run has a copy of its tokenizers
            return value
        if isinstance(value, tuple):
            return tuple(replace_paths(item, join_key(key, str(index))) for index, item in enumerate(value))
        if isinstance(value, dict):
            return {name: replace_paths(item, join_key(key, name)) for name, item in value.items()}
        if isinstance(value, Section):
            return value.model_copy(update={name: replace_paths(item, join_key(key, name)) for name, item in value})
        return find(value, key) if isinstance(value, Path) else value

    root = config.data.root and find(config.data.root, "data.root")
    found = typing.cast(Config, replace_paths(config, ""))
    if required and problems:
        raise InputError("\n".join(problems))
    return found
