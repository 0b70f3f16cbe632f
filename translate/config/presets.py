"""Where the configs that come with the toolkit are: beside the package in a checkout, inside it in a wheel."""

import os
from pathlib import Path

from translate.config.yaml import shown_path
from translate.errors import InputError

_PACKAGE = Path(__file__).resolve().parent.parent


def presets_directory() -> Path:
    """The folder of the presets; the embedded corpus is in `../data` from there."""
    bundled = _PACKAGE / "bundled" / "configs"
    return bundled if bundled.is_dir() else _PACKAGE.parent / "configs"


def preset_names() -> list[str]:
    """Names that `find_config` takes without a path."""
    return sorted(path.stem for path in presets_directory().glob("*.yaml"))


def find_config(name: str, *, beside: Path | None = None) -> Path:
    """The file of a config, given by its path or by a preset's name.

    Args:
        name: Such as `configs/demo.yaml`, `demo.yaml` or `demo`.
        beside: What a relative path is relative to: the folder of the config that extends this one, or the working
            directory.

    Raises:
        InputError: No such file or preset; says where was looked.
    """
    path = Path(os.path.expanduser(name))
    candidates = [path if beside is None else beside / path]
    if name and path.parent == Path("."):
        candidates.append(presets_directory() / (name if path.suffix in {".yaml", ".yml"} else f"{name}.yaml"))
    for candidate in candidates:
        if is_file(candidate):
            return candidate
    looked = ", ".join(dict.fromkeys(shown_path(candidate) for candidate in candidates))
    what = f"{name!r} is a directory, not a config" if name and os.path.isdir(candidates[0]) else f"no config {name!r}"
    raise InputError(f"{what}: looked for {looked}; the presets are {', '.join(preset_names())}")


def is_file(path: Path) -> bool:
    """Whether something readable as a file is there: a file or a pipe. An impossible name is no file."""
    return os.path.exists(path) and not os.path.isdir(path)
