"""Checks every file of a run directory against its checksum, for `translate verify`."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import torch

from translate.config.languages import list_some
from translate.config.load import read_resolved_config
from translate.config.schema import Config
from translate.errors import InputError, RunError
from translate.files import read_input
from translate.fingerprint import fingerprint
from translate.model.device import OutOfMemory
from translate.runs.checkpoint import find_trace_of_steps, read_progress, read_tensors
from translate.runs.checksums import CHECKSUMS, DamageError, check_file, check_folder, check_inside, read_checksums
from translate.runs.directory import FormatError, RunDirectory, check_holds_run, parse_description
from translate.runs.metadata import describe_moment, read_moment, read_step
from translate.runs.metrics import read_recorded
from translate.runs.progress import Progress

State = Literal["ok", "no checksum", "DAMAGED", "MISSING", "unknown"]


class FileReport(NamedTuple):
    """The state of one file."""

    name: str  # relative to the run directory
    state: State
    detail: str


class Verification:
    """The state of the files of a run that have been checked so far."""

    def __init__(self, run: RunDirectory) -> None:
        self.run = run
        self.writer: str | None = None  # version of this toolkit; None: unknown
        self.created = ""
        self.run_format: int | None = None
        self.files: list[FileReport] = []
        self.reported: set[Path] = set()

    @property
    def unsound(self) -> list[str]:
        """The names of files that are missing or have changed since they were written."""
        return [file.name for file in self.files if file.state in {"DAMAGED", "MISSING"}]

    @property
    def summary(self) -> str:
        """The result in one sentence."""
        if self.unsound:
            return f"not sound: {list_some(self.unsound)}"
        if num_unknown := sum(file.state == "no checksum" for file in self.files):
            return f"sound as far as is known; files without a checksum: {num_unknown}"
        return "sound: every file is as it was written"

    @contextlib.contextmanager
    def check(self, path: Path) -> Iterator[None]:
        """Report an error in the block as damage of this file."""
        try:
            yield
        except (FormatError, OutOfMemory):
            raise
        except (InputError, RunError, OSError) as error:
            state: State = "DAMAGED" if os.path.lexists(path) else "MISSING"
            self.add(path, state, str(error).replace(f"{self.run.path}{os.sep}", ""))

    def check_listed(self, path: Path, expected: str | None) -> None:
        """Compare a file with its recorded checksum, and report it; None: there is none."""
        with self.check(path):
            check_inside(path, self.run.path)
            check_file(path, expected)
            self.add(path, "no checksum" if expected is None else "ok")

    def add(self, path: Path, state: State, detail: str = "") -> None:
        """Report the state of a file, with its path within the run in printable characters."""
        name = path.relative_to(self.run.path).as_posix()
        name = (name if name.isprintable() else ascii(name)) + "/" * path.is_dir()
        self.reported.add(path)
        self.files.append(FileReport(name, state, detail.removeprefix(f"{name}: ").removeprefix("damaged: ")))


def verify_run(path: Path) -> Verification:
    """Check every file of a run without changing any.

    Raises:
        InputError: The path is not a run, or this version does not read its format.
    """
    check_holds_run(path)
    run = RunDirectory(path)
    result = Verification(run)
    evaluations = [folder for folder in sorted(run.evaluation.glob("*")) if folder.is_dir()]
    folders = [run.tokenizer, run.checkpoints, run.evaluation, *evaluations, run.export]
    for part in (*run.parts(), *(part for folder in evaluations for part in folder.glob("*"))):
        with result.check(part):
            check_inside(part, path)
    if result.files:
        return result  # Nothing is read through a link out of the run.
    checksums: dict[str, str] = {}
    with result.check(run.checksums):
        checksums = read_checksums(path)
        checksums.pop("shortlist.safetensors", None)  # of versions up to 0.13, which is no longer used
        if not any(name.startswith("tokenizer/") for name in checksums):  # The last lines are the tokenizers'.
            raise RunError("the run was copied only in part")
    config: Config | None = None
    with result.check(run.description):
        description = parse_description(run, read_input(run.description))
        result.run_format, result.created = description.format, description.created
        result.writer = description.versions.get("translate")
    with result.check(run.config):
        config = read_resolved_config(run.config)
    listed = {path / name: expected for name, expected in checksums.items()}
    for file in dict.fromkeys([run.description, run.config, *run.tokenizer_files(), *listed]):
        if file not in result.reported:
            result.check_listed(file, listed.get(file))
    progress = _check_checkpoints(result, config)
    if os.path.lexists(run.metrics):
        _check_metrics(result, progress)
    for folder in evaluations:
        _check_evaluation(result, folder)
    for folder in sorted(run.export.glob("ctranslate2-*")):
        with result.check(folder):
            check_folder(folder)
            result.add(folder, "ok")
    for file in [file for folder in (path, *folders) for file in sorted(folder.glob("*"))]:
        if file not in result.reported.union(vars(run).values()):
            result.add(file, "unknown", "does not belong to a run, and is not used")
    return result


def _check_checkpoints(result: Verification, config: Config | None) -> Progress | None:
    """Check all checkpoints, and return the progress of the newest intact one that can be resumed from."""
    run = result.run
    first, best = len(result.files), run.checkpoint("best")
    resumable = [path for path in (run.checkpoint("last"), run.previous) if os.path.lexists(path)]
    progress: Progress | None = None
    if not resumable and config is not None and (os.path.lexists(best) or run.kept_steps()):
        with result.check(run.checkpoint("last")):  # the metrics may be damaged too
            if trace := find_trace_of_steps(run, config.training):
                raise RunError(f"{trace} can translate, but training cannot be continued")
    for path in resumable:
        with result.check(path):
            found = read_progress(path, read_tensors(path, prefixes=()).metadata)
            progress = progress or found
            result.add(path, "ok", f"step {found.step}, resumable")
    for step in run.kept_steps():
        path = run.checkpoint(f"step-{step}")
        with result.check(path):
            saved = read_step(path, read_tensors(path, prefixes=()).metadata)
            result.add(path, "ok", f"step {saved}, kept")
    best_step = (progress.best_step if progress else None) or 0
    if os.path.lexists(best) or best_step or not resumable:
        with result.check(best):
            if not (os.path.lexists(best) or resumable):
                raise RunError("there is no checkpoint: the copy is incomplete, or none was saved")
            tensors, metadata, _ = read_tensors(best)
            step, averaged = read_moment(best, metadata)
            if step < best_step and not averaged:
                raise RunError(f"is of step {step}, but there is a better one of step {best_step}; copy that too")
            num_parameters = sum(map(torch.numel, tensors.values()))
            result.add(best, "ok", f"{describe_moment(step, averaged)}, {num_parameters:,} parameters")
    result.files[first:] = sorted(result.files[first:])
    return progress


def _check_metrics(result: Verification, progress: Progress | None) -> None:
    path = result.run.metrics
    with result.check(path):
        content = read_recorded(result.run)
        num_bytes, expected = (progress.metrics_bytes, progress.metrics_sha256) if progress else (None, None)
        if expected is not None and fingerprint(content[:num_bytes]) != expected:
            raise DamageError(path, f"its first {num_bytes} bytes have changed since the last checkpoint")
        num_records = content.count(b"\n")
        result.add(path, "no checksum" if expected is None else "ok", f"{num_records} records")


def _check_evaluation(result: Verification, folder: Path) -> None:
    result.reported |= {folder, folder / CHECKSUMS}
    listed: dict[str, str] = {}
    if os.path.lexists(folder / CHECKSUMS):  # written last
        with result.check(folder / CHECKSUMS):
            listed = read_checksums(folder)
    files = {folder / "report.json", folder / "hypotheses.txt"}
    for file in sorted({*filter(os.path.lexists, files), *(folder / name for name in listed)}):
        result.check_listed(file, listed.get(file.name))
