"""One fingerprint for everything that must not change unnoticed: files, texts and settings."""

import hashlib
import json
from pathlib import Path

from translate.files import open_input


def fingerprint(*parts: object) -> str:
    """The SHA-256 of one part, or of the digests of several parts in a row, as 64 hexadecimal digits.

    The fingerprint of a single file is therefore the one that `sha256sum` prints.

    Args:
        parts: For a `Path` the content of the file is read, and a `str` is encoded as `write_text` does; anything but
            `bytes` is written as JSON with sorted keys.

    Raises:
        FileError: A file cannot be read.
        OSError: Reading a file fails halfway.
    """
    digests = [_digest(part) for part in parts]
    return (digests[0] if len(digests) == 1 else hashlib.sha256(b"".join(digests)).digest()).hex()


def _digest(part: object) -> bytes:
    if isinstance(part, Path):
        with open_input(part) as file:
            return hashlib.file_digest(file, "sha256").digest()
    if isinstance(part, str):
        part = part.encode(errors="backslashreplace")
    content = part if isinstance(part, bytes) else json.dumps(part, sort_keys=True).encode()
    return hashlib.sha256(content).digest()
