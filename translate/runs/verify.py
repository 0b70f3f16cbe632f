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
from translate.runs.directory import (
    FormatError,
    RunDirectory,
    check_holds_run,
    parse_description,
)
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
        self.known = {*vars(run).values()}  # files that need no line

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
            by = f", written by translate {self.writer}" if self.writer else ""
            files = "file has" if num_unknown == 1 else "files have"
            return f"sound as far as is known: {num_unknown} {files} no checksum{by}"
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

    def add_sound(self, path: Path, detail: str = "", *, has_checksum: bool = True) -> None:
        """Report that a file matches its checksum, or has none."""
        self.add(path, "ok" if has_checksum else "no checksum", detail)

    def add(self, path: Path, state: State, detail: str) -> None:
        """Report the state of a file, with its path within the run in printable characters."""
        name = path.relative_to(self.run.path).as_posix()
        name = (name if name.isprintable() else ascii(name)) + "/" * path.is_dir()
        self.known.add(path)
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
    with contextlib.suppress(RunError):  # reported below
        checksums = read_checksums(path)
    with result.check(run.description):
        description = parse_description(run, read_input(run.description))
        result.run_format, result.created = description.format, description.created
        result.writer = description.versions.get("translate")
        is_known = check_file(run.description, checksums.get(run.description.name))
        result.add_sound(run.description, has_checksum=is_known)
    with result.check(run.checksums):
        names = read_checksums(path)
        if unknown := [name for name in names if not name.startswith(("tokenizer/", "config.yaml", "run.json"))]:
            raise RunError(f"it names files that no run has: {list_some(unknown)}")
        if not any(name.startswith("tokenizer/") for name in names):  # The last lines are the tokenizers'.
            raise RunError("the run was copied only in part")
    config: Config | None = None
    with result.check(run.config):
        config = read_resolved_config(run.config)
        result.add_sound(run.config, has_checksum=check_file(run.config, checksums.get(run.config.name)))
    result.known.update(run.tokenizer_files())
    with result.check(run.tokenizer):
        run.check_tokenizer_files(checksums)
        for file in run.tokenizer_files():
            result.add_sound(file, has_checksum=check_file(file, checksums.get(f"tokenizer/{file.name}")))
    progress = _check_checkpoints(result, config)
    if os.path.lexists(run.metrics):
        _check_metrics(result, progress)
    if os.path.lexists(run.shortlist):
        with result.check(run.shortlist):
            read_tensors(run.shortlist, prefixes=())
            result.add_sound(run.shortlist)
    for folder in evaluations:
        _check_evaluation(result, folder)
    for folder in sorted(run.export.glob("ctranslate2-*")):
        with result.check(folder):
            check_folder(folder)
            result.add_sound(folder)
    for file in [each for folder in (path, *folders) for each in sorted(folder.glob("*"))]:
        if file not in result.known:
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
            result.add_sound(path, f"step {found.step}, resumable")
    for step in run.kept_steps():
        path = run.checkpoint(f"step-{step}")
        with result.check(path):
            saved = read_step(path, read_tensors(path, prefixes=()).metadata)
            result.add_sound(path, f"step {saved}, kept")
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
            result.add_sound(best, f"{describe_moment(step, averaged)}, {num_parameters:,} parameters")
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
        result.add_sound(path, f"{num_records} records", has_checksum=expected is not None)


def _check_evaluation(result: Verification, folder: Path) -> None:
    result.known |= {folder, folder / CHECKSUMS}
    listed: dict[str, str] = {}
    if os.path.lexists(folder / CHECKSUMS):  # written last
        with result.check(folder / CHECKSUMS):
            listed = read_checksums(folder)
    for file in (folder / "report.json", folder / "hypotheses.txt"):
        if file.name in listed or os.path.lexists(file):
            with result.check(file):
                result.add_sound(file, has_checksum=check_file(file, listed.get(file.name)))
