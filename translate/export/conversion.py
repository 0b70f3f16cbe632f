"""A run's CTranslate2 model, made once and kept in the run: RUN/export/ctranslate2-CHECKPOINT-FINGERPRINT."""

import hashlib
from pathlib import Path

from translate.config import read_resolved_config
from translate.errors import InputError
from translate.export.ctranslate2 import TABLE_POSITIONS, write_ctranslate2
from translate.export.folder import write_folder
from translate.runs import Checkpoint, RunDirectory, load_run, open_run
from translate.runs.checksums import check_checksums, write_checksums
from translate.runs.safety import require_kind

CONVERSION = 1
"""Raised when models that were converted before are to be converted anew."""


def converted_run(run_path: Path, *, checkpoint: Checkpoint) -> Path:
    """The folder with a checkpoint's CTranslate2 model; converted and checked if it was not before.

    The name has the content of all that the model is made of, so a checkpoint that training has written since is
    another folder. Two processes that convert at once do so twice, and use what the quicker one made.

    Raises:
        InputError: Not a run, one without that checkpoint, or the package is not installed.
        RunError: The run or what was converted before is damaged, the run cannot be written to, or the converted
            numbers are not the model's.
    """
    run = open_run(run_path)
    file = run.checkpoint(checkpoint)
    if not file.is_file():
        raise InputError(f"{run_path} has no checkpoint {file.name}")
    folder = run.path / "export" / f"ctranslate2-{checkpoint}-{_fingerprint(run, file)}"
    require_kind(folder, "folder", within=run.path)
    if not (folder / "model.bin").is_file():
        loaded = load_run(run_path, checkpoint=checkpoint)

        def write(directory: Path) -> None:
            write_ctranslate2(loaded.model, loaded.tokenizers, directory)
            write_checksums(directory)

        write_folder(folder, write)
    check_checksums(folder)
    return folder


def _fingerprint(run: RunDirectory, checkpoint: Path) -> str:
    model = read_resolved_config(run.config).model
    digest = hashlib.sha256(f"{CONVERSION} {TABLE_POSITIONS} {model.model_dump_json()}".encode())
    for path in (checkpoint, *sorted(run.tokenizer.iterdir())):
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]
