"""A large file translated by several processes, or in several starts: in blocks, each of which is done once.

A block is what a translator reads ahead. It follows from the input and the settings alone, so any number of processes
can go on with the parts that others have finished; and its batches are those of one process with as many workers, so
its translations are too, to the last digit of their scores.
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from translate.decoding.output.formats import OutputFormat, format_translations
from translate.decoding.parts import Part, PartsFolder, Ticket
from translate.decoding.request import ConditionCounts, Request
from translate.decoding.translator import Translator, read_buffers
from translate.errors import RunError
from translate.runs import Checkpoint, RunDirectory
from translate.runs.safety import entries
from translate.runs.seal import file_digest
from translate.versions import package_versions

_CHANGES_NO_TRANSLATION = {"batch_tokens", "workers", "device"}  # so they may be others after an interruption


class Block(NamedTuple):
    """Some lines in a row."""

    number: int
    first_number: int  # of its first line among all, from 0
    requests: list[Request]


def cut_blocks(requests: Iterable[Request], *, look_ahead_lines: int) -> Iterator[Block]:
    """The blocks of an input, read as they are asked for."""
    windows = read_buffers(requests, max_items=look_ahead_lines, count_characters=lambda request: len(request.source))
    first_number = 0
    for number, window in enumerate(windows):
        yield Block(number, first_number, window)
        first_number += len(window)


class Progress(NamedTuple):
    """What a process has gone through."""

    num_blocks: int
    elsewhere: list[Ticket]  # blocks that others were at work on


class Joined(NamedTuple):
    """What was put together."""

    counts: ConditionCounts
    lines_from_before: int  # of parts that were finished before this start


class Sharding:
    """One process's work on the blocks of an input.

    Args:
        circumstances: All that the translations follow from, but for the lines and what is wished of each.
        has_alignments: They are wanted too.
    """

    def __init__(
        self,
        translator: Translator,
        folder: PartsFolder,
        circumstances: Mapping[str, str],
        *,
        output_format: OutputFormat,
        has_alignments: bool,
    ) -> None:
        self._translator = translator
        self._folder = folder
        self._circumstances = json.dumps([circumstances, output_format, has_alignments], sort_keys=True)
        self._output_format: OutputFormat = output_format
        self._has_alignments = has_alignments
        self._from_before = folder.states()

    def work_through(
        self, requests: Iterable[Request], *, advance: Callable[[int], object] = lambda lines: None
    ) -> Progress:
        """Translate all blocks that are not finished and that nobody else works on.

        Args:
            requests: The whole input.
            advance: Told the number of lines of each block that is behind.
        """
        num_blocks = 0
        elsewhere: list[Ticket] = []
        for block in cut_blocks(requests, look_ahead_lines=self._translator.config.look_ahead_lines):
            ticket = Ticket(block.number, self._fingerprint(block))
            if self._folder.find(ticket) is None and not self._finish(block, ticket):
                elsewhere.append(ticket)
            if not self._folder.is_open():  # all were finished, and are joined
                break
            num_blocks += 1
            advance(len(block.requests))
        return Progress(num_blocks, elsewhere)

    def complete(
        self,
        requests: Iterable[Request],
        *,
        open_again: Callable[[], Iterable[Request]],
        advance: Callable[[int], object] = lambda lines: None,
    ) -> int:
        """Work until all blocks are finished, also those that another process has left; gives their number.

        Args:
            open_again: Gives the same requests.
            advance: See `work_through`.

        Raises:
            RunError: The folder was taken away meanwhile.
        """
        progress = self.work_through(requests, advance=advance)
        while not self._folder.wait_for(progress.elsewhere):
            progress = self.work_through(open_again())
        if not self._folder.is_open():
            raise RunError(f"{self._folder.path}: was removed while its parts were being made; start again")
        return progress.num_blocks

    def join(
        self, num_blocks: int, *, write: Callable[[str], None], write_alignment: Callable[[str], None] | None
    ) -> Joined:
        """Give the lines of all parts in order.

        Raises:
            RunError: A part is damaged.
        """
        total, lines_from_before = ConditionCounts(), 0
        states = self._folder.states()
        for number in range(num_blocks):
            part = self._folder.read(number)
            for line in part.output:
                write(line)
            for alignment in part.alignments:
                if write_alignment is not None:
                    write_alignment(alignment)
            total = _added(total, part.counts)
            path = self._folder.part(number)
            if path in self._from_before and self._from_before[path] == states[path]:
                lines_from_before += part.counts.lines
        return Joined(total, lines_from_before)

    def _finish(self, block: Block, ticket: Ticket) -> bool:
        """Translate a block; False: somebody else is at work on it."""
        with self._folder.claim(block.number) as is_free:
            if is_free and self._folder.find(ticket) is None and self._folder.is_open():
                self._folder.write(block.number, self._translated(block, ticket))
        return is_free

    def _translated(self, block: Block, ticket: Ticket) -> Part:
        counts = ConditionCounts()
        alignments: list[str] = []
        stream = self._translator.translate_stream(block.requests, first_number=block.first_number)
        output = format_translations(
            counts.watch(stream),
            self._translator,
            output_format=self._output_format,
            write_alignment=alignments.append if self._has_alignments else None,
            first_number=block.first_number,
        )
        return Part(ticket.fingerprint, counts, list(output), alignments)

    def _fingerprint(self, block: Block) -> str:
        digest = hashlib.sha256(f"{self._circumstances}\n{block.first_number}\n".encode())
        for request in block.requests:
            digest.update(json.dumps([request.source, request.prefix, request.required]).encode())
        return digest.hexdigest()


def find_circumstances(
    translator: Translator, runs: Mapping[str, Sequence[Path]], *, checkpoint: Checkpoint, files: Mapping[str, Path]
) -> dict[str, str]:
    """By name, all that translations follow from but the lines and what is wished of each; of what is long, digests.

    Args:
        runs: By what they are for.
        files: The same, of others.
    """
    settings = translator.config.model_dump_json(exclude=_CHANGES_NO_TRANSLATION)
    versions = {package: version for package, version in package_versions().items() if package != "python"}
    return {
        "version": ", ".join(f"{package} {version}" for package, version in versions.items()),
        "device": translator.model.device.type,
        "settings": hashlib.sha256(settings.encode()).hexdigest(),
        **{name: ", ".join(_run_digest(run, checkpoint) for run in named) for name, named in runs.items()},
        **{name: file_digest(file) for name, file in files.items()},
    }


def _run_digest(path: Path, checkpoint: Checkpoint) -> str:
    """Of all in a run that its translations follow from."""
    run = RunDirectory(path)
    digest = hashlib.sha256()
    for file in (run.config, *entries(run.tokenizer), run.checkpoint(checkpoint), run.shortlist):
        if file.is_file():
            digest.update(f"{file.relative_to(path)} {file_digest(file)}\n".encode())
    return digest.hexdigest()


def _added(first: ConditionCounts, second: ConditionCounts) -> ConditionCounts:
    names = [field.name for field in dataclasses.fields(ConditionCounts)]
    return ConditionCounts(**{name: getattr(first, name) + getattr(second, name) for name in names})
