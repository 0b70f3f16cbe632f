"""Checksums of a folder's files in its `SHA256SUMS`, which `sha256sum --check SHA256SUMS` reads too.

Checkpoints are not listed, because each carries a digest of its own content.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from translate.atomic import write_text
from translate.errors import RunError
from translate.files import FileError, read_input
from translate.fingerprint import fingerprint

CHECKSUMS = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-f]{64})  ([^\0/][^\0]*)")
_AGAIN = "copy it again from its source"
_HINTS = {
    "best.safetensors": f"{_AGAIN}, or use --checkpoint last",
    "last.safetensors": f"{_AGAIN}, use --checkpoint best, or continue with --resume from the checkpoint before it",
    "config.yaml": f"{_AGAIN}; if you edited it, remove its line from {CHECKSUMS}",
}


class DamageError(RunError):
    """A file's content has changed since it was written."""

    def __init__(self, path: Path, reason: str) -> None:
        self.fact = f"{path}: {'' if reason.startswith('cannot be read') else 'damaged: '}{reason}"
        super().__init__(f"{self.fact}; {_HINTS.get(path.name, _AGAIN)}")


def write_checksums(folder: Path, checksums: Mapping[str, str]) -> None:
    """Write the fingerprint of each file, by its path within the folder, to the folder's `SHA256SUMS`."""
    write_text(folder / CHECKSUMS, "".join(f"{digest}  {name}\n" for name, digest in sorted(checksums.items())))


def read_checksums(folder: Path) -> dict[str, str]:
    """The recorded fingerprints by name.

    Raises:
        DamageError: The file is missing or damaged.
    """
    path = folder / CHECKSUMS
    try:
        lines = read_input(path).decode().split("\n")
    except (FileError, UnicodeDecodeError) as error:
        raise DamageError(path, getattr(error, "reason", str(error))) from error
    matches = [_LINE.fullmatch(line) for line in lines[:-1]]
    if lines[-1] or None in matches:
        raise DamageError(path, "it has lines that are not checksums")
    return {match[2]: match[1] for match in matches if match}


def check_file(path: Path, expected: str | None) -> None:
    """Compare a file with its recorded fingerprint; None: there is none.

    Raises:
        RunError: The content has changed since it was written, or cannot be read.
    """
    try:
        compare(path, expected, fingerprint(path))
    except (FileError, OSError) as error:
        raise DamageError(path, getattr(error, "reason", f"cannot be read: {error}")) from error


def check_folder(folder: Path) -> None:
    """Raise a RunError if a file of a folder is damaged, missing, without a checksum, or a link out of the folder."""
    try:
        checksums = read_checksums(folder)
        if not checksums:
            raise DamageError(folder / CHECKSUMS, "it is empty")
        for name, expected in checksums.items():
            check_inside(folder / name, folder)
            check_file(folder / name, expected)
        if surplus := {file.name for file in folder.iterdir()} - {CHECKSUMS, *checksums}:
            raise DamageError(folder / CHECKSUMS, f"it has no checksum for {ascii(min(surplus))}")
    except DamageError as error:
        raise RunError(f"{error.fact}; remove the folder {folder}, and it will be created again") from error


def check_inside(path: Path, folder: Path) -> None:
    """Raise a RunError if a path is a link out of a folder, or is neither a file nor a folder, such as a pipe."""
    real = os.path.realpath(path)
    if not Path(real).is_relative_to(os.path.realpath(folder)):
        raise RunError(f"{path}: is a link out of {folder}, to {real}; a run must be self-contained")
    if os.path.exists(real) and not (os.path.isfile(real) or os.path.isdir(real)):
        raise RunError(f"{path}: is a pipe, device or socket, and a run has only files and folders; remove it")


def compare(path: Path, expected: str | None, found: str) -> None:
    """Raise a RunError if a file's digest is not the recorded one; None: there is none."""
    if expected is not None and expected != found:
        raise DamageError(path, f"its checksum should be {expected[:12]}…, but is {found[:12]}…")
