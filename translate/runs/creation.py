"""A new run directory: everything but its checkpoints."""

from pathlib import Path

from translate.atomic import fsync_file, fsync_folder, write_error, write_text
from translate.config import Config
from translate.config.show import resolved_yaml
from translate.data.tokenizer import Tokenizers
from translate.errors import InputError
from translate.runs.description import tokenizer_files, write_description
from translate.runs.directory import RunDirectory
from translate.runs.safety import refuse_hostile_paths
from translate.runs.seal import UNSEALED, sealed_text


def create_run(path: Path, *, config: Config, tokenizers: Tokenizers, command: list[str]) -> RunDirectory:
    """Make a run directory with all but its checkpoints.

    Raises:
        InputError: There is a run already.
        RunError: It cannot be written, or what lies there already leads out of it.
    """
    run = RunDirectory(path)
    refuse_existing_run(path)
    try:
        run.checkpoints.mkdir(parents=True, exist_ok=True)
        refuse_hostile_paths(run)
        run.tokenizer.mkdir(exist_ok=True)
        for leftover in tokenizer_files(run):  # of a run that was killed before it was one
            leftover.unlink()
        tokenizers.save(run.tokenizer)
        for file in tokenizer_files(run):
            fsync_file(file)
        fsync_folder(run.tokenizer)
    except OSError as error:
        raise write_error(path, error) from error
    write_config(run, config)
    # The description comes last: a directory that has one is a run, whole.
    write_description(run, command)
    return run


def refuse_existing_run(path: Path) -> None:
    """Raise the InputError that says there is a run, or a file, where a new run should be."""
    if RunDirectory(path).description.exists():
        raise InputError(
            f"{path} already holds a run: continue it with --resume, choose another directory with --run, or remove it"
        )
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file, not a directory for a run")


def write_config(run: RunDirectory, config: Config) -> None:
    """Write the resolved config of a run, with its checksum.

    Raises:
        RunError: It cannot be written.
    """
    seal = f'# "sha256": "{UNSEALED}" of this file, with zeros here; if you edit it, remove this line.\n'
    write_text(run.config, sealed_text(seal + resolved_yaml(config)))
