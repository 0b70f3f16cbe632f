"""Lines of text in and out, UTF-8 and split only at newlines in any locale; and the constraints of each line."""

import contextlib
import dataclasses
import json
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import typer

from translate.atomic import open_output, text_bytes
from translate.cli.terminal.console import is_terminal, without_bar
from translate.errors import InputError
from translate.files import check_is_text, check_output, open_standard_input
from translate.messages import escaped

if TYPE_CHECKING:
    from translate.decoding import Request
    from translate.decoding.constraints.terminology import Terminology

logger = logging.getLogger(__name__)

Line = TypeVar("Line")

_NUMBER = re.compile(r"[+-]?[0-9][0-9.,e+-]*|")  # or nothing


@dataclasses.dataclass(frozen=True)
class TextLines(Generic[Line]):
    """Lines, or rows of lines of several files, read once and lazily."""

    lines: Iterator[Line]
    total: int | None  # None: unknown before the end
    name: str

    def __iter__(self) -> Iterator[Line]:
        return self.lines


def open_lines(file: Path | None, *, may_be_table: bool = False) -> TextLines[str]:
    """Open the lines of a file or of standard input, without holding more than one in memory.

    A file is read twice, first to check it and to count its lines. Standard input and pipes, which can be read only
    once, are checked on the way.

    Raises:
        InputError: The file cannot be used, or is standard input, which this command has opened before.
    """
    from translate.data.text import iterate_lines, stream_lines

    if file is None or str(file) == "-":
        return TextLines(iterate_lines(open_standard_input(), "standard input"), None, "standard input")
    if not may_be_table:
        check_is_text(file)
    total = None if file.is_fifo() else sum(1 for _ in stream_lines(file))
    return TextLines(stream_lines(file, may_be_pipe=True), total, str(file))


def paired_lines(*files: TextLines[str]) -> TextLines[Any]:
    """Rows of the lines with the same number in all files.

    Raises:
        InputError: One file has more lines than another; raised immediately where both numbers are known.
    """
    names = " and ".join(file.name for file in files)
    counted = [file for file in files if file.total is not None]
    if len({file.total for file in counted}) > 1:
        found = ", ".join(f"{file.name} has {file.total} line{'s' * (file.total != 1)}" for file in counted)
        raise InputError(f"{found}: they must pair line by line")

    def rows() -> Iterator[tuple[str, ...]]:
        try:
            yield from zip(*files, strict=True)
        except ValueError:
            raise InputError(f"{names} have different numbers of lines: they must pair line by line") from None

    return TextLines(rows(), next((file.total for file in counted), None), names)


def warn_of_missed_terms(missed: Iterable[Sequence[str]]) -> None:
    """Warn of the terms that occur in another form, which are given by line."""
    if lines := list(filter(None, missed)):
        from translate.config.languages import list_some

        forms = list_some(list(dict.fromkeys(chain.from_iterable(lines))))
        logger.warning(
            f"Terminology: lines with another form of a term, which was not required there: {len(lines):,} ({forms});"
            " list these forms too, or use --terminology-forms"
        )


def read_requests(
    lines: TextLines[str], files: dict[str, Path], terminology: "Terminology | None"
) -> Iterator["Request"]:
    """Pair lines with the lines of constraint files, which are given by option; warn of missed terms at the end.

    Raises:
        InputError: A file cannot be used, or its number of lines is wrong: raised immediately if both are known.
    """
    by_line = [name for name in ("prefix", "require") if name in files]
    rows = paired_lines(lines, *(open_lines(files[name], may_be_table=True) for name in by_line))
    from translate.decoding import Request

    def requests() -> Iterator[Request]:
        missed: list[list[str]] = []
        for line, *constraints in rows:
            given = dict(zip(by_line, constraints, strict=True))
            required = tuple(phrase for phrase in given.get("require", "").split("\t") if phrase.strip())
            missed += [terminology.missed_forms(line)] if terminology else []
            yield Request(line, given.get("prefix", ""), required, terminology)
        warn_of_missed_terms(missed)

    return requests()


def check_outputs(outputs: dict[str, Path | None]) -> None:
    """Check early what `open_output` would refuse later: an output that this command has already read.

    Args:
        outputs: Files to write, by the option that names them; None: no file.

    Raises:
        InputError: An output is an input, another output, or a file of a run.
    """
    from translate.runs.directory import containing_run

    taken: dict[str, str] = {}
    for option, output in outputs.items():
        if output is None:
            continue
        if run := containing_run(output):
            raise InputError(f"{option} {output}: belongs to the run {run}; name another")
        check_output(output, option)
        real = os.path.realpath(output)
        if real in taken and (output.is_file() or not output.exists()):
            raise InputError(f"{option} {output}: {taken[real]} is the same file; name another")
        taken[real] = option


def write_lines(lines: Iterable[str], output: Path | None, *, end: str = "\n") -> None:
    """Write lines to a file, which appears only when it is complete, or to standard output, each immediately."""
    if output is not None:
        with open_line_output(output, end=end) as write:
            for line in lines:
                write(line)
        return
    sys.stdout.flush()
    is_shown = is_terminal(sys.stdout)
    for line in map(escaped, lines) if is_shown else lines:
        with without_bar() if is_shown else contextlib.nullcontext():
            sys.stdout.buffer.write(text_bytes(f"{line}{end}"))
            sys.stdout.buffer.flush()


@contextlib.contextmanager
def open_line_output(path: Path, *, end: str = "\n") -> Iterator[Callable[[str], object]]:
    """Open a file for lines, as `open_output` does."""
    with open_output(path) as file:
        yield lambda line: file.write(text_bytes(f"{line}{end}"))


def print_json(document: Mapping[str, Any]) -> None:
    """Print one JSON document, the result of a command with --json; docs/json.md has the schemas."""
    write_lines([json.dumps({"format": 2, **document}, indent=2)], None)


def plain(value: Any) -> Any:
    """Named tuples as the objects of a JSON document."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, tuple | list) else value


def print_result(text: str, document: Mapping[str, Any] | None = None, *, as_json: bool) -> None:
    """Print part of a command's result: as text, or as its JSON document if there is one."""
    if not as_json:
        typer.echo(escaped(text))
    elif document is not None:
        print_json(document)


def aligned_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table whose first row is the header; columns of numbers, except the first, are right-aligned."""
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    is_right = [number > 0 and all(map(_NUMBER.fullmatch, column[1:])) for number, column in enumerate(columns)]
    return [
        "".join(
            f"  {cell.rjust(width) if right else cell.ljust(width)}"
            for cell, width, right in zip(row, widths, is_right, strict=True)
        ).rstrip()
        for row in rows
    ]
