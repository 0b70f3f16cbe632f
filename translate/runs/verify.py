"""Every file of a run directory against its checksum and against the others: what `translate verify` tells."""

import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from translate.atomic import is_temporary
from translate.config import Config, read_resolved_config
from translate.config.yaml import shown_path
from translate.data.tokenizer import Tokenizers, load_tokenizers
from translate.errors import InputError, RunError
from translate.runs.description import (
    Description,
    NewerFormatError,
    check_tokenizers,
    read_description,
    tokenizer_files,
)
from translate.runs.directory import RunDirectory
from translate.runs.header import read_header
from translate.runs.loading import refuse_incomplete_config, refuse_no_run
from translate.runs.safety import MOST_MODEL_BYTES, MOST_TEXT_BYTES, entries, require_kind
from translate.runs.seal import check_seal
from translate.runs.soundness import (
    Found,
    Parts,
    check_best,
    check_conversion,
    check_hypotheses,
    check_last,
    check_metrics,
    check_report,
    check_shortlist,
    read_progress,
)
from translate.runs.weights import named

State = Literal["ok", "no checksum", "DAMAGED", "CHANGED", "MISSING", "absent", "leftover", "unknown"]
_MOST_UNKNOWN = 100


class FileReport(NamedTuple):
    """What is to be said of one file."""

    name: str  # relative to the run directory
    state: State
    detail: str


class Verification(NamedTuple):
    """What is to be said of a run."""

    directory: Path
    writer: str | None  # version of this toolkit; None: nobody knows
    created: str
    run_format: int | None
    files: tuple[FileReport, ...]

    @property
    def is_sound(self) -> bool:
        """Whether all that is there is as it was written, and nothing lacks."""
        return not self._unsound

    @property
    def summary(self) -> str:
        """One sentence."""
        unsound = self._unsound
        if unsound:
            return f"not sound: {named([file.name for file in unsound])}"
        num_unsealed = sum(file.state == "no checksum" for file in self.files)
        if num_unsealed:
            by = f", written by translate {self.writer}" if self.writer else ""
            return f"sound, as far as can be said: no checksum was recorded of {num_unsealed}{by}"
        return "sound: every file is as it was written"

    @property
    def _unsound(self) -> list[FileReport]:
        return [file for file in self.files if file.state in {"DAMAGED", "CHANGED", "MISSING"}]


def verify_run(path: Path) -> Verification:
    """Look at every file of a run; none is changed.

    Raises:
        InputError: There is no run, or one of a newer format.
    """
    refuse_no_run(path)
    inspection = _Inspection(RunDirectory(path))
    files = tuple(inspection.reports())
    about = inspection.description
    return Verification(
        path,
        about.writer if about else None,
        about.created if about else "",
        about.run_format if about else None,
        files,
    )


class _Inspection:
    """Goes through a run in the order in which one file says what others must be."""

    def __init__(self, run: RunDirectory) -> None:
        self.run = run
        self.description: Description | None = None
        self.config: Config | None = None
        self.tokenizers: Tokenizers | None = None
        self.progress: dict[str, Any] | None = None  # of the newest sound checkpoint
        self.seen: set[Path] = set()
        self.whole: set[Path] = set()  # folders that were looked at with all that is in them

    def reports(self) -> Iterator[FileReport]:
        """All reports: what belongs to a run, and then what does not."""
        run = self.run
        yield self._report(run.description, self._check_description, most_bytes=MOST_TEXT_BYTES)
        yield from self._about_places()
        yield from self._about_config()
        yield from self._about_tokenizers()
        yield from self._about_checkpoints()
        if os.path.lexists(run.metrics):
            yield self._report(run.metrics, lambda: check_metrics(run, self.progress))
        if os.path.lexists(run.shortlist):
            yield self._report(run.shortlist, lambda: check_shortlist(run, self._parts))
        yield from self._about_evaluations()
        yield from self._about_conversions()
        yield from self._about_others()

    @property
    def _parts(self) -> Parts:
        return Parts(self.config, self.tokenizers)

    def _report(
        self,
        path: Path,
        check: Callable[[], Found],
        *,
        kind: Literal["file", "folder"] = "file",
        most_bytes: int | None = None,
    ) -> FileReport:
        """What a check finds or fails with."""
        self.seen.add(path)
        try:
            require_kind(path, kind, within=self.run.path, most_bytes=most_bytes)
            found = check()
        except NewerFormatError:
            raise
        except (InputError, RunError, OSError) as error:
            return FileReport(self._name(path), "DAMAGED", self._reason(path, error))
        return self._told(path, found)

    def _told(self, path: Path, found: Found) -> FileReport:
        return FileReport(self._name(path), "ok" if found.is_sealed else "no checksum", found.detail)

    def _check_description(self) -> Found:
        self.description = read_description(self.run)
        return Found(self.description.is_sealed, "")

    def _about_places(self) -> Iterator[FileReport]:
        """Folders, and the lock, are told of only if they are not what they should be."""
        run = self.run
        places: dict[Path, Literal["file", "folder"]] = {run.lock: "file"}
        places |= dict.fromkeys((run.checkpoints, run.evaluation, run.export), "folder")
        for path, kind in places.items():
            report = self._report(path, lambda: Found(True, ""), kind=kind)
            if report.state == "DAMAGED":
                yield report

    def _about_config(self) -> Iterator[FileReport]:
        """A config may be edited; but nobody can tell an edited one from a damaged one."""
        file = self.run.config
        if not os.path.lexists(file):
            yield FileReport(self._name(file), "MISSING", "the run was half copied")
            return

        def check() -> Found:
            refuse_incomplete_config(self.run)
            self.config = read_resolved_config(file)
            return Found(False, "")

        report = self._report(file, check, most_bytes=MOST_TEXT_BYTES)
        if report.state == "DAMAGED":
            yield report
            return
        try:
            yield self._told(file, Found(check_seal(file, file.read_bytes()), ""))
        except RunError:
            yield report._replace(
                state="CHANGED", detail="by hand? if so, remove its first line, which has the checksum"
            )

    def _about_tokenizers(self) -> Iterator[FileReport]:
        folder, is_recorded = self.run.tokenizer, bool(self.description and self.description.tokenizer_digests)
        self.seen.add(folder)
        try:
            require_kind(folder, "folder", within=self.run.path)
            for file in entries(folder):
                require_kind(file, "file", within=self.run.path, most_bytes=MOST_MODEL_BYTES)
            if self.description is not None:
                check_tokenizers(self.run, self.description)
            self.tokenizers = load_tokenizers(folder)
        except (InputError, RunError, OSError) as error:
            self.seen |= set(tokenizer_files(self.run))
            yield FileReport(f"{folder.name}/", "DAMAGED", self._reason(folder, error))
            return
        for file in tokenizer_files(self.run):
            tokenizer = self.tokenizers.target if file.stem == "target" else self.tokenizers.source
            self.seen.add(file)
            yield self._told(file, Found(is_recorded, f"{tokenizer.vocab_size:,} subwords"))

    def _about_checkpoints(self) -> Iterator[FileReport]:
        run = self.run
        best, last, previous = run.checkpoint("best"), run.checkpoint("last"), run.previous
        reports = []
        for path in filter(os.path.lexists, (last, previous)):
            report = self._report(path, functools.partial(check_last, path, self._parts))
            if report.state != "DAMAGED" and self.progress is None:
                self.progress = read_progress(path, read_header(path).metadata)
            reports.append(report)
        if os.path.lexists(best):
            reports.append(self._report(best, functools.partial(check_best, best, self._parts, self.progress)))
        yield from sorted(reports)
        if not os.path.lexists(best):
            if not os.path.lexists(last) and not os.path.lexists(previous):
                reason = "there is no checkpoint: the run was half copied, or stopped before its first"
                yield FileReport(self._name(best), "MISSING", reason)
            elif self.progress is not None and self.progress.get("best_step") is not None:
                yield FileReport(self._name(best), "MISSING", "the training had one")
            else:
                yield FileReport(self._name(best), "absent", "training has not validated yet: use --checkpoint last")
        elif not os.path.lexists(last):
            yield FileReport(self._name(last), "absent", "the run translates, but cannot be resumed")

    def _about_evaluations(self) -> Iterator[FileReport]:
        for folder in self._folders(self.run.evaluation):
            self.seen.add(folder)
            report, hypotheses = folder / "report.json", folder / "hypotheses.txt"
            if os.path.lexists(report):
                yield self._report(report, functools.partial(check_report, report), most_bytes=MOST_TEXT_BYTES)
            if os.path.lexists(hypotheses):
                yield self._report(hypotheses, functools.partial(check_hypotheses, hypotheses, report))
            elif os.path.lexists(report):
                yield FileReport(self._name(hypotheses), "MISSING", "make it anew with translate eval")

    def _about_conversions(self) -> Iterator[FileReport]:
        for folder in self._folders(self.run.export):
            if folder.name.startswith("ctranslate2-") and not is_temporary(folder):
                self.whole.add(folder)
                report = self._report(folder, functools.partial(check_conversion, folder), kind="folder")
                yield report._replace(name=f"{report.name}/")

    def _folders(self, folder: Path) -> list[Path]:
        """The folders in a folder of the run; what is none is told of elsewhere."""
        try:
            require_kind(folder, "folder", within=self.run.path)
            return [entry for entry in entries(folder) if entry.is_dir() and not entry.is_symlink()]
        except RunError:
            return []

    def _about_others(self) -> Iterator[FileReport]:
        """What is not of a run, and what processes that were killed have left."""
        num_unknown = 0
        for place, folders, files in os.walk(self.run.path):
            for name in sorted((*folders, *files)):
                path, is_folder = Path(place, name), name in folders
                if path in self.seen and path not in self.whole:
                    continue
                if is_folder:
                    folders.remove(name)  # what is in it needs no line of its own
                if path in self.whole:
                    continue
                shown = self._name(path) + ("/" if is_folder else "")
                if is_temporary(path):
                    yield FileReport(shown, "leftover", "of a process that was killed, or is writing now; harmless")
                elif path == self.run.path / "tensorboard":
                    yield FileReport(shown, "no checksum", "TensorBoard's events")
                elif path == self.run.path / "profile":
                    yield FileReport(shown, "no checksum", "what translate train --profile wrote")
                else:
                    num_unknown += 1
                    if num_unknown <= _MOST_UNKNOWN:
                        yield FileReport(shown, "unknown", "does not belong to a run, and is not used")
        if num_unknown > _MOST_UNKNOWN:
            yield FileReport("…", "unknown", f"and {num_unknown - _MOST_UNKNOWN} more that do not belong to a run")

    def _name(self, path: Path) -> str:
        """As people and terminals can read it."""
        name = path.relative_to(self.run.path).as_posix()
        return name if name.isprintable() else ascii(name)

    def _reason(self, path: Path, error: Exception) -> str:
        """An error's message without what the line says already."""
        text = str(error)
        for beginning in (f"{path}: ", f"{shown_path(path)}: ", f"{path} ", "damaged: ", "is "):
            text = text.removeprefix(beginning)
        return text.replace(f"{self.run.path}{os.sep}", "")
