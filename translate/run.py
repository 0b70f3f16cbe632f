"""A run directory: what is in it, how it is written and read, safely. Self-contained: copied elsewhere, it translates.

    config.yaml                    the resolved config, every default said
    run.json                       format, versions, command
    tokenizer/                     SentencePiece models
    checkpoints/best.safetensors   the weights that scored best on validation
    checkpoints/last.safetensors   weights, optimizer and all else that `--resume` needs
    metrics.jsonl                  one line for each log entry and validation
    evaluation/NAME/               hypotheses and scores of a test set
    shortlist.safetensors          likely translations of each word, if `translate shortlist` made it
    export/                        the model as other engines read it, if one of them was asked for

Files are written to a temporary name and renamed, so that a reader never meets half of one; and nothing is ever
loaded by unpickling: tensors are safetensors, the rest is text.
"""

import contextlib
import datetime
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from translate import __version__
from translate.config import Config, read_resolved_config
from translate.config.show import resolved_yaml
from translate.data.tokenizer import PAD_ID, Tokenizers, load_tokenizers
from translate.errors import InputError, RunError
from translate.model import Transformer
from translate.versions import package_versions

FORMAT = 1  # raised when an older toolkit could not read a newer run
WEIGHTS_PREFIX = "model."
AVERAGE_PREFIX = "average."

Checkpoint = Literal["best", "last"]


class TensorFile(NamedTuple):
    """A safetensors file in memory."""

    tensors: dict[str, Tensor]
    metadata: dict[str, str]


class LoadedRun(NamedTuple):
    """What translating needs of a run."""

    directory: Path
    config: Config
    tokenizers: Tokenizers
    model: Transformer
    step: int  # at which the weights were saved


class RunDirectory:
    """Paths in a run directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.yaml"
        self.description = path / "run.json"
        self.tokenizer = path / "tokenizer"
        self.metrics = path / "metrics.jsonl"
        self.evaluation = path / "evaluation"
        self.shortlist = path / "shortlist.safetensors"

    def checkpoint(self, which: Checkpoint) -> Path:
        """The file of a checkpoint, whether it exists yet or not."""
        return self.path / "checkpoints" / f"{which}.safetensors"


def create_run(path: Path, *, config: Config, tokenizers: Tokenizers, command: list[str]) -> RunDirectory:
    """Make a run directory with all but its checkpoints.

    Raises:
        InputError: There is a run already.
        RunError: It cannot be written.
    """
    run = RunDirectory(path)
    refuse_existing_run(path)
    try:
        run.checkpoint("last").parent.mkdir(parents=True, exist_ok=True)
        run.tokenizer.mkdir(exist_ok=True)
        tokenizers.save(run.tokenizer)
    except OSError as error:
        raise RunError(f"{path}: cannot be written: {error.strerror}") from error
    write_text(run.config, resolved_yaml(config))
    # The description comes last: a directory that has one is a run, whole.
    write_text(run.description, json.dumps(_describe(command), indent=2, ensure_ascii=False) + "\n")
    return run


def refuse_existing_run(path: Path) -> None:
    """Raise the InputError that says there is a run, or a file, where a new run should be."""
    if RunDirectory(path).description.exists():
        raise InputError(
            f"{path} already holds a run: continue it with --resume, choose another directory with --run, or remove it"
        )
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file, not a directory for a run")


def open_run(path: Path) -> RunDirectory:
    """A run directory that exists and that this version can read.

    Raises:
        InputError: No directory, no run, or one of a newer format.
    """
    run = RunDirectory(path)
    if not path.is_dir():
        raise InputError(f"{path}: no such run directory")
    if not run.description.is_file():
        raise InputError(f"{path} is no run directory, or an incomplete one: it has no {run.description.name}")
    try:
        description = json.loads(run.description.read_text(encoding="utf-8"))
        run_format, writer = int(description["format"]), description["versions"]["translate"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{run.description} is damaged: {error}") from error
    if run_format > FORMAT:
        raise InputError(
            f"{path} was written by translate {writer} in format {run_format};"
            f" this is {__version__}, which reads up to {FORMAT}"
        )
    return run


def load_run(path: Path, *, checkpoint: Checkpoint = "best", device: torch.device | None = None) -> LoadedRun:
    """A run's config, tokenizers and model, ready to translate.

    Args:
        checkpoint: best: chosen on validation; last: the newest. A run with an average of its weights gives that.

    Raises:
        InputError: Not a run, or one without that checkpoint.
        RunError: Damaged, or weights that do not fit the model.
    """
    run = open_run(path)
    config = read_resolved_config(run.config)
    tokenizers = load_tokenizers(run.tokenizer)
    file = run.checkpoint(checkpoint)
    if not file.is_file():
        hint = "; training has not validated yet: --checkpoint last" if run.checkpoint("last").is_file() else ""
        raise InputError(f"{path} has no checkpoint {file.name}{hint}")
    tensors, metadata = read_tensors(file)
    model = build_model(config, tokenizers)
    has_average = any(name.startswith(AVERAGE_PREFIX) for name in tensors)
    set_parameters(model, with_prefix(tensors, AVERAGE_PREFIX if has_average else WEIGHTS_PREFIX), name=str(file))
    if not metadata.get("step", "").isdecimal():
        raise RunError(f"{file}: does not say its step; it is no checkpoint of this toolkit")
    return LoadedRun(path, config, tokenizers, model.to(device).eval(), int(metadata["step"]))


def build_model(config: Config, tokenizers: Tokenizers) -> Transformer:
    """The model of a config with the vocabularies of its tokenizers, newly initialised."""
    return Transformer(
        config.model,
        source_vocab_size=tokenizers.source.vocab_size,
        target_vocab_size=tokenizers.target.vocab_size,
        pad_id=PAD_ID,
    )


def get_parameters(model: torch.nn.Module) -> dict[str, Tensor]:
    """The trained tensors by name; tied ones once."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def set_parameters(model: torch.nn.Module, tensors: Mapping[str, Tensor], *, name: str) -> None:
    """Give a model saved weights: all or none.

    Raises:
        RunError: Tensors are missing, unexpected or of another shape; all are listed.
    """
    parameters = dict(model.named_parameters())
    problems = [f"missing: {key}" for key in parameters.keys() - tensors.keys()]
    problems += [f"unexpected: {key}" for key in tensors.keys() - parameters.keys()]
    problems += [
        f"{key}: shape {tuple(tensors[key].shape)}, but the model has {tuple(parameters[key].shape)}"
        for key in parameters.keys() & tensors.keys()
        if parameters[key].shape != tensors[key].shape
    ]
    if problems:
        raise RunError(f"{name} does not fit the model of its config: " + "; ".join(sorted(problems)))
    with torch.no_grad():
        for key, parameter in parameters.items():
            parameter.copy_(tensors[key])


def with_prefix(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin so, without the beginning."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def add_prefix(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors with their names begun so."""
    return {prefix + name: tensor for name, tensor in tensors.items()}


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write a safetensors file whole, or leave the old one as it was.

    Raises:
        RunError: The disk is full, the directory gone or read-only.
    """
    temporary = path.with_name(path.name + ".tmp")
    try:
        temporary.touch()
        mode = temporary.stat().st_mode
        save_file(
            {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, temporary, dict(metadata)
        )
        temporary.chmod(mode)  # as any new file's; safetensors lets the owner alone read its files
        _rename_durably(temporary, path)
    except (OSError, SafetensorError) as error:
        _remove(temporary)
        raise RunError(f"{path}: cannot be written: {error}; earlier checkpoints are intact") from error


def read_tensors(path: Path) -> TensorFile:
    """A safetensors file, whole.

    Raises:
        RunError: The file is damaged or cannot be read.
    """
    try:
        with safe_open(path, framework="pt") as file:
            return TensorFile({name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {})  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise RunError(f"{path}: damaged or unreadable: {error}") from error


def write_text(path: Path, text: str) -> None:
    """Write a text file whole, or leave the old one as it was.

    Raises:
        RunError: It cannot be written.
    """
    temporary = path.with_name(path.name + ".tmp")
    try:
        temporary.write_text(text, encoding="utf-8", newline="\n")
        _rename_durably(temporary, path)
    except OSError as error:
        _remove(temporary)
        raise RunError(f"{path}: cannot be written: {error.strerror}") from error


def _remove(temporary: Path) -> None:
    """Take away what was half written, if that can be done; the error to tell is the one before."""
    with contextlib.suppress(OSError):
        temporary.unlink()


def _rename_durably(temporary: Path, path: Path) -> None:
    """Rename, after the bytes are on the disk and with the directory's entry after them."""
    sync(temporary)
    os.replace(temporary, path)
    if os.name == "posix":
        sync(path.parent)


def sync(path: Path) -> None:
    """Wait until a file's bytes, or a folder's entries, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _describe(command: list[str]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "versions": package_versions(),
        "command": command,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
