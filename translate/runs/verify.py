"""Every file of a run directory against its checksum and against the others: the report of `translate verify`."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from translate.atomic import is_temporary
from translate.config.load import read_resolved_config
from translate.config.schema import Config
from translate.config.yaml import shown_path
from translate.data.tokenizer import load_tokenizers
from translate.errors import InputError, RunError
from translate.fingerprint import fingerprint
from translate.runs.checkpoint import AVERAGE_PREFIX, WEIGHTS_PREFIX, read_step, read_tensors, with_prefix
from translate.runs.checksums import CHECKSUMS, DamageError, check_file, check_folder, check_inside, read_checksums
from translate.runs.directory import (
    Description,
    NewerFormatError,
    RunDirectory,
    check_config_is_complete,
    check_holds_run,
    check_tokenizers,
    list_names,
    read_description,
)
from translate.runs.loading import build_model, check_same_tensors, get_parameters

State = Literal["ok", "no checksum", "DAMAGED", "CHANGED", "MISSING", "absent", "leftover", "unknown"]
_MAX_UNKNOWN = 100
_FOREIGN = {"tensorboard": "TensorBoard's events", "profile": "what translate train --profile wrote"}


class FileReport(NamedTuple):
    """The state of one file."""

    name: str  # relative to the run directory
    state: State
    detail: str


class Verification(NamedTuple):
    """The state of a run."""

    writer: str | None  # version of this toolkit; None: unknown
    created: str
    run_format: int | None
    files: list[FileReport]

    @property
    def unsound(self) -> list[str]:
        """The names of files that are missing or not as they were written."""
        return [file.name for file in self.files if file.state in {"DAMAGED", "CHANGED", "MISSING"}]

    @property
    def summary(self) -> str:
        """The result in one sentence."""
        if self.unsound:
            return f"not sound: {list_names(self.unsound)}"
        if num_unknown := sum(file.state == "no checksum" for file in self.files):
            by = f", written by translate {self.writer}" if self.writer else ""
            return f"sound, as far as can be said: no checksum was recorded of {num_unknown}{by}"
        return "sound: every file is as it was written"


@dataclass
class _Known:
    """What the files that have been checked say about the files that are checked after them."""

    run: RunDirectory
    files: list[FileReport] = field(default_factory=list)
    seen: set[Path] = field(default_factory=set)
    description: Description | None = None
    checksums: dict[str, str] = field(default_factory=dict)  # of the run, then of one evaluation after another
    config: Config | None = None
    parameters: dict[str, Tensor] = field(default_factory=dict)  # of the config's model; none: unknown
    progress: dict[str, Any] = field(default_factory=dict)  # of the newest intact checkpoint


_Finding = tuple[State, str] | None  # None: the file needs no line in the report; damage is raised


def verify_run(path: Path) -> Verification:
    """Check every file of a run; none is changed.

    Raises:
        InputError: There is no run, or one of a newer format.
    """
    check_holds_run(path)
    known = _Known(RunDirectory(path))
    for file, check in _checks(known):
        known.seen.add(file)
        try:
            check_inside(file, path)
            finding = check(known, file)
        except NewerFormatError:
            raise
        except (InputError, RunError, OSError) as error:
            finding = "DAMAGED", _shorten(known.run, file, error)
        if finding is not None:
            is_folder = file == known.run.tokenizer or file.parent == known.run.export
            known.files.append(FileReport(_name(known.run, file, is_folder=is_folder), *finding))
    about = known.description
    writer, created, run_format = (None, "", None) if about is None else (about.writer, about.created, about.run_format)
    return Verification(writer, created, run_format, known.files + _others(known))


def _checks(known: _Known) -> Iterator[tuple[Path, Callable[[_Known, Path], _Finding]]]:
    """The files of a run and their checks, in the order in which one file says what others must be."""
    run = known.run
    yield run.description, _check_description
    for path in (run.lock, run.checkpoints, run.evaluation, run.export):
        yield path, lambda *_: None  # They have no line unless they are links out of the run.
    yield run.path / CHECKSUMS, _check_checksums
    yield run.config, _check_config
    yield run.tokenizer, _check_tokenizers
    first = len(known.files)
    for path in (run.checkpoint("last"), run.previous, run.checkpoint("best")):
        yield path, _check_checkpoint
    known.files[first:] = sorted(known.files[first:])
    yield run.metrics, _check_metrics
    yield run.shortlist, lambda _, path: _found(read_tensors(path).has_digest) if os.path.lexists(path) else None
    for folder in _folders(run.evaluation):
        known.seen.add(folder)
        yield folder / CHECKSUMS, _check_checksums
        yield folder / "report.json", _check_evaluation
        yield folder / "hypotheses.txt", _check_evaluation
    for folder in _folders(run.export):
        if folder.name.startswith("ctranslate2-"):
            yield folder, lambda _, path: _found(check_folder(path))


def _check_description(known: _Known, _: Path) -> _Finding:
    known.description = read_description(known.run)
    return _found(known.description.has_checksum)


def _check_checksums(known: _Known, path: Path) -> _Finding:
    """The checksums of a folder, which need no line of their own unless something is wrong with them."""
    known.checksums = {}
    checksums = known.checksums = read_checksums(path.parent)
    if path.parent != known.run.path:
        return None
    if unknown := [name for name in checksums if not name.startswith(("tokenizer/", "config.yaml", "run.json"))]:
        raise DamageError(path, f"it names files that no run has: {list_names(unknown)}")
    is_whole = any(name.startswith("tokenizer/") for name in checksums)  # The last lines are the tokenizers'.
    if is_whole or known.description is None or known.description.run_format <= 2:
        return None
    return "DAMAGED" if checksums else "MISSING", "the run was half copied"


def _check_config(known: _Known, path: Path) -> _Finding:
    if not os.path.lexists(path):
        return "MISSING", "the run was half copied"
    check_config_is_complete(known.run)
    known.config = read_resolved_config(path)
    try:
        return _found(check_file(path, known.checksums.get(path.name)))
    except RunError:
        hint = f"by hand? if so, remove its line from {CHECKSUMS}, or its first line if that has a checksum"
        return "CHANGED", hint


def _check_tokenizers(known: _Known, folder: Path) -> _Finding:
    files = known.run.tokenizer_files()
    known.seen.update(files)
    for path in folder.glob("*"):
        check_inside(path, known.run.path)
    if known.description is not None:
        check_tokenizers(known.run, known.description)
    tokenizers = load_tokenizers(folder)
    state: State = "ok" if known.description and known.description.tokenizer_checksums else "no checksum"
    for path in files:
        size = (tokenizers.target if path.stem == "target" else tokenizers.source).vocab_size
        known.files.append(FileReport(f"{folder.name}/{path.name}", state, f"{size:,} subwords"))
    if known.config is not None:
        with torch.device("meta"):
            known.parameters = get_parameters(build_model(known.config, tokenizers))
    return None


def _check_checkpoint(known: _Known, path: Path) -> _Finding:
    """The weights against the config's model, and the best step against that of the newest checkpoint."""
    last, best = known.run.checkpoint("last"), known.run.checkpoint("best")
    best_step = known.progress.get("best_step")
    if not os.path.lexists(path):
        if path == last and os.path.lexists(best):
            return "absent", "the run translates, but cannot be resumed"
        if path != best:
            return None
        if not (os.path.lexists(last) or os.path.lexists(known.run.previous)):
            return "MISSING", "there is no checkpoint: half copied, or stopped before the first"
        if best_step is not None:
            return "MISSING", "the training had one"
        return "absent", "training has not validated yet: use --checkpoint last"
    tensors, metadata, has_digest = read_tensors(path)
    step = read_step(path, metadata)
    for weights in (with_prefix(tensors, WEIGHTS_PREFIX), with_prefix(tensors, AVERAGE_PREFIX)):
        if weights and known.parameters:
            check_same_tensors(known.parameters, weights, name=str(path))
    if path == best:
        if isinstance(best_step, int) and step < best_step:
            better = f"of step {step}, but the training has a better one of step {best_step}; copy that too"
            raise RunError(f"{path}: {better}")
        return _found(has_digest, f"step {step}, {sum(map(torch.numel, tensors.values())):,} parameters")
    try:
        progress = dict(json.loads(metadata["progress"]))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RunError(f"{path}: cannot be resumed from; its progress is missing or unreadable: {error}") from error
    known.progress = known.progress or progress
    return _found(has_digest, f"step {step}, resumable")


def _check_metrics(known: _Known, path: Path) -> _Finding:
    """Whether the metrics are lines of JSON, and begin as the newest checkpoint says."""
    if not os.path.lexists(path):
        return None
    content = path.read_bytes()
    num_bytes, expected = known.progress.get("metrics_bytes"), known.progress.get("metrics_sha256")
    if expected is not None and fingerprint(content[:num_bytes]) != expected:
        raise DamageError(path, f"its first {num_bytes} bytes are not those that the last checkpoint saw")
    *lines, rest = content.split(b"\n")
    for number, line in enumerate(lines, start=1):
        try:
            json.loads(line)["step"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise RunError(f"{path}: line {number} is no record: {error}") from error
    cut = ", and half a record of a process that was killed, which --resume removes" if rest else ""
    return _found(expected is not None, f"{len(lines)} records{cut}")


def _check_evaluation(known: _Known, path: Path) -> _Finding:
    """The report or the hypotheses of an evaluation."""
    if not os.path.lexists(path):
        is_lost = path.name == "hypotheses.txt" and os.path.lexists(path.with_name("report.json"))
        return ("MISSING", "make it again with translate eval") if is_lost else None
    if path.name == "report.json":
        try:
            hypotheses = dict(json.loads(path.read_bytes())).get("hypotheses")
        except (ValueError, TypeError, RecursionError) as error:
            raise RunError(f"{path}: is no report: {error}") from error
        if not known.checksums and isinstance(hypotheses, str):  # format 2
            known.checksums = {"hypotheses.txt": hypotheses.removeprefix("sha256:")}
    return _found(check_file(path, known.checksums.get(path.name)))


def _found(has_checksum: bool, detail: str = "") -> _Finding:
    return "ok" if has_checksum else "no checksum", detail


def _folders(folder: Path) -> list[Path]:
    """The folders in a folder, unless this is a link."""
    entries = [] if folder.is_symlink() else sorted(folder.glob("*"))
    return [entry for entry in entries if entry.is_dir() and not entry.is_symlink()]


def _others(known: _Known) -> list[FileReport]:
    """What does not belong to a run, and what processes that were killed have left."""
    run, others, unknown = known.run, list[FileReport](), list[FileReport]()
    for place, folders, files in os.walk(run.path):
        for name in sorted((*folders, *files)):
            path, is_folder, is_known = Path(place, name), name in folders, Path(place, name) in known.seen
            if is_folder and (not is_known or path.parent == run.export):
                folders.remove(name)  # Its content needs no lines of its own.
            if is_known:
                continue
            shown = _name(run, path, is_folder=is_folder)
            if is_temporary(path):
                others.append(FileReport(shown, "leftover", "of a process that was killed or is writing now"))
            elif path.parent == run.path and name in _FOREIGN:
                others.append(FileReport(shown, "no checksum", _FOREIGN[name]))
            else:
                unknown.append(FileReport(shown, "unknown", "does not belong to a run, and is not used"))
    if (more := len(unknown) - _MAX_UNKNOWN) > 0:
        unknown[_MAX_UNKNOWN:] = [FileReport("…", "unknown", f"and {more} more that do not belong to a run")]
    return others + unknown


def _name(run: RunDirectory, path: Path, *, is_folder: bool) -> str:
    """A path within the run, as people and terminals can read it."""
    name = path.relative_to(run.path).as_posix()
    return (name if name.isprintable() else ascii(name)) + "/" * is_folder


def _shorten(run: RunDirectory, path: Path, error: Exception) -> str:
    """An error's message without what its line says already."""
    text = str(error)
    for beginning in (f"{path}: ", f"{shown_path(path)}: ", f"{path} ", "damaged: ", "is "):
        text = text.removeprefix(beginning)
    return text.replace(f"{run.path}{os.sep}", "")
