"""Translates a large file with several processes, or over several starts, in blocks that are translated once.

Rank r of n translates the blocks r, r + n, r + 2n, …, and writes each into a part file, whole or not at all; rank 0
joins the parts. A block is the buffer of lines that a translator would read ahead, so a single process would give the
same translations, down to the last digit of their scores. Blocks depend on the input and the settings alone, so a later
start by any number of processes can use the finished parts: a part carries the fingerprint of everything that it
depends on.
"""

import contextlib
import dataclasses
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from translate._version import package_versions
from translate.atomic import atomic_write, explain_write_errors, is_temporary, open_output, text_bytes
from translate.decoding.output.formats import OutputFormat, format_translations
from translate.decoding.request import OnFinished, Request, ignore_progress, read_buffers
from translate.decoding.synthetic import PairFormat
from translate.decoding.translation import ConditionCounts
from translate.decoding.translator import Translator
from translate.distributed.process_group import DistributedEnvironment, World
from translate.errors import InputError, RunError
from translate.files import FileError, open_input, read_input
from translate.fingerprint import fingerprint
from translate.model.device import choose_device, is_asynchronous, threads_per_process
from translate.runs.directory import Checkpoint, RunDirectory, is_lock_file
from translate.runs.lock import hold_lock

_CHANGES_NO_TRANSLATION = {"batch_tokens", "workers", "device"}  # a later start may change these settings


class OutputPart(NamedTuple):
    """The output of one block, as its file holds it."""

    counts: ConditionCounts
    output: list[str]  # lines without line ends
    alignments: list[str]


@dataclasses.dataclass(frozen=True)
class ShardedDecoder:
    """Translates an input in blocks, and keeps their parts in a folder next to the output until they are joined."""

    translator: Translator
    dependencies: dict[str, str]  # all that translations depend on, except requests; from `collect_dependencies`
    output_format: OutputFormat
    output: Path
    alignments: Path | None  # where to write word alignments; None: nowhere
    pairs: PairFormat | None = None  # the output is a synthetic corpus; None: it is in the output format
    is_new: bool = False  # the output never replaces a file

    @property
    def folder(self) -> Path:
        """The folder of the parts."""
        return self.output.with_name(f"{self.output.name}.parts")

    def decode(
        self, world: World, requests: Iterable[Request], *, on_finished: OnFinished = ignore_progress
    ) -> tuple[ConditionCounts, int]:
        """Translate an input together with the other ranks, each of which has the whole input, and keep the parts.

        Returns:
            The counts of all lines, and the number of lines that an earlier start had finished; on all ranks.

        Raises:
            InputError: Another command holds the folder, or it has a file that is not a part.
            RunError: A file cannot be written, or is not seen by rank 0.
        """
        with contextlib.ExitStack() as stack:
            world.run_on_rank_0(lambda: stack.enter_context(self.hold_folder()))
            fingerprints, lines_kept = world.run_on_all_ranks(
                lambda: self.translate_blocks(requests, rank=world.rank, world_size=world.size, on_finished=on_finished)
            )
            counts = world.run_on_rank_0(lambda: self.join_parts(fingerprints))
            return counts, sum(world.all_gather(lines_kept))

    @contextlib.contextmanager
    def hold_folder(self) -> Iterator[None]:
        """Create the folder, keep other commands out of it, and remove it in the end if it has no part."""
        with explain_write_errors(self.folder):
            self.folder.mkdir(exist_ok=True)
            for entry in self.folder.iterdir():
                if not (is_part(entry) or is_temporary(entry) or (entry.name == "lock" and is_lock_file(entry))):
                    raise InputError(f"{entry}: is not a part, and this folder is for parts; move it elsewhere")
        with hold_lock(self.folder / "lock", busy="is running there: wait for it, stop it, or choose another --output"):
            try:
                yield
            finally:
                if not any(self.folder.glob("*.part")):
                    with contextlib.suppress(OSError):  # it contains other files
                        (self.folder / "lock").unlink(missing_ok=True)
                        self.folder.rmdir()

    def translate_blocks(
        self, requests: Iterable[Request], *, rank: int, world_size: int, on_finished: OnFinished = ignore_progress
    ) -> tuple[list[str], int]:
        """Translate those blocks of a rank that have no finished part.

        Lines of other ranks' blocks count as finished when this rank reaches them.

        Returns:
            The fingerprints of all blocks, and the number of lines in this rank's parts that were finished before.
        """
        dependencies = [self.dependencies, self.output_format, self.alignments is not None]
        fingerprints: list[str] = []
        first_line = lines_kept = 0
        for number, block in enumerate(read_buffers(requests, max_items=self.translator.config.look_ahead_lines)):
            lines = [[request.source, request.prefix, request.required] for request in block]
            fingerprints.append(fingerprint([dependencies, first_line, lines]))
            is_mine = number % world_size == rank
            if is_mine and read_part(self.part_file(number), fingerprints[-1]) is None:
                part = self._translate_block(block, first_line, on_finished)
                write_part(self.part_file(number), fingerprints[-1], part)
            else:
                lines_kept += len(block) * is_mine
                on_finished(len(block))
            first_line += len(block)
        return fingerprints, lines_kept

    def _translate_block(self, block: Sequence[Request], first_line: int, on_finished: OnFinished) -> OutputPart:
        counts, alignments = ConditionCounts(), list[str]()
        stream = self.translator.translate_stream(block, first_number=first_line, on_finished=on_finished)
        if self.pairs is not None:
            output = self.pairs.lines(stream, counts, first_line)
        else:
            output = format_translations(
                counts.watch(stream),
                self.translator,
                output_format=self.output_format,
                write_alignment=alignments.append if self.alignments else None,
                first_number=first_line,
            )
        return OutputPart(counts, list(output), alignments)

    def join_parts(self, fingerprints: Sequence[str]) -> ConditionCounts:
        """Join the parts of all blocks into the output, given the fingerprint of each."""
        counts, links_file = ConditionCounts(), self.alignments or Path(os.devnull)
        with open_output(links_file) as links, open_output(self.output, is_new=self.is_new) as lines:
            for number, block_fingerprint in enumerate(fingerprints):
                part = read_part(self.part_file(number), block_fingerprint)
                if part is None:
                    raise RunError(
                        f"{self.part_file(number)}: is missing, damaged or changed since it was written; run the same"
                        " command again to translate it again. All processes must write to a disk that all machines"
                        " share"
                    )
                counts.update(part.counts)
                lines.writelines(text_bytes(f"{line}\n") for line in part.output)
                links.writelines(text_bytes(f"{alignment}\n") for alignment in part.alignments)
        return counts

    def remove_parts(self) -> None:
        """Remove the parts of a complete output, and their folder, unless another command uses it."""
        with contextlib.suppress(OSError, InputError, RunError), self.hold_folder():
            for part_file in list(self.folder.glob("*.part")):
                part_file.unlink()

    def part_file(self, number: int) -> Path:
        """Return the path of a block's part."""
        return self.folder / f"{number:07}.part"


def write_part(file: Path, block_fingerprint: str, part: OutputPart) -> None:
    """Write a part; its first line is a checksum of its content and of the fingerprint of its block."""
    content = json.dumps(part)
    with atomic_write(file) as opened:
        opened.write(text_bytes(f"{fingerprint(block_fingerprint, content)}\n{content}"))


def is_part(file: Path) -> bool:
    """Whether a file is a part of some decoding, by its name and the checksum that it begins with; it may be empty."""
    if not re.fullmatch(r"\d{7}\.part", file.name) or file.is_symlink():
        return False
    with open_input(file) as opened:
        return re.fullmatch(rb"([0-9a-f]{64}\n)?", opened.read(65)) is not None


def read_part(file: Path, block_fingerprint: str) -> OutputPart | None:
    """Read a part; None if there is none, if it is damaged, or if it belongs to another block, run or version."""
    try:
        checksum, _, content = read_input(file, at_most=2**31).decode().partition("\n")
    except (FileError, UnicodeDecodeError):
        return None
    if checksum != fingerprint(block_fingerprint, content):
        return None
    counts, output, alignments = json.loads(content)
    return OutputPart(ConditionCounts(counts), output, alignments)


def collect_dependencies(
    translator: Translator, files: Mapping[str, Sequence[Path]], *, checkpoint: Checkpoint
) -> dict[str, str]:
    """Collect everything that translations depend on, by name, except the lines and their constraints.

    Args:
        files: Run directories and other files, by purpose.
    """
    settings = translator.config.model_dump(mode="json", exclude=_CHANGES_NO_TRANSLATION)
    versions = {package: version for package, version in package_versions().items() if package != "python"}
    return {
        "version": ", ".join(f"{package} {version}" for package, version in versions.items()),
        "device": translator.model.device.type,
        "settings": fingerprint(settings),
        "direction": str(translator.direction),
        **{name: ", ".join(_fingerprint(path, checkpoint) for path in paths) for name, paths in files.items()},
    }


def _fingerprint(path: Path, checkpoint: Checkpoint) -> str:
    """The fingerprint of a file, or of the files in a run that its translations depend on."""
    if path.is_file():
        return fingerprint(path)
    run = RunDirectory(path)
    files = [run.config, *sorted(run.tokenizer.iterdir()), run.checkpoint(checkpoint)]
    return fingerprint({str(file.relative_to(path)): fingerprint(file) for file in files if file.is_file()})


def share_machine(environment: DistributedEnvironment) -> None:
    """Give this process a CUDA device, shared if there are too few, and an equal share of the cores."""
    if environment.world_size == 1:
        return
    if is_asynchronous(device := choose_device("auto")):
        module = torch.get_device_module(device)
        module.set_device(environment.local_rank % module.device_count())
    # torchrun sets OMP_NUM_THREADS to 1 if it was not set; any other value is the user's.
    if os.environ.get("OMP_NUM_THREADS", "1") == "1":
        torch.set_num_threads(threads_per_process(environment.local_world_size))
