"""Runs made of other toolkits' models, checked to give the same numbers."""

import os
from collections.abc import Sequence
from pathlib import Path

from translate.atomic import temporary_beside, write_error
from translate.errors import InputError
from translate.exchange.conversion import convert
from translate.exchange.marian import is_marian, read_marian
from translate.exchange.marian_mt import download, read_marian_mt
from translate.fingerprint import fingerprint
from translate.runs.checkpoint import WEIGHTS_PREFIX, add_prefix, write_checkpoint
from translate.runs.directory import create_run
from translate.runs.loading import LoadedRun, get_parameters


def import_model(source: str, run: Path, *, overrides: Sequence[str] = (), command: Sequence[str]) -> LoadedRun:
    """Write a run of another toolkit's model, after checking that it gives the same numbers.

    Args:
        source: A folder with a MarianMT model of Hugging Face or with Marian's own files, or a name on the Hub.
        run: A folder that does not exist yet, or an empty one.
        overrides: `dotted.key=value` settings that the files do not contain, such as the languages.
        command: The command that the user typed, which the run records.

    Returns:
        The run as it is loaded.

    Raises:
        InputError: There is no such model, a package is not installed, the model has something that a run cannot hold,
            or `run` is not empty.
        RunError: Our model gives other numbers, or the disk is full; nothing is left behind.
    """
    if run.exists() and not (run.is_dir() and not any(run.iterdir())):
        raise InputError(f"{run} is not an empty folder: name another one for the run")
    folder = Path(source) if os.path.exists(source) else download(source)
    foreign = read_marian(folder) if is_marian(folder) else read_marian_mt(folder)
    imported = convert(foreign, run, overrides)
    foreign.check(imported.model, imported.tokenizers)
    origin = {
        "source": source,
        "folder": str(folder.resolve()),  # of a download, its name is the commit
        **({} if foreign.licence is None else {"licence": foreign.licence}),
        "read_with": foreign.reader,
        "files": {file.name: fingerprint(file) for file in foreign.files},
    }
    config, tokenizers = imported.config, imported.tokenizers
    weights = add_prefix(get_parameters(imported.model), WEIGHTS_PREFIX)
    try:
        run.parent.mkdir(parents=True, exist_ok=True)
        with temporary_beside(run) as temporary:
            new = create_run(
                temporary, config=config, tokenizers=tokenizers, command=command, provenance={"imported": origin}
            )
            write_checkpoint(new, "best", weights, {"step": "0"})
            os.replace(temporary, run)
    except OSError as error:
        raise write_error(run, error) from error
    return imported
