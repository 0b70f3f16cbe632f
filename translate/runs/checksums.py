"""`checksums.json` in a folder: the checksums of the other files in it, for files that cannot hold their own."""

import json
from pathlib import Path

from translate.atomic import is_temporary
from translate.errors import RunError
from translate.runs.safety import MOST_TEXT_BYTES, entries, require_kind
from translate.runs.seal import check_seal, file_digest, shortened, write_sealed_json

_LIST = "checksums.json"


def write_checksums(folder: Path) -> None:
    """Record the files that are in a folder.

    Raises:
        RunError: It cannot be written.
    """
    write_sealed_json(folder / _LIST, {"files": {path.name: file_digest(path) for path in entries(folder)}})


def check_checksums(folder: Path) -> bool:
    """Whether a folder has such a list, and all files in it are as they were recorded.

    Returns:
        False for a folder without a list, as older versions made it.

    Raises:
        RunError: A file is another, is missing, was not there, or is a link out of the folder.
    """
    files = entries(folder)
    for path in files:
        require_kind(path, "file", within=folder, most_bytes=MOST_TEXT_BYTES if path.name == _LIST else None)
    if folder / _LIST not in files:
        return False
    recorded = _read(folder / _LIST)
    found = {path.name for path in files if path.name != _LIST and not is_temporary(path)}
    if found != recorded.keys():
        missing, unexpected = sorted(recorded.keys() - found), sorted(found - recorded.keys())
        raise RunError(f"{folder}: damaged: missing: {missing}, unexpected: {unexpected}; {_MEND}")
    for name, expected in recorded.items():
        digest = file_digest(folder / name)
        if digest != expected:
            raise RunError(
                f"{folder / name}: damaged: its checksum should be {shortened(expected)}, but is {shortened(digest)};"
                f" {_MEND}"
            )
    return True


_MEND = "remove this folder, and it is made anew"


def _read(path: Path) -> dict[str, str]:
    content = path.read_bytes()
    check_seal(path, content)
    try:
        files = json.loads(content)["files"]
        if not all(isinstance(name, str) and isinstance(digest, str) for name, digest in files.items()):
            raise ValueError("files are not recorded by name")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RunError(f"{path}: damaged: {error}; {_MEND}") from error
    return files
