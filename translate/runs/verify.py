"""Every file of a run directory against its checksum and against the others: the report of `translate verify`."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import torch

from translate.atomic import is_temporary
from translate.config import Config, read_resolved_config
from translate.config.yaml import shown_path
from translate.data.tokenizer import Tokenizers, load_tokenizers
from translate.errors import InputError, RunError
from translate.fingerprint import fingerprint
from translate.runs.checkpoint import AVERAGE_PREFIX, WEIGHTS_PREFIX, TensorFile, read_step, read_tensors, with_prefix
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
_Result = TypeVar("_Result")
_Finding = bool | tuple[bool, str]  # whether a file has a checksum, and what else there is to say
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
    files: tuple[FileReport, ...]

    @property
    def unsound(self) -> list[str]:
        """The names of files that are missing or not as they were written."""
        return [file.name for file in self.files if file.state in {"DAMAGED", "CHANGED", "MISSING"}]

    @property
    def is_sound(self) -> bool:
        """Whether every file is as it was written, and none is missing."""
        return not self.unsound

    @property
    def summary(self) -> str:
        """The result in one sentence."""
        if self.unsound:
            return f"not sound: {list_names(self.unsound)}"
        num_unknown = sum(file.state == "no checksum" for file in self.files)
        if num_unknown:
            by = f", written by translate {self.writer}" if self.writer else ""
            return f"sound, as far as can be said: no checksum was recorded of {num_unknown}{by}"
        return "sound: every file is as it was written"


def verify_run(path: Path) -> Verification:
    """Check every file of a run; none is changed.

    Raises:
        InputError: There is no run, or one of a newer format.
    """
    check_holds_run(path)
    inspection = _Inspection(RunDirectory(path))
    about, files = inspection.description, tuple(inspection.files)
    if about is None:
        return Verification(None, "", None, files)
    return Verification(about.writer, about.created, about.run_format, files)


class _Inspection:
    """Goes through a run in the order in which one file says what others must be, and collects the reports."""

    def __init__(self, run: RunDirectory) -> None:
        self.run = run
        self.files: list[FileReport] = []
        self.description: Description | None = None
        self._config: Config | None = None
        self._tokenizers: Tokenizers | None = None
        self._progress: dict[str, Any] = {}  # of the newest intact checkpoint
        self._seen: set[Path] = set()
        self._check_text_files()
        self._check_tokenizers()
        self._check_checkpoints()
        self._check_if_there(run.metrics, self._check_metrics)
        self._check_if_there(run.shortlist, lambda path: read_tensors(path).has_digest)
        self._check_evaluations()
        conversions = self._check_conversions()
        self._list_others(conversions)

    def _check_text_files(self) -> None:
        run, file = self.run, self.run.config
        self._check(run.description, self._check_description)
        for path in (run.lock, run.checkpoints, run.evaluation, run.export):
            self._try(path, lambda path: None)  # They have no line unless they are links out of the run.
        checksums = self._try(run.path / CHECKSUMS, self._read_checksums) or {}
        if not os.path.lexists(file):
            self._report(file, "MISSING", "the run was half copied")
        elif self._try(file, self._read_config):
            try:
                self._report(file, "ok" if check_file(file, checksums.get(file.name)) else "no checksum")
            except RunError:
                hint = f"by hand? if so, remove its line from {CHECKSUMS}, or its first line if that has a checksum"
                self._report(file, "CHANGED", hint)

    def _check_description(self, path: Path) -> _Finding:
        self.description = read_description(self.run)
        return self.description.has_checksum

    def _read_checksums(self, path: Path) -> dict[str, str]:
        """The recorded checksums, which need no line of their own unless something is wrong with them."""
        checksums = read_checksums(self.run.path)
        is_whole = any(name.startswith("tokenizer/") for name in checksums)  # The last lines are the tokenizers'.
        if not is_whole and self.description is not None and self.description.run_format > 2:
            self._report(path, "MISSING" if not checksums else "DAMAGED", "the run was half copied")
        known = ("tokenizer/", self.run.config.name, self.run.description.name)
        if unknown := [name for name in checksums if not name.startswith(known)]:
            raise DamageError(path, f"it names files that no run has: {list_names(unknown)}")
        return checksums

    def _read_config(self, path: Path) -> Config:
        check_config_is_complete(self.run)
        self._config = read_resolved_config(path)
        return self._config

    def _check_tokenizers(self) -> None:
        folder, files = self.run.tokenizer, self.run.tokenizer_files()
        self._seen |= {folder, *files}
        try:
            for path in (folder, *folder.glob("*")):
                check_inside(path, self.run.path)
            if self.description is not None:
                check_tokenizers(self.run, self.description)
            self._tokenizers = load_tokenizers(folder)
        except (InputError, RunError, OSError) as error:
            self.files.append(FileReport(f"{folder.name}/", "DAMAGED", self._shorten(folder, error)))
            return
        has_checksums = self.description is not None and bool(self.description.tokenizer_checksums)
        for file in files:
            tokenizer = self._tokenizers.target if file.stem == "target" else self._tokenizers.source
            self._report(file, "ok" if has_checksums else "no checksum", f"{tokenizer.vocab_size:,} subwords")

    def _check_checkpoints(self) -> None:
        run, first = self.run, len(self.files)
        best, last, previous = run.checkpoint("best"), run.checkpoint("last"), run.previous
        has_last = self._check_if_there(last, self._check_resumable)
        has_previous = self._check_if_there(previous, self._check_resumable)
        has_best = self._check_if_there(best, self._check_best)
        self.files[first:] = sorted(self.files[first:])
        if has_best and not has_last:
            self._report(last, "absent", "the run translates, but cannot be resumed")
        elif not has_best and not has_last and not has_previous:
            self._report(best, "MISSING", "there is no checkpoint: half copied, or stopped before the first")
        elif not has_best and self._progress.get("best_step") is not None:
            self._report(best, "MISSING", "the training had one")
        elif not has_best:
            self._report(best, "absent", "training has not validated yet: use --checkpoint last")

    def _check_best(self, path: Path) -> _Finding:
        """The weights against the config, and the step against the newest checkpoint's."""
        file = self._read_checkpoint(path)
        step, best_step = read_step(path, file.metadata), self._progress.get("best_step")
        if isinstance(best_step, int) and step < best_step:
            better = f"of step {step}, but the training has a better one of step {best_step}; copy that too"
            raise RunError(f"{path}: {better}")
        num_parameters = sum(tensor.numel() for tensor in file.tensors.values())
        return file.has_digest, f"step {step}, {num_parameters:,} parameters"

    def _check_resumable(self, path: Path) -> _Finding:
        """The weights of the last or previous checkpoint against the config, and its progress."""
        file = self._read_checkpoint(path)
        step = read_step(path, file.metadata)
        try:
            progress = dict(json.loads(file.metadata["progress"]))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise RunError(f"{path}: cannot be resumed from; its progress is missing or unreadable: {error}") from error
        self._progress = self._progress or progress
        return file.has_digest, f"step {step}, resumable"

    def _read_checkpoint(self, path: Path) -> TensorFile:
        """A checkpoint whose weights are those of the config's model."""
        file = read_tensors(path)
        if self._config is not None and self._tokenizers is not None:
            with torch.device("meta"):
                expected = get_parameters(build_model(self._config, self._tokenizers))
            averages = with_prefix(file.tensors, AVERAGE_PREFIX)
            for weights in filter(None, (with_prefix(file.tensors, WEIGHTS_PREFIX), averages)):
                check_same_tensors(expected, weights, name=str(path))
        return file

    def _check_metrics(self, path: Path) -> _Finding:
        """Whether the metrics are lines of JSON, and begin as the newest checkpoint says."""
        content = path.read_bytes()
        num_bytes, expected = self._progress.get("metrics_bytes"), self._progress.get("metrics_sha256")
        if expected is not None and fingerprint(content[:num_bytes]) != expected:
            raise DamageError(path, f"its first {num_bytes} bytes are not those that the last checkpoint saw")
        *lines, rest = content.split(b"\n")
        for number, line in enumerate(lines, start=1):
            try:
                json.loads(line)["step"]
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise RunError(f"{path}: line {number} is no record: {error}") from error
        cut = ", and half a record of a process that was killed, which --resume removes" if rest else ""
        return expected is not None, f"{len(lines)} records{cut}"

    def _check_evaluations(self) -> None:
        for folder in self._folders(self.run.evaluation):
            self._seen.add(folder)
            report, hypotheses = folder / "report.json", folder / "hypotheses.txt"
            checksums = self._try(folder / CHECKSUMS, lambda path: read_checksums(path.parent)) or {}
            content = self._try(report, _read_report) if os.path.lexists(report) else None
            if content is not None:
                self._check(report, check_file, checksums.get(report.name))
                if not checksums and isinstance(recorded := content.get("hypotheses"), str):  # format 2
                    checksums = {hypotheses.name: recorded.removeprefix("sha256:")}
            has_hypotheses = self._check_if_there(hypotheses, check_file, checksums.get(hypotheses.name))
            if os.path.lexists(report) and not has_hypotheses:
                self._report(hypotheses, "MISSING", "make it again with translate eval")

    def _check_conversions(self) -> set[Path]:
        folders = [each for each in self._folders(self.run.export) if each.name.startswith("ctranslate2-")]
        for folder in folders:
            self._check(folder, check_folder)
            self.files[-1] = self.files[-1]._replace(name=f"{self.files[-1].name}/")
        return set(folders)

    def _folders(self, folder: Path) -> list[Path]:
        """The folders in a folder of the run, unless that is a link out of it, which has been reported."""
        try:
            check_inside(folder, self.run.path)
            return sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.is_symlink())
        except (RunError, OSError):
            return []

    def _list_others(self, conversions: set[Path]) -> None:
        """List what does not belong to a run, and what processes that were killed have left."""
        unknown: list[FileReport] = []
        for place, folders, files in os.walk(self.run.path):
            for name in sorted((*folders, *files)):
                path, is_folder = Path(place, name), name in folders
                if is_folder and (path in conversions or path not in self._seen):
                    folders.remove(name)  # Its content needs no lines of its own.
                if path in self._seen:
                    continue
                shown = self._name(path) + ("/" if is_folder else "")
                if is_temporary(path):
                    self.files.append(FileReport(shown, "leftover", "of a process that was killed or is writing now"))
                elif path.parent == self.run.path and name in _FOREIGN:
                    self.files.append(FileReport(shown, "no checksum", _FOREIGN[name]))
                else:
                    unknown.append(FileReport(shown, "unknown", "does not belong to a run, and is not used"))
        self.files += unknown[:_MAX_UNKNOWN]
        if (more := len(unknown) - _MAX_UNKNOWN) > 0:
            self.files.append(FileReport("…", "unknown", f"and {more} more that do not belong to a run"))

    def _check_if_there(self, path: Path, check: Callable[..., _Finding], *arguments: str | None) -> bool:
        """Check a file that a run may lack; returns whether it is there."""
        is_there = os.path.lexists(path)
        if is_there:
            self._check(path, check, *arguments)
        return is_there

    def _check(self, path: Path, check: Callable[..., _Finding], *arguments: str | None) -> None:
        """Report what a check of a file finds, or fails with."""
        finding = self._try(path, check, *arguments)
        if finding is not None:
            has_checksum, detail = finding if isinstance(finding, tuple) else (finding, "")
            self._report(path, "ok" if has_checksum else "no checksum", detail)

    def _try(self, path: Path, read: Callable[..., _Result], *arguments: str | None) -> _Result | None:
        """The result of a function of a file; None if it fails, and then the file is reported as damaged."""
        self._seen.add(path)
        try:
            check_inside(path, self.run.path)
            return read(path, *arguments)
        except NewerFormatError:
            raise
        except (InputError, RunError, OSError) as error:
            self._report(path, "DAMAGED", self._shorten(path, error))
            return None

    def _report(self, path: Path, state: State, detail: str = "") -> None:
        self.files.append(FileReport(self._name(path), state, detail))

    def _name(self, path: Path) -> str:
        """A path within the run, as people and terminals can read it."""
        name = path.relative_to(self.run.path).as_posix()
        return name if name.isprintable() else ascii(name)

    def _shorten(self, path: Path, error: Exception) -> str:
        """An error's message without what its line says already."""
        text = str(error)
        for beginning in (f"{path}: ", f"{shown_path(path)}: ", f"{path} ", "damaged: ", "is "):
            text = text.removeprefix(beginning)
        return text.replace(f"{self.run.path}{os.sep}", "")


def _read_report(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_bytes()))
    except (ValueError, TypeError, RecursionError) as error:
        raise RunError(f"{path}: is no report: {error}") from error
