"""Every file of a run directory against its checksum and against the others: the report of `translate verify`."""

import functools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import torch

from translate.atomic import is_temporary
from translate.config import Config, read_resolved_config
from translate.config.yaml import shown_path
from translate.data.tokenizer import PAD_ID, Tokenizers, load_tokenizers
from translate.errors import InputError, RunError
from translate.fingerprint import fingerprint
from translate.model import Transformer
from translate.runs.checkpoint import (
    AVERAGE_PREFIX,
    OPTIMIZER_PREFIX,
    SAFETENSORS_TEMPORARY,
    WEIGHTS_PREFIX,
    TensorFile,
    read_step,
    read_tensors,
    with_prefix,
)
from translate.runs.checksums import (
    CHECKSUMS,
    DamageError,
    check_file,
    check_folder,
    check_inside,
    read_checksums,
    shorten,
)
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
from translate.runs.loading import check_same_tensors, get_parameters

State = Literal["ok", "no checksum", "DAMAGED", "CHANGED", "MISSING", "absent", "leftover", "unknown"]
_Result = TypeVar("_Result")
_MAX_UNKNOWN = 100
_FOREIGN = {"tensorboard": "TensorBoard's events", "profile": "what translate train --profile wrote"}


class FileReport(NamedTuple):
    """The state of one file."""

    name: str  # relative to the run directory
    state: State
    detail: str


class Verification(NamedTuple):
    """The state of a run."""

    directory: Path
    writer: str | None  # version of this toolkit; None: unknown
    created: str
    run_format: int | None
    files: tuple[FileReport, ...]

    @property
    def is_sound(self) -> bool:
        """Whether every file is as it was written, and none is missing."""
        return not self._unsound

    @property
    def summary(self) -> str:
        """The result in one sentence."""
        unsound = self._unsound
        if unsound:
            return f"not sound: {list_names([file.name for file in unsound])}"
        num_unknown = sum(file.state == "no checksum" for file in self.files)
        if num_unknown:
            by = f", written by translate {self.writer}" if self.writer else ""
            return f"sound, as far as can be said: no checksum was recorded of {num_unknown}{by}"
        return "sound: every file is as it was written"

    @property
    def _unsound(self) -> list[FileReport]:
        return [file for file in self.files if file.state in {"DAMAGED", "CHANGED", "MISSING"}]


class Finding(NamedTuple):
    """What a check says of a file that is as it should be."""

    has_checksum: bool
    detail: str = ""


def verify_run(path: Path) -> Verification:
    """Check every file of a run; none is changed.

    Raises:
        InputError: There is no run, or one of a newer format.
    """
    check_holds_run(path)
    inspection = _Inspection(RunDirectory(path))
    about = inspection.description
    return Verification(
        path,
        about.writer if about else None,
        about.created if about else "",
        about.run_format if about else None,
        tuple(inspection.files),
    )


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
        self._conversions: set[Path] = set()
        self._check_text_files()
        self._check_tokenizers()
        self._check_checkpoints()
        for path, check in ((run.metrics, self._find_metrics), (run.shortlist, self._find_shortlist)):
            if os.path.lexists(path):
                self._check(path, check)
        self._check_evaluations()
        self._check_conversions()
        self._list_others()

    def _check_text_files(self) -> None:
        run, file = self.run, self.run.config
        self._check(run.description, self._find_description)
        for path in (run.lock, run.checkpoints, run.evaluation, run.export):
            self._try(path, lambda: None)  # They have no line unless they are links out of the run.
        checksums = self._try(run.path / CHECKSUMS, self._read_checksums) or {}
        if not os.path.lexists(file):
            self._report(file, "MISSING", "the run was half copied")
        elif self._try(file, self._read_config):
            try:
                self._report_finding(file, Finding(check_file(file, checksums.get(file.name))))
            except RunError:
                hint = f"by hand? if so, remove its line from {CHECKSUMS}, or its first line if that has a checksum"
                self._report(file, "CHANGED", hint)

    def _find_description(self) -> Finding:
        self.description = read_description(self.run)
        return Finding(self.description.has_checksum)

    def _read_checksums(self) -> dict[str, str]:
        """The recorded checksums, which need no line of their own unless something is wrong with them."""
        path = self.run.path / CHECKSUMS
        checksums = read_checksums(self.run.path)
        if not checksums and self.description is not None and self.description.run_format > 2:
            self._report(path, "MISSING", "the run was half copied")
        known = {self.run.config.name, self.run.description.name}
        unknown = [name for name in checksums if name not in known and not name.startswith("tokenizer/")]
        if unknown:
            raise DamageError(path, f"it names files that no run has: {list_names(unknown)}")
        return checksums

    def _read_config(self) -> Config:
        check_config_is_complete(self.run)
        self._config = read_resolved_config(self.run.config)
        return self._config

    def _check_tokenizers(self) -> None:
        folder = self.run.tokenizer
        checksums = self.description.tokenizer_checksums if self.description is not None else {}
        self._seen |= {folder, *self.run.tokenizer_files()}
        try:
            for path in (folder, *folder.glob("*")):
                check_inside(path, self.run.path)
            if self.description is not None:
                check_tokenizers(self.run, self.description)
            self._tokenizers = load_tokenizers(folder)
        except (InputError, RunError, OSError) as error:
            self.files.append(FileReport(f"{folder.name}/", "DAMAGED", self._shorten(folder, error)))
            return
        for file in self.run.tokenizer_files():
            tokenizer = self._tokenizers.target if file.stem == "target" else self._tokenizers.source
            self._report_finding(file, Finding(bool(checksums), f"{tokenizer.vocab_size:,} subwords"))

    def _check_checkpoints(self) -> None:
        run, first = self.run, len(self.files)
        best, last, previous = run.checkpoint("best"), run.checkpoint("last"), run.previous
        has_best, has_last, has_previous = (os.path.lexists(path) for path in (best, last, previous))
        for path in (last, previous):
            if os.path.lexists(path):
                self._check(path, functools.partial(self._find_resumable, path))
        if has_best:
            self._check(best, functools.partial(self._find_best, best))
        self.files[first:] = sorted(self.files[first:])
        if has_best:
            if not has_last:
                self._report(last, "absent", "the run translates, but cannot be resumed")
        elif not has_last and not has_previous:
            self._report(best, "MISSING", "there is no checkpoint: half copied, or stopped before the first")
        elif self._progress.get("best_step") is not None:
            self._report(best, "MISSING", "the training had one")
        else:
            self._report(best, "absent", "training has not validated yet: use --checkpoint last")

    def _find_best(self, path: Path) -> Finding:
        """The best checkpoint: its weights against the config, and its step against the newest checkpoint's."""
        file = self._read_checkpoint(path)
        step, best_step = read_step(path, file.metadata), self._progress.get("best_step")
        if isinstance(best_step, int) and step < best_step:
            raise RunError(
                f"{path}: of step {step}, but the training has a better one of step {best_step}; copy that too"
            )
        num_parameters = sum(tensor.numel() for tensor in file.tensors.values())
        return Finding(file.has_digest, f"step {step}, {num_parameters:,} parameters")

    def _find_resumable(self, path: Path) -> Finding:
        """The last or previous checkpoint: its weights, and everything that a training needs to continue."""
        file = self._read_checkpoint(path)
        step = read_step(path, file.metadata)
        parameters = with_prefix(file.tensors, WEIGHTS_PREFIX)
        state = with_prefix(file.tensors, OPTIMIZER_PREFIX)
        entries = {name.rpartition("/")[2] for name in state}
        expected = {f"{name}/{entry}" for name in parameters for entry in entries}
        missing = [f"{OPTIMIZER_PREFIX}{name}" for name in sorted(expected - state.keys())]
        if not state:
            missing.append(f"{OPTIMIZER_PREFIX}*")
        if self._config is not None and self._config.training.ema_decay is not None:
            missing += [] if with_prefix(file.tensors, AVERAGE_PREFIX) else [f"{AVERAGE_PREFIX}*"]
        if missing:
            raise RunError(f"{path}: cannot be resumed from; missing: {list_names(missing)}")
        misfits = [
            f"{OPTIMIZER_PREFIX}{name}"
            for name, tensor in state.items()
            if name not in expected or (tensor.dim() and tensor.shape != parameters[name.rpartition("/")[0]].shape)
        ]
        if misfits:
            raise RunError(f"{path}: cannot be resumed from; these fit no weights: {list_names(misfits)}")
        try:
            progress = json.loads(file.metadata["progress"])
            if not isinstance(progress, dict):
                raise ValueError("it is no mapping")
        except (ValueError, KeyError, RecursionError) as error:
            raise RunError(f"{path}: cannot be resumed from; its progress is missing or unreadable: {error}") from error
        self._progress = self._progress or progress
        return Finding(file.has_digest, f"step {step}, resumable")

    def _read_checkpoint(self, path: Path) -> TensorFile:
        """A checkpoint whose weights are finite and are those of the config's model."""
        file = read_tensors(path)
        if self._config is not None and self._tokenizers is not None:
            with torch.device("meta"):
                model = Transformer(
                    self._config.model,
                    source_vocab_size=self._tokenizers.source.vocab_size,
                    target_vocab_size=self._tokenizers.target.vocab_size,
                    pad_id=PAD_ID,
                )
            averages = with_prefix(file.tensors, AVERAGE_PREFIX)
            for weights in filter(None, (with_prefix(file.tensors, WEIGHTS_PREFIX), averages)):
                check_same_tensors(get_parameters(model), weights, name=str(path))
        broken = [name for name, tensor in file.tensors.items() if not bool(tensor.isfinite().all())]
        if broken:
            raise RunError(f"{path}: not all numbers are finite in {list_names(broken)}")
        return file

    def _find_metrics(self) -> Finding:
        """Whether the metrics are lines of JSON, and begin as the newest checkpoint says."""
        path, content = self.run.metrics, self.run.metrics.read_bytes()
        num_bytes, expected = self._progress.get("metrics_bytes"), self._progress.get("metrics_sha256")
        if isinstance(num_bytes, int) and isinstance(expected, str):
            digest = fingerprint(content[:num_bytes])
            if digest != expected:
                raise RunError(
                    f"{path}: its first {num_bytes} bytes should have the checksum {shorten(expected)}, but have"
                    f" {shorten(digest)}"
                )
        *lines, rest = content.split(b"\n")
        for number, line in enumerate(lines, start=1):
            try:
                json.loads(line)["step"]
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise RunError(f"{path}: line {number} is no record: {error}") from error
        cut = ", and half a record of a process that was killed, which --resume removes" if rest else ""
        return Finding(expected is not None, f"{len(lines)} records{cut}")

    def _find_shortlist(self) -> Finding:
        """Whether a shortlist is one of the run's vocabularies."""
        path, file = self.run.shortlist, read_tensors(self.run.shortlist)
        if self._tokenizers is not None:
            expected = [self._tokenizers.source.vocab_size, self._tokenizers.target.vocab_size]
            sizes = [len(file.tensors.get(name, ())) for name in ("translations", "always")]
            if sizes != expected:
                raise RunError(
                    f"{path}: is a shortlist for vocabularies of {sizes[0]} and {sizes[1]} subwords, but the"
                    f" tokenizers have {expected[0]} and {expected[1]}"
                )
        return Finding(file.has_digest)

    def _check_evaluations(self) -> None:
        for folder in self._folders(self.run.evaluation):
            self._seen.add(folder)
            report, hypotheses = folder / "report.json", folder / "hypotheses.txt"
            checksums = self._try(folder / CHECKSUMS, functools.partial(read_checksums, folder)) or {}
            if os.path.lexists(report):
                content = self._try(report, functools.partial(_read_report, report)) or {}
                if content:
                    self._check(report, functools.partial(_find_checked, report, checksums.get(report.name)))
                if not checksums and isinstance(recorded := content.get("hypotheses"), str):  # format 2
                    checksums[hypotheses.name] = recorded.removeprefix("sha256:")
                if not os.path.lexists(hypotheses):
                    self._report(hypotheses, "MISSING", "make it again with translate eval")
            if os.path.lexists(hypotheses):
                self._check(hypotheses, functools.partial(_find_checked, hypotheses, checksums.get(hypotheses.name)))

    def _check_conversions(self) -> None:
        for folder in self._folders(self.run.export):
            if folder.name.startswith("ctranslate2-") and not is_temporary(folder):
                self._conversions.add(folder)
                self._check(folder, functools.partial(_find_checked_folder, folder))
                self.files[-1] = self.files[-1]._replace(name=f"{self.files[-1].name}/")

    def _folders(self, folder: Path) -> list[Path]:
        """The folders in a folder of the run, unless that is a link out of it, which has been reported."""
        try:
            check_inside(folder, self.run.path)
            return sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.is_symlink())
        except (RunError, OSError):
            return []

    def _list_others(self) -> None:
        """List what does not belong to a run, and what processes that were killed have left."""
        num_unknown = 0
        for place, folders, files in os.walk(self.run.path):
            for name in sorted((*folders, *files)):
                path, is_folder = Path(place, name), name in folders
                if path in self._seen and path not in self._conversions:
                    continue
                if is_folder:
                    folders.remove(name)  # Its content needs no lines of its own.
                shown = self._name(path) + ("/" if is_folder else "")
                if path in self._conversions:
                    continue
                if is_temporary(path) or path.match(SAFETENSORS_TEMPORARY):
                    self.files.append(FileReport(shown, "leftover", "of a process that was killed or is writing now"))
                elif path.parent == self.run.path and name in _FOREIGN:
                    self.files.append(FileReport(shown, "no checksum", _FOREIGN[name]))
                else:
                    num_unknown += 1
                    if num_unknown <= _MAX_UNKNOWN:
                        self.files.append(FileReport(shown, "unknown", "does not belong to a run, and is not used"))
        if num_unknown > _MAX_UNKNOWN:
            more = num_unknown - _MAX_UNKNOWN
            self.files.append(FileReport("…", "unknown", f"and {more} more that do not belong to a run"))

    def _check(self, path: Path, find: Callable[[], Finding]) -> None:
        """Report what a check finds, or fails with."""
        finding = self._try(path, find)
        if finding is not None:
            self._report_finding(path, finding)

    def _try(self, path: Path, read: Callable[[], _Result]) -> _Result | None:
        """The result of a function that reads a file; None if it fails, and then the file is reported as damaged."""
        self._seen.add(path)
        try:
            check_inside(path, self.run.path)
            return read()
        except NewerFormatError:
            raise
        except (InputError, RunError, OSError) as error:
            self._report(path, "DAMAGED", self._shorten(path, error))
            return None

    def _report_finding(self, path: Path, finding: Finding) -> None:
        self._report(path, "ok" if finding.has_checksum else "no checksum", finding.detail)

    def _report(self, path: Path, state: State, detail: str) -> None:
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


def _find_checked(path: Path, expected: str | None) -> Finding:
    return Finding(check_file(path, expected))


def _find_checked_folder(folder: Path) -> Finding:
    return Finding(check_folder(folder))


def _read_report(path: Path) -> dict[str, Any]:
    try:
        report = json.loads(path.read_bytes())
        if not isinstance(report, dict):
            raise ValueError("it is no mapping")
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path}: is no report: {error}") from error
    return report
