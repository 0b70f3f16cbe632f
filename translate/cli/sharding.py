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
from translate.cli.lines import TextLines, check_not_overwriting, open_lines, open_output
from translate.cli.wishes import WishFiles, read_phrases, read_requests
from translate.errors import InputError

if TYPE_CHECKING:
    from translate.decoding import ConditionCounts, Request, Translator
    from translate.decoding.sharded import ShardedDecoder
    from translate.distributed.process_group import World

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
        check_not_overwriting({"--output": output, "--alignments": alignments}, read)

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
    """Translate a file in parts, together with the other processes if there are any, and join the parts.

    Raises:
        InputError: An input cannot be read twice, or the processes do not have the same input.
        RunError: A file cannot be written, or another process has failed.
    """
    from translate.distributed.process_group import join_world

    with join_world() as world:
        try:
            _decode_with_all_ranks(command, world)
        except KeyboardInterrupt:
            if not world.is_main_process:
                raise typer.Exit(130) from None
            fail("interrupted; finished parts are kept, and the same command continues from them", 130)


def _decode_with_all_ranks(command: DecodeCommand, world: "World") -> None:
    from tqdm import tqdm

    from translate.decoding.sharded import ShardedDecoder, share_machine

    def prepare() -> tuple["ShardedDecoder", dict[str, str], TextLines, Iterator["Request"]]:
        command.refuse_conflicts()
        _check_files(command)
        source = open_lines(command.file)
        requests = read_requests(source, command.wishes)  # reports a wrong file before the model is loaded
        share_machine(world.environment)
        translator, dependencies = _load(command)
        output = command.output
        assert output is not None
        decoder = ShardedDecoder(
            translator,
            output.with_name(f"{output.name}.parts"),
            dependencies,
            output_format=command.output_format,
            has_alignments=command.alignments is not None,
        )
        return decoder, dependencies | _input_fingerprints(command), source, requests

    decoder, facts, source, requests = world.run_on_all_ranks(prepare)
    world.check_same_on_all_ranks(facts)
    started = time.perf_counter()
    with contextlib.ExitStack() as stack:
        world.run_on_rank_0(lambda: stack.enter_context(decoder.hold_folder()))
        world.run_on_all_ranks(decoder.check_folder)
        is_hidden = not (world.is_main_process and is_terminal(sys.stderr))
        with tqdm(total=source.total, unit="line", dynamic_ncols=True, disable=is_hidden) as bar:
            progress = world.run_on_all_ranks(
                lambda: decoder.translate_blocks(requests, rank=world.rank, world_size=world.size, advance=bar.update)
            )
        lines_kept = sum(world.all_gather(progress.lines_kept))
        counts = world.run_on_rank_0(lambda: _join_parts(command, decoder, progress.fingerprints))
        if world.is_main_process:
            decoder.remove_folder()
    seconds = time.perf_counter() - started
    rate = (counts.lines - lines_kept) / max(seconds, 1e-9)
    by = f" by {world.size} processes" if world.size > 1 else ""
    before = f"; {lines_kept} of the lines were finished before" if lines_kept else ""
    if world.is_main_process:
        logger.info(f"{counts} in {seconds:.1f} s ({rate:.1f} lines/s){by}{before}")


def _join_parts(command: DecodeCommand, decoder: "ShardedDecoder", fingerprints: list[str]) -> "ConditionCounts":
    """Write the output and the alignments from all parts."""
    from translate.decoding import ConditionCounts

    counts = ConditionCounts()
    with contextlib.ExitStack() as files:
        alignments = command.alignments
        write_alignment = None if alignments is None else files.enter_context(open_output(alignments))
        assert command.output is not None
        write = files.enter_context(open_output(command.output))
        for part in decoder.read_parts(fingerprints):
            for line in part.output:
                write(line)
            for alignment in part.alignments:
                if write_alignment is not None:
                    write_alignment(alignment)
            counts.add(part.counts)
    return counts


def _check_files(command: DecodeCommand) -> None:
    """Check that the input and the output are files.

    Raises:
        InputError: One is not named or not a file, or another input is not a file.
    """
    from translate.data.text import require_file

    if command.file is None or str(command.file) == "-" or command.output is None:
        raise InputError(
            "under torchrun and with --resume, decode needs FILE and --output FILE: several processes cannot share"
            " standard input and output, and a later start could not read them again"
        )
    for path in (command.file, *command.wishes, command.forbid):
        if path is not None:
            require_file(path)
    if command.output.exists() and not command.output.is_file():
        raise InputError(f"--output {command.output}: is not a file, and parts are joined into one; name a file")


def _load(command: DecodeCommand) -> tuple["Translator", dict[str, str]]:
    """Load the translator, and collect everything that its translations depend on."""
    from translate.data.text import require_unchanged
    from translate.decoding.sharded import collect_dependencies
    from translate.runs import RunDirectory

    contrast = [] if command.contrast is None else [command.contrast]
    runs = {"RUN": [command.run], "--ensemble": command.ensemble, "--contrast": contrast}
    files = {"--terminology": command.wishes.terminology, "--forbid": command.forbid}
    with contextlib.ExitStack() as unchanged:
        for run in [run for named in runs.values() for run in named]:
            checkpoint = RunDirectory(run).checkpoint(command.checkpoint)
            if checkpoint.is_file():  # else loading reports it
                unchanged.enter_context(require_unchanged(checkpoint))
        translator = command.load()
        dependencies = collect_dependencies(
            translator,
            {name: named for name, named in runs.items() if named},
            checkpoint=command.checkpoint,
            files={name: file for name, file in files.items() if file is not None},
        )
    return translator, dependencies


def _input_fingerprints(command: DecodeCommand) -> dict[str, str]:
    """The fingerprints of the files that are read line by line."""
    from translate.fingerprint import fingerprint

    files = {"FILE": command.file, "--prefix": command.wishes.prefix, "--require": command.wishes.require}
    return {name: fingerprint(file) for name, file in files.items() if file is not None}
