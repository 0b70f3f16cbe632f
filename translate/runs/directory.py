"""The parts of a run directory, how a new one is written, and whether a copied one is complete."""

import dataclasses
import datetime
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from translate._version import __version__, package_versions
from translate.atomic import explain_write_errors, is_temporary, sync, text_bytes, write_text
from translate.config.data import DataConfig
from translate.config.languages import list_some
from translate.config.schema import Config
from translate.config.show import resolved_yaml
from translate.data.tokenizer import Tokenizers
from translate.errors import InputError
from translate.files import FileError, parse_json, read_input, remember_folder
from translate.fingerprint import fingerprint
from translate.nearest import did_you_mean
from translate.runs.checksums import CHECKSUMS, check_inside, read_checksums, write_checksums

LOCK_MARK = "lock of translate-nmt\n"  # the first line of a lock file
FORMAT = 3  # Raised when an older toolkit cannot read a newer run.
Checkpoint = str  # best, last, or step-N if training kept the weights of the validation at step N

_TOKENIZER_MODELS = ("joint.model", "source.model", "target.model")
_Printable = Annotated[str, Field(pattern="^[ -~]{0,100}$")]
_STEP = "(0|[1-9][0-9]{0,15})"


class RunDirectory:
    """Paths in a run directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.yaml"
        self.description = path / "run.json"
        self.tokenizer = path / "tokenizer"
        self.checksums = path / CHECKSUMS
        self.checkpoints = path / "checkpoints"
        self.previous = self.checkpoints / "previous.safetensors"  # the checkpoint before the last one
        self.metrics = path / "metrics.jsonl"
        self.log = path / "log.txt"
        self.evaluation = path / "evaluation"
        self.export = path / "export"
        self.profile = path / "profile"  # of versions up to 0.13
        self.trackers = path / "trackers.json"
        self.tensorboard = path / "tensorboard"
        self.wandb = path / "wandb"
        self.mlflow = path / "mlflow"
        self.lock = path / "lock"

    def parts(self) -> list[Path]:
        """Every path that a run may have, whether it exists or not, and the contents of its folders."""
        named = [path for path in vars(self).values() if path != self.path]
        return list(dict.fromkeys([*named, *(part for folder in named for part in folder.glob("*"))]))

    def checkpoint(self, which: Checkpoint) -> Path:
        """The file of a checkpoint, whether it exists or not; an InputError if no checkpoint has such a name."""
        if not re.fullmatch(f"best|last|step-{_STEP}", which):
            raise InputError(f"{ascii(which)} is not a checkpoint: choose best, last, or a kept one such as step-4000")
        return self.checkpoints / f"{which}.safetensors"

    def kept_steps(self) -> list[int]:
        """The steps of the validations whose weights are kept here."""
        names = [path.stem.removeprefix("step-") for path in self.checkpoints.glob("step-*.safetensors")]
        return sorted(int(name) for name in names if re.fullmatch(_STEP, name))

    def tokenizer_files(self) -> list[Path]:
        """The SentencePiece models that the run has."""
        return [path for name in _TOKENIZER_MODELS if (path := self.tokenizer / name).is_file()]


@dataclasses.dataclass
class Description:
    """The content of `run.json`, as far as it is read."""

    format: Annotated[int, Field(strict=True, gt=0, lt=2**31)]
    versions: dict[str, _Printable]  # of packages
    created: _Printable = ""  # date and time in ISO 8601
    command: list[str] = dataclasses.field(default_factory=list)
    imported: dict[str, Any] = dataclasses.field(default_factory=dict)  # see `import_model`
    initialized_from: dict[str, Any] = dataclasses.field(default_factory=dict)  # see `InitialWeights.provenance`
    # Of the training sources with more than one sentence; None: of an imported model, or a run of an earlier version.
    multi_sentence_share: Annotated[float, Field(ge=0.0, le=1.0)] | None = None

    @property
    def base(self) -> dict[str, Any]:
        """The entry `imported` of this run, or of the run that its fine-tunings began from; empty: there is none."""
        base = self.imported or self.initialized_from.get("imported")
        return base if isinstance(base, dict) else {}

    def licences(self, data: DataConfig) -> set[str | None]:
        """The licences of the imported model and of all training data behind the weights; None: one is not known.

        Args:
            data: The run's own section `data`.
        """
        if self.imported:
            licence = self.imported.get("licence")
            found = licence if isinstance(licence, list) else [licence]  # of a model with several
        else:
            before = self.initialized_from.get("licences")  # earlier versions did not record them
            unknown = [None] if self.initialized_from else []
            found = [*(before if isinstance(before, list) else unknown), *(corpus.license for corpus in data.train)]
        return {licence if isinstance(licence, str) else None for licence in found}


class FormatError(InputError):
    """A run was written by a version that is too old or too new for this one to read it."""


def create_run(
    path: Path,
    *,
    config: Config,
    tokenizers: Tokenizers,
    command: Sequence[str],
    provenance: Mapping[str, Any] | None = None,
) -> RunDirectory:
    """Make a run directory with everything but its checkpoints.

    Args:
        provenance: More entries for `run.json`, about the origin of the run's weights and its data.

    Raises:
        InputError: The directory holds a run already.
        RunError: The directory cannot be written, or a part of it is a link that leads out of it.
    """
    run = RunDirectory(path)
    check_holds_no_run(path)
    with explain_write_errors(path):
        run.checkpoints.mkdir(parents=True, exist_ok=True)
        remember_folder(path)
        for part in run.parts():
            check_inside(part, path)
        run.tokenizer.mkdir(exist_ok=True)
        for leftover in run.tokenizer_files():  # A process was killed while creating this run.
            leftover.unlink()
        tokenizers.save(run.tokenizer)
        for written in (*run.tokenizer_files(), run.tokenizer):
            sync(written)
    write_text(run.config, resolved_yaml(config))
    created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    values = {"format": FORMAT, "versions": package_versions(), "command": list(command), "created": created}
    values |= provenance or {}
    description = json.dumps(values, indent=2, ensure_ascii=False) + "\n"
    files = (run.config, *run.tokenizer_files())
    checksums = {file.relative_to(path).as_posix(): fingerprint(file) for file in files}
    write_checksums(path, checksums | {run.description.name: fingerprint(text_bytes(description))})
    # The description comes last: a directory that has one is a whole run.
    write_text(run.description, description)
    return run


def check_holds_no_run(path: Path) -> None:
    """Raise an InputError unless a path is new, an empty folder, or a run that was never completed.

    A process that was killed while creating a run leaves its lock file, and only names that a run has.
    """
    if RunDirectory(path).description.exists():
        raise InputError(
            f"{path} already holds a run: continue it with --resume, choose another directory with --run, or remove it"
        )
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file, not a directory for a run")
    names = {entry.name for entry in path.iterdir()} if path.is_dir() else set()
    run = RunDirectory(path)
    foreign = {name for name in names - {part.name for part in vars(run).values()} if not is_temporary(path / name)}
    is_begun = run.lock.exists() and is_lock_file(run.lock) and (run.lock.stat().st_size or names == {run.lock.name})
    if names and not is_begun:
        foreign = foreign or names
    if foreign:
        raise InputError(
            f"{path} is neither empty nor a run: it has {list_some(sorted(foreign))}; choose another directory with"
            " --run"
        )


def is_lock_file(file: Path) -> bool:
    """Whether a file can be used as a lock: it does not exist, is empty, has our mark, or may not be read.

    Version 0.8.0 wrote no mark. Its locks count in complete runs only, because any other folder may be a user's.
    """
    if not file.is_file():
        return not file.exists()
    try:
        content = read_input(file)
    except FileError as error:  # Windows lets no second handle read a locked file
        return isinstance(error.__cause__, PermissionError)
    if RunDirectory(file.parent).description.is_file() and re.fullmatch(rb"process [0-9]+ on [^\n]+\n", content):
        return True
    return not content or content.startswith(LOCK_MARK.encode())


def containing_run(path: Path) -> Path | None:
    """The run that a path belongs to, by its place and name; None: it belongs to none."""
    real = Path(os.path.realpath(path))
    for folder in real.parents:
        run = RunDirectory(folder)
        if run.description.is_file() and folder / real.relative_to(folder).parts[0] in vars(run).values():
            return folder
    return None


def write_config(run: RunDirectory, config: Config) -> None:
    """Write the resolved config of a run that is continued, unless it is unchanged.

    A process that is killed at this point leaves a config without a checksum, never one with a wrong checksum.

    Raises:
        RunError: The config cannot be written, or the checksums are damaged.
    """
    text = resolved_yaml(config)
    checksums = read_checksums(run.path)
    if checksums.pop(run.config.name, None) != fingerprint(text) or read_input(run.config) != text_bytes(text):
        write_checksums(run.path, checksums)
        write_text(run.config, text)
        write_checksums(run.path, {**checksums, run.config.name: fingerprint(text)})


def check_holds_run(path: Path) -> None:
    """Raise an InputError that says what a path is, if it is not a run directory."""
    if not path.is_dir():
        runs = [str(run) for run in [Path("runs") / path.name] if RunDirectory(run).description.is_file()]
        problem = "is a file, not a run directory" if path.exists() else "no such run directory"
        raise InputError(f"{path}: {problem}{did_you_mean(runs) or '; `translate runs` lists runs'}")
    if not os.path.lexists(RunDirectory(path).description):
        runs = [str(description.parent) for description in sorted(path.glob("*/run.json"))]
        hint = "if the copy is incomplete, copy the whole run again"
        raise InputError(f"{path} is not a run directory: it has no run.json; {hint}{did_you_mean(runs[:3])}")


def parse_description(run: RunDirectory, content: bytes) -> Description:
    """Read the content of `run.json`, if this version can read the run.

    Raises:
        FormatError: A version before 0.8 wrote the run, or a newer one in a newer format.
        FileError: It is damaged.
    """
    description = parse_json(content, Description, path=run.description)
    writer = description.versions.get("translate", "")
    written = f"{run.path} was written by translate {writer or '(unknown version)'} in format {description.format}"
    if description.format > FORMAT:
        raise FormatError(f"{written}; this is {__version__}, which reads up to {FORMAT}")
    if description.format < FORMAT or re.match(r"0\.[0-7]\b", writer):
        raise FormatError(f"{written}; the last version that reads it is 0.13")
    return description
