"""Finding files: configs by path or preset name, and the input files that a config names."""

import os
import typing
from pathlib import Path
from typing import Any

from translate.config.schema import Config
from translate.config.section import Section
from translate.config.yaml import Origin, join_key, shown_path
from translate.errors import InputError

_PACKAGE = Path(__file__).resolve().parent.parent


def presets_directory() -> Path:
    """The folder of the presets: inside the package in a wheel, beside it in a checkout."""
    bundled = _PACKAGE / "bundled" / "configs"
    return bundled if bundled.is_dir() else _PACKAGE.parent / "configs"


def preset_names() -> list[str]:
    """Names that `find_config` takes without a path."""
    return sorted(path.stem for path in presets_directory().glob("*.yaml"))


def find_config(name: str, *, beside: Path | None = None) -> Path:
    """Find a config file by its path or by a preset's name.

    Args:
        name: Such as `configs/demo.yaml`, `demo.yaml` or `demo`.
        beside: Folder that a relative path starts from, which is the folder of the config that extends this one;
            None is the working directory.

    Raises:
        InputError: There is no such file or preset; the message lists the places and the presets.
    """
    path = Path(os.path.expanduser(name))
    candidates = [path if beside is None else beside / path]
    if name and path.parent == Path("."):
        candidates.append(presets_directory() / (name if path.suffix in {".yaml", ".yml"} else f"{name}.yaml"))
    for candidate in candidates:
        if _is_file(candidate):
            return candidate
    looked = ", ".join(dict.fromkeys(shown_path(candidate) for candidate in candidates))
    what = f"{name!r} is a directory, not a config" if name and os.path.isdir(candidates[0]) else f"no config {name!r}"
    raise InputError(f"{what}: looked for {looked}; the presets are {', '.join(preset_names())}")


def find_files(config: Config, origins: dict[str, Origin], *, required: bool) -> Config:
    """Make each input path absolute, if there is such a file.

    A relative path is looked for in `data.root`, then beside the config that names it, then in the working directory.

    Args:
        origins: Where each dotted key was given.

    Raises:
        InputError: Files are `required` and missing; a line for each lists the places.
    """
    finder = _Finder(origins)
    if config.data.root is not None:
        finder.root = finder.find(config.data.root, "data.root")
    found = finder.replace(config, "")
    if required and finder.problems:
        raise InputError("\n".join(finder.problems))
    return typing.cast(Config, found)


class _Finder:
    def __init__(self, origins: dict[str, Origin]) -> None:
        self.origins = origins
        self.root: Path | None = None
        self.problems: list[str] = []

    def replace(self, value: Any, key: str) -> Any:
        """Replace every path in a value by the file that it names."""
        if isinstance(value, tuple):
            return tuple(self.replace(item, join_key(key, str(index))) for index, item in enumerate(value))
        if isinstance(value, dict):
            return {name: self.replace(item, join_key(key, name)) for name, item in value.items()}
        if isinstance(value, Section):
            items = {name: self.replace(item, join_key(key, name)) for name, item in value}
            changed = {name: item for name, item in items.items() if item is not getattr(value, name)}
            return value.model_copy(update=changed)
        if isinstance(value, Path):
            return self.root if key == "data.root" else self.find(value, key)
        return value

    def find(self, path: Path, key: str) -> Path:
        """Find the file of a key, or note that it is missing; `data.root` is a folder."""
        is_right, what = (os.path.isdir, "folder") if key == "data.root" else (_is_file, "file")
        origin = self.origins.get(key)
        places = [self.root, origin.directory if origin else None, Path.cwd()]
        given, path = path, Path(os.path.expanduser(path))
        candidates = list(dict.fromkeys(place / path for place in places if place is not None))
        for candidate in candidates:
            if is_right(candidate):
                # Without `..`, but a link keeps its own name: its target may lack the ending that says the format.
                return candidate.parent.resolve() / candidate.name
        looked = ", ".join(dict.fromkeys(os.path.abspath(candidate) for candidate in candidates))
        is_folder = what == "file" and any(os.path.isdir(candidate) for candidate in candidates)
        problem = "is a folder, and a file is needed" if is_folder else f"no such {what}"
        where = f" ({origin.position})" if origin else ""
        self.problems.append(f"{key} = {given}: {problem}{where}; looked for {looked}")
        return path


def _is_file(path: Path) -> bool:
    """Whether a path is a file or a pipe; an impossible name is no file."""
    return os.path.exists(path) and not os.path.isdir(path)
