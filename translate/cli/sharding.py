"""`decode` by several processes that torchrun has started, or one that may be interrupted: in parts that are kept."""

import contextlib
import dataclasses
import logging
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from translate.cli.console import fail, is_terminal
from translate.cli.lines import open_lines, refuse_overwriting, whole_file
from translate.cli.wishes import WishFiles, read_phrases, read_requests
from translate.errors import InputError, RunError

if TYPE_CHECKING:
    from translate.decoding import Translator
    from translate.decoding.processes import Processes
    from translate.decoding.sharded import Joined

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class DecodeCommand:
    """What `decode` is asked for."""

    run: Path
    file: Path | None
    output: Path | None
    alignments: Path | None
    output_format: Literal["text", "jsonl"]
    checkpoint: Literal["best", "last"]
    wishes: WishFiles
    forbid: Path | None
    ensemble: list[Path]
    contrast: Path | None
    options: dict[str, Any]

    def refuse_conflicts(self) -> None:
        """Raise the InputError that says that files would be lost, if some would."""
        output, alignments = self.output, self.alignments
        if output is not None and alignments is not None and output.resolve() == alignments.resolve():
            raise InputError(f"--output and --alignments are both {output}: name two files")
        read = [self.file, self.forbid, *self.wishes]
        refuse_overwriting({"--output": output, "--alignments": alignments}, read)

    def load(self) -> "Translator":
        """The translator that is asked for."""
        from translate.decoding.loading import load_translator

        return load_translator(
            self.run,
            checkpoint=self.checkpoint,
            options=self.options,
            ensemble=self.ensemble,
            contrast=self.contrast,
            forbidden=read_phrases(self.forbid),
        ).translator


def is_in_parts(*, resume: bool) -> bool:
    """Whether parts are kept: on request, and always under torchrun."""
    return resume or "TORCHELASTIC_RUN_ID" in os.environ or os.environ.get("WORLD_SIZE", "1") != "1"


def decode_in_parts(command: DecodeCommand) -> None:
    """Translate a file together with the other processes, if there are any, and join what all have done.

    Raises:
        InputError: Something that cannot be read twice, or processes that do not have the same before them.
        RunError: Something cannot be written.
    """
    from tqdm import tqdm

    from translate.decoding.parts import PartsFolder
    from translate.decoding.processes import find_processes
    from translate.decoding.sharded import Sharding

    processes = find_processes()
    with _told_once(processes):
        command.refuse_conflicts()
        file, output = _require_files(command)
        source = open_lines(file)
        requests = read_requests(source, command.wishes)  # a wrong file is told before the model is loaded
        processes.share_machine()
        translator, circumstances = _load(command, processes)
        folder = PartsFolder(output.with_name(f"{output.name}.parts"))
        sharding = Sharding(
            translator,
            folder,
            circumstances,
            output_format=command.output_format,
            has_alignments=command.alignments is not None,
        )
        if processes.place.rank > 0:
            if folder.wait_until_open(processes.name(), is_joined=processes.is_joined):
                sharding.work_through(requests)
            return
        with folder.hold(processes.name()):
            started = time.perf_counter()
            with tqdm(total=source.total, unit="line", dynamic_ncols=True, disable=not is_terminal(sys.stderr)) as bar:
                num_blocks = sharding.complete(
                    requests,
                    open_again=lambda: read_requests(open_lines(file), command.wishes),
                    advance=bar.update,
                )
            with contextlib.ExitStack() as files:
                alignments = command.alignments
                write_alignment = None if alignments is None else files.enter_context(whole_file(alignments))
                write = files.enter_context(whole_file(output))
                joined = sharding.join(num_blocks, write=write, write_alignment=write_alignment)
            _say_summary(joined, seconds=time.perf_counter() - started, num_processes=processes.place.world_size)
            processes.say_joined()
            folder.remove()


def _require_files(command: DecodeCommand) -> tuple[Path, Path]:
    """The input and the output.

    Raises:
        InputError: One is not named, or is no file; or another input is none.
    """
    from translate.data.text import require_file

    if command.file is None or str(command.file) == "-" or command.output is None:
        raise InputError(
            "under torchrun and with --resume, decode needs FILE and --output FILE: several processes cannot share"
            " standard input and output, and what has gone through them is not there for a second start"
        )
    for path in (command.file, *command.wishes, command.forbid):
        if path is not None:
            require_file(path)
    if command.output.exists() and not command.output.is_file():
        raise InputError(f"--output {command.output}: is no file, and parts are joined into one; name a file")
    return command.file, command.output


def _load(command: DecodeCommand, processes: "Processes") -> tuple["Translator", dict[str, str]]:
    """The translator, and all that its translations follow from, on which all processes agree."""
    from translate.data.text import require_unchanged
    from translate.decoding.sharded import find_circumstances
    from translate.runs import RunDirectory
    from translate.runs.seal import file_digest

    runs = {"RUN": [command.run], "--ensemble": command.ensemble, "--contrast": _given(command.contrast)}
    files = {"--terminology": command.wishes.terminology, "--forbid": command.forbid}
    lines = {"FILE": command.file, "--prefix": command.wishes.prefix, "--require": command.wishes.require}
    with contextlib.ExitStack() as unchanged:
        for run in [run for named in runs.values() for run in named]:
            checkpoint = RunDirectory(run).checkpoint(command.checkpoint)
            if checkpoint.is_file():  # else it is told when it is loaded
                unchanged.enter_context(require_unchanged(checkpoint))
        translator = command.load()
        circumstances = find_circumstances(
            translator,
            {name: named for name, named in runs.items() if named},
            checkpoint=command.checkpoint,
            files={name: file for name, file in files.items() if file is not None},
        )
    processes.agree({**circumstances, **{name: file_digest(file) for name, file in lines.items() if file is not None}})
    return translator, circumstances


def _given(path: Path | None) -> list[Path]:
    return [] if path is None else [path]


def _say_summary(joined: "Joined", *, seconds: float, num_processes: int) -> None:
    rate = (joined.counts.lines - joined.lines_from_before) / max(seconds, 1e-9)
    by = f" by {num_processes} processes" if num_processes > 1 else ""
    before = f"; {joined.lines_from_before} of the lines were finished before" if joined.lines_from_before else ""
    logger.info(f"{joined.counts} in {seconds:.1f} s ({rate:.1f} lines/s){by}{before}")


@contextlib.contextmanager
def _told_once(processes: "Processes") -> Iterator[None]:
    """What all processes fail with, one of them says."""
    try:
        yield
    except (InputError, RunError) as error:
        if processes.is_told_elsewhere(str(error)):
            raise typer.Exit(2 if isinstance(error, InputError) else 1) from None
        raise
    except KeyboardInterrupt:
        if processes.is_told_elsewhere("interrupted"):
            raise typer.Exit(130) from None
        fail("interrupted; the parts that are finished are kept, and the same command goes on from them", 130)
