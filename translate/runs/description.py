"""`run.json`: the format of a run, who wrote it when and with what command, and the checksums of its tokenizers."""

import datetime
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from translate import __version__
from translate.errors import InputError, RunError
from translate.runs.directory import RunDirectory
from translate.runs.seal import check_seal, file_digest, shortened, write_sealed_json
from translate.versions import package_versions

FORMAT = 2  # raised when an older toolkit could not read a newer run; 1: until version 0.1.0, without checksums
_VERSION_OR_DATE = re.compile(r"[\w.:+-]{0,60}", re.ASCII)
_MODELS = ("joint.model", "source.model", "target.model")


class NewerFormatError(InputError):
    """A run that a newer version wrote, and this one cannot read."""


class Description(NamedTuple):
    """What `run.json` says."""

    run_format: int
    writer: str  # version of this toolkit
    created: str  # date and time in ISO 8601, or empty
    tokenizer_digests: dict[str, str] | None  # by file name; None: an older version, which recorded none
    is_sealed: bool


def write_description(run: RunDirectory, command: Sequence[str]) -> None:
    """Describe a run whose tokenizers are in its directory.

    Raises:
        RunError: It cannot be written.
    """
    values = {
        "format": FORMAT,
        "versions": package_versions(),
        "command": list(command),
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "tokenizer": {path.name: file_digest(path) for path in tokenizer_files(run)},
    }
    write_sealed_json(run.description, values)


def read_description(run: RunDirectory) -> Description:
    """What `run.json` says, if this version can read such a run.

    Raises:
        NewerFormatError: It is of a newer format.
        InputError: It is damaged.
        RunError: Its content is not what was written.
    """
    path = run.description
    try:
        content = path.read_bytes()
        values = json.loads(content)
        run_format, writer, created = int(values["format"]), values["versions"]["translate"], values.get("created", "")
        for text in (writer, created):
            if not isinstance(text, str) or not _VERSION_OR_DATE.fullmatch(text):
                raise ValueError(f"{str(text)[:40]!r} is no version or date")
        if run_format > FORMAT:
            raise NewerFormatError(
                f"{run.path} was written by translate {writer} in format {run_format};"
                f" this is {__version__}, which reads up to {FORMAT}"
            )
        digests = _tokenizer_digests(values.get("tokenizer"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{path} is damaged: {error}") from error
    return Description(run_format, writer, created, digests, is_sealed=check_seal(path, content))


def _tokenizer_digests(value: Any) -> dict[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, dict) or not value:
        raise ValueError("tokenizer names no files")
    for name, digest in value.items():
        if name not in _MODELS:
            raise ValueError(f"tokenizer names {name!r}, not one of {', '.join(_MODELS)}")
        if not isinstance(digest, str) or not digest.startswith("sha256:"):
            raise ValueError(f"tokenizer has no sha256 of {name}")
    return value


def check_tokenizers(run: RunDirectory, description: Description) -> None:
    """Raise the RunError that names a tokenizer file that is not the one that this run was made with, if there is one.

    Raises:
        InputError: A file is missing.
    """
    if description.tokenizer_digests is None:
        return
    for path in tokenizer_files(run):
        if path.name not in description.tokenizer_digests:
            raise RunError(f"{path}: this run was made without it; remove it")
    for name, expected in description.tokenizer_digests.items():
        path = run.tokenizer / name
        if not path.is_file():
            raise InputError(f"{path}: is missing; copy the run again, whole")
        found = file_digest(path)
        if found != expected:
            raise RunError(
                f"{path}: is damaged, or another model's tokenizer: its checksum should be {shortened(expected)}, but"
                f" is {shortened(found)}; copy the run's own anew from where it came"
            )


def tokenizer_files(run: RunDirectory) -> list[Path]:
    """The SentencePiece models that are in a run."""
    return [path for name in _MODELS if (path := run.tokenizer / name).is_file()]
