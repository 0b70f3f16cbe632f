"""A checksum that travels inside its file, so that file and checksum are written by one rename and cannot part.

A sealed file has `"sha256": "<64 digits>"` in it once: the SHA-256 of the whole file with these digits as zeros. So
each bit is covered: one elsewhere changes the digest, and one in the seal breaks it but leaves either its name or its
digits to be seen. Files of older versions have neither.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

from translate.atomic import write_text
from translate.errors import RunError

UNSEALED = "0" * 64
"""Stands where the digits will be."""

_SEAL = re.compile(rb'"sha256": ?"([0-9a-f]{64})"')
_TRACE = re.compile(rb'sha256"|"[0-9a-f]{64}"')
_SHOWN_DIGITS = 12


class DamageError(RunError):
    """A file's content is not what was written."""

    def __init__(self, fact: str, mend: str) -> None:
        super().__init__(f"{fact}; {mend}")
        self.fact = fact


class Seal(NamedTuple):
    """What a file says of its own content."""

    start: int  # of the digits in the file
    digest: str


def find_seal(head: bytes) -> Seal | None:
    """The seal in the beginning of a file; None for a file that never had one.

    Raises:
        ValueError: There are traces of one, or several.
    """
    matches = list(_SEAL.finditer(head))
    if len(matches) == 1:
        return Seal(matches[0].start(1), matches[0][1].decode())
    if matches:
        raise ValueError("it has several checksums of its own")
    if _TRACE.search(head):
        raise ValueError("its own checksum is unreadable")
    return None


def check_seal(path: Path, head: bytes, rest: BinaryIO | None = None) -> bool:
    """Whether a file is sealed, and its content is what was sealed.

    Args:
        head: The beginning of the file, in which the seal is.
        rest: Gives the bytes that follow; None: there are none.

    Returns:
        False for a file without a seal, as older versions wrote it.

    Raises:
        RunError: The content is another.
    """
    try:
        seal = find_seal(head)
    except ValueError as error:
        raise damage(path, str(error)) from error
    if seal is None:
        return False
    digest = hashlib.sha256(with_digits(head, seal.start, UNSEALED))
    while rest is not None and (chunk := rest.read(1 << 20)):
        digest.update(chunk)
    if digest.hexdigest() != seal.digest:
        raise damage(path, f"its checksum should be {shortened(seal.digest)}, but is {shortened(digest.hexdigest())}")
    return True


def sealed_text(text: str) -> str:
    """The text with the digest in the place of its `UNSEALED`."""
    content = text.encode()
    seal = find_seal(content)
    assert seal is not None and seal.digest == UNSEALED
    return with_digits(content, seal.start, hashlib.sha256(content).hexdigest()).decode()


def write_sealed_json(path: Path, values: Mapping[str, object]) -> None:
    """Write a JSON file with its own checksum as its last entry.

    Raises:
        RunError: It cannot be written.
    """
    write_text(path, sealed_text(json.dumps({**values, "sha256": UNSEALED}, indent=2, ensure_ascii=False) + "\n"))


def with_digits(content: bytes, start: int, digits: str) -> bytes:
    """The content with other digits in its seal."""
    return content[:start] + digits.encode() + content[start + len(digits) :]


def file_digest(path: Path) -> str:
    """The SHA-256 of another file, as sealed JSON records it: unlike a seal's it begins with its method."""
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def shortened(digest: str) -> str:
    """Enough of a digest to tell two apart."""
    return f"{digest.removeprefix('sha256:')[:_SHOWN_DIGITS]}…"


def damage(path: Path, reason: str) -> DamageError:
    """The error that names a damaged file, the reason and the mend."""
    return DamageError(f"{path}: damaged: {reason}", _MENDS.get(path.name, "copy the file anew from where it came"))


_MENDS = {
    "best.safetensors": "copy it anew from where it came, or use --checkpoint last",
    "last.safetensors": "copy it anew from where it came, use --checkpoint best, or train on with --resume, which takes"
    " the checkpoint before it",
    "previous.safetensors": "remove it, unless the last one is damaged too: it is there for that alone",
    "shortlist.safetensors": "make it anew with translate shortlist",
    "report.json": "make it anew with translate eval",
    "checksums.json": "remove this folder, and it is made anew",
    "run.json": 'copy it anew from where it came; if it was edited on purpose, remove its line "sha256"',
}
