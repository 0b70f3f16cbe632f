"""A large file translated by several processes, or in several starts: in blocks, each of which is translated once.

Rank r of n translates the blocks r, r + n, r + 2n, …, and writes each into a part file, whole or not at all; rank 0
joins the parts. A block is the buffer of lines that a translator would read ahead, so its translations are those of one
process, to the last digit of their scores. Blocks depend on the input and the settings alone, so a later start by any
number of processes can use the finished parts: a part carries the fingerprint of everything that it depends on.
"""

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from translate.atomic import atomic_write, write_error
from translate.decoding.output.formats import OutputFormat, format_translations
from translate.decoding.request import ConditionCounts, Request
from translate.decoding.translator import Translator, read_buffers
from translate.distributed.environment import DistributedEnvironment
from translate.errors import InputError, RunError
from translate.fingerprint import fingerprint
from translate.model.device import threads_per_process
from translate.runs import Checkpoint, RunDirectory
from translate.runs.lock import hold_lock
from translate.versions import package_versions

_PARTS_PER_FOLDER = 1000
_CHANGES_NO_TRANSLATION = {"batch_tokens", "workers", "device"}  # a later start may change these settings


class Block(NamedTuple):
    """Consecutive lines that are translated together."""

    number: int
    first_line: int  # number of its first line in the whole input, from 0
    requests: list[Request]


class Part(NamedTuple):
    """The output of one block, as its file holds it."""

    fingerprint: str  # of everything that the output depends on
    counts: ConditionCounts
    output: list[str]  # lines without line ends
    alignments: list[str]


class Progress(NamedTuple):
    """The result of one rank's pass through the input."""

    fingerprints: list[str]  # of all blocks, also of those that other ranks translate
    lines_kept: int  # lines of this rank's parts that an earlier start had finished


class ShardedDecoder:
    """Translates an input in blocks, and keeps their parts in a folder until they are joined.

    Args:
        dependencies: Everything that the translations depend on, except the requests; see `collect_dependencies`.
        has_alignments: Whether word alignments are wanted too.
    """

    def __init__(
        self,
        translator: Translator,
        folder: Path,
        dependencies: Mapping[str, str],
        *,
        output_format: OutputFormat,
        has_alignments: bool,
    ) -> None:
        self.translator = translator
        self.folder = folder
        self.output_format: OutputFormat = output_format
        self.has_alignments = has_alignments
        self._dependencies = [dict(dependencies), output_format, has_alignments]
        self._lock = folder / "lock"

    @contextlib.contextmanager
    def hold_folder(self) -> Iterator[None]:
        """Create the folder, keep other commands out of it, and remove it in the end if it has no part.

        Raises:
            InputError: Another command holds the folder.
            RunError: The folder cannot be created.
        """
        try:
            self.folder.mkdir(exist_ok=True)
        except FileExistsError:
            raise InputError(f"{self.folder}: finished parts go into a folder of this name, but it is a file") from None
        except OSError as error:
            raise write_error(self.folder, error) from error
        with hold_lock(self._lock, busy="is at work there: wait for it, stop it, or choose another --output"):
            try:
                yield
            finally:
                if not any(self.folder.glob("[0-9]*/*")):
                    self.remove_folder()

    def check_folder(self) -> None:
        """Check that this process sees the folder that rank 0 has created.

        Raises:
            RunError: The folder is not there.
        """
        if not self.folder.is_dir():
            raise RunError(
                f"{self.folder}: rank 0 has created it, but this process does not see it; all processes must see the"
                " same --output, on a disk that their machines share"
            )

    def translate_blocks(
        self,
        requests: Iterable[Request],
        *,
        rank: int = 0,
        world_size: int = 1,
        advance: Callable[[int], object] = lambda lines: None,
    ) -> Progress:
        """Translate those blocks of this rank that have no finished part.

        Args:
            requests: The whole input.
            advance: Called with the number of lines of each block that has been passed.

        Raises:
            RunError: A part cannot be written.
        """
        fingerprints: list[str] = []
        lines_kept = 0
        for block in cut_blocks(requests, look_ahead_lines=self.translator.config.look_ahead_lines):
            lines = [[request.source, request.prefix, request.required] for request in block.requests]
            fingerprints.append(fingerprint([self._dependencies, block.first_line, lines]))
            if block.number % world_size == rank:
                part = read_part(self.part_file(block.number))
                if part is not None and part.fingerprint == fingerprints[-1]:
                    lines_kept += len(block.requests)
                else:
                    write_part(self.part_file(block.number), self._translate(block, fingerprints[-1]))
            advance(len(block.requests))
        return Progress(fingerprints, lines_kept)

    def read_parts(self, fingerprints: Sequence[str]) -> Iterator[Part]:
        """Yield the parts of all blocks in order.

        Args:
            fingerprints: The fingerprint of each block's part.

        Raises:
            RunError: A part is missing, damaged, or has another fingerprint.
        """
        for number, expected in enumerate(fingerprints):
            part = read_part(self.part_file(number))
            if part is None or part.fingerprint != expected:
                raise RunError(
                    f"{self.part_file(number)}: is missing, damaged or changed since it was written; run the same"
                    " command again to translate it again. All processes must write to a disk that their machines share"
                )
            yield part

    def remove_folder(self) -> None:
        """Remove the parts and the folder, unless it has files of others."""
        for part in list(self.folder.glob("[0-9]*/*.part")):
            part.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            for folder in list(self.folder.glob("[0-9]*")):
                folder.rmdir()
            self._lock.unlink(missing_ok=True)
            self.folder.rmdir()

    def part_file(self, number: int) -> Path:
        """The path of a block's part."""
        folder, place = divmod(number, _PARTS_PER_FOLDER)
        return self.folder / f"{folder:04}" / f"{place:03}.part"

    def _translate(self, block: Block, block_fingerprint: str) -> Part:
        counts = ConditionCounts()
        alignments: list[str] = []
        stream = self.translator.translate_stream(block.requests, first_number=block.first_line)
        output = format_translations(
            counts.watch(stream),
            self.translator,
            output_format=self.output_format,
            write_alignment=alignments.append if self.has_alignments else None,
            first_number=block.first_line,
        )
        return Part(block_fingerprint, counts, list(output), alignments)


def cut_blocks(requests: Iterable[Request], *, look_ahead_lines: int) -> Iterator[Block]:
    """Yield the blocks of an input, reading it as they are asked for."""
    buffers = read_buffers(requests, max_items=look_ahead_lines, count_characters=lambda request: len(request.source))
    first_line = 0
    for number, buffer in enumerate(buffers):
        yield Block(number, first_line, buffer)
        first_line += len(buffer)


def write_part(file: Path, part: Part) -> None:
    """Write a part, with the fingerprint of its content before it.

    Raises:
        RunError: The file cannot be written.
    """
    content = json.dumps([part.fingerprint, vars(part.counts), part.output, part.alignments]).encode()
    try:
        file.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise write_error(file, error) from error
    with atomic_write(file) as opened:
        opened.write(f"{fingerprint(content)}\n".encode())
        opened.write(content)


def read_part(file: Path) -> Part | None:
    """Read a part; None if there is none, if it is damaged, or if another version wrote it."""
    try:
        digest, _, content = file.read_bytes().partition(b"\n")
        if fingerprint(content).encode() != digest:
            return None
        block_fingerprint, counts, output, alignments = json.loads(content)
        return Part(block_fingerprint, ConditionCounts(**counts), output, alignments)
    except (OSError, ValueError, TypeError):
        return None


def collect_dependencies(
    translator: Translator, runs: Mapping[str, Sequence[Path]], *, checkpoint: Checkpoint, files: Mapping[str, Path]
) -> dict[str, str]:
    """Everything that the translations depend on, by name, except the lines and their constraints; files as digests.

    Args:
        runs: The run directories, by what they are for.
        files: Other files, by what they are for.
    """
    settings = translator.config.model_dump(mode="json", exclude=_CHANGES_NO_TRANSLATION)
    versions = {package: version for package, version in package_versions().items() if package != "python"}
    return {
        "version": ", ".join(f"{package} {version}" for package, version in versions.items()),
        "device": translator.model.device.type,
        "settings": fingerprint(settings),
        **{name: ", ".join(_run_fingerprint(run, checkpoint) for run in named) for name, named in runs.items()},
        **{name: fingerprint(file) for name, file in files.items()},
    }


def _run_fingerprint(path: Path, checkpoint: Checkpoint) -> str:
    """The fingerprint of those files of a run that its translations depend on."""
    run = RunDirectory(path)
    files = [run.config, *sorted(run.tokenizer.iterdir()), run.checkpoint(checkpoint), run.shortlist]
    return fingerprint({str(file.relative_to(path)): fingerprint(file) for file in files if file.is_file()})


def share_machine(environment: DistributedEnvironment) -> None:
    """Give this process a CUDA device, shared if there are too few, and an equal share of the cores."""
    if environment.world_size == 1:
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(environment.local_rank % torch.cuda.device_count())
    # torchrun sets OMP_NUM_THREADS to 1 if it was not set; any other value is the user's.
    if os.environ.get("OMP_NUM_THREADS", "1") == "1":
        torch.set_num_threads(threads_per_process(environment.local_world_size))
