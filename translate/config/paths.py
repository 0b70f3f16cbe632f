"""Finding the input files that a config names: a `Path` in a section is always one."""

import os
import typing
from pathlib import Path
from typing import Any

from translate.config.presets import is_file
from translate.config.section import Section
from translate.config.sections import Config
from translate.config.yaml import Origin, join_key
from translate.errors import InputError


def find_files(config: Config, origins: dict[str, Origin], *, required: bool) -> Config:
    """The config with each input path made absolute, if there is such a file.

    A relative path is looked for in `data.root`, then beside the config that says it, then in the working directory.

    Raises:
        InputError: `required`, and files are nowhere; a line for each says where was looked.
    """
    finder = _Finder(origins, required)
    root = config.data.root
    if root is not None:
        root = finder.find(root, "data.root", os.path.isdir, "folder")
    finder.root = root
    found = finder.replace(config, "")
    if finder.problems:
        raise InputError("\n".join(finder.problems))
    return typing.cast(Config, found)


class _Finder:
    def __init__(self, origins: dict[str, Origin], required: bool) -> None:
        self.origins = origins
        self.required = required
        self.root: Path | None = None
        self.problems: list[str] = []

    def replace(self, value: Any, key: str) -> Any:
        """The value with every path inside it found."""
        if isinstance(value, tuple):
            return tuple(self.replace(item, join_key(key, str(index))) for index, item in enumerate(value))
        if isinstance(value, dict):
            return {name: self.replace(item, join_key(key, name)) for name, item in value.items()}
        if isinstance(value, Section):
            items = {name: self.replace(item, join_key(key, name)) for name, item in value}
            changed = {name: item for name, item in items.items() if item is not getattr(value, name)}
            return value.model_copy(update=changed)
        if isinstance(value, Path):
            return self.root if key == "data.root" else self.find(value, key, is_file, "file")
        return value

    def find(self, path: Path, key: str, is_right: typing.Callable[[Path], bool], what: str) -> Path:
        origin = self.origins.get(key)
        beside = origin.directory if origin is not None else None
        given, path = path, Path(os.path.expanduser(path))
        candidates = list(dict.fromkeys(place / path for place in (self.root, beside, Path.cwd()) if place is not None))
        for candidate in candidates:
            if is_right(candidate):
                # Without `..`, but a link's own name is kept: its target may lack the ending that says the format.
                return candidate.parent.resolve() / candidate.name
        if self.required:
            looked = ", ".join(dict.fromkeys(os.path.abspath(candidate) for candidate in candidates))
            where = f" ({origin})" if origin else ""
            is_folder = what == "file" and any(os.path.isdir(candidate) for candidate in candidates)
            problem = "is a folder, and a file is needed" if is_folder else f"no such {what}"
            self.problems.append(f"{key} = {given}: {problem}{where}; looked for {looked}")
        return path
