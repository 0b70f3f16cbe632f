"""The files of `decode` that constrain translations: how they begin, what they contain, and what they do not."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from translate.cli.lines import TextLines, open_lines
from translate.errors import InputError

if TYPE_CHECKING:
    from translate.decoding import Request


def _file_option(name: str, help_text: str) -> Any:
    return typer.Option(name, metavar="FILE", help=help_text, rich_help_panel="Constraints")


PrefixFile = Annotated[Path | None, _file_option("--prefix", "Line N: how translation N begins.")]
RequireFile = Annotated[
    Path | None, _file_option("--require", "Line N: words and phrases, between tabs, that translation N contains.")
]
TerminologyFile = Annotated[
    Path | None,
    _file_option("--terminology", "Lines of source, tab, target: required wherever the source occurs in a line."),
]
ForbidFile = Annotated[
    Path | None,
    _file_option("--forbid", "Words and phrases, one a line, that no translation has, spelt as the tokenizer does."),
]


class ConstraintFiles(NamedTuple):
    """The files that were named."""

    prefix: Path | None
    require: Path | None
    terminology: Path | None
    forbid: Path | None


def read_requests(lines: TextLines, files: ConstraintFiles) -> Iterator["Request"]:
    """The lines with their constraints, read side by side as they are asked for; the terminology is read at once.

    Raises:
        InputError: A file cannot be used, or its number of lines is wrong: at once where the numbers are known.
    """
    from translate.decoding import Request
    from translate.decoding.constraints.terminology import read_terminology

    prefixes, phrases = (None if path is None else open_lines(path) for path in (files.prefix, files.require))
    by_line = [each for each in (prefixes, phrases) if each is not None]
    for each in by_line:
        if lines.total is not None and each.total is not None and lines.total != each.total:
            raise InputError(_wrong_number(each, each.total, lines.total))
    terminology = None if files.terminology is None else read_terminology(files.terminology)

    def requests() -> Iterator[Request]:
        number = 0
        for number, line in enumerate(lines, start=1):
            prefix, required = _next_line(prefixes, number), _next_line(phrases, number).split("\t")
            yield Request(line, prefix, tuple(phrase for phrase in required if phrase.strip()), terminology)
        for each in by_line:
            if surplus := sum(1 for _ in each):
                raise InputError(_wrong_number(each, number + surplus, number))

    return requests()


def _next_line(opened: TextLines | None, number: int) -> str:
    if opened is None:
        return ""
    line = next(opened.lines, None)
    if line is None:
        raise InputError(f"{opened.name} has only {number - 1} lines, and there is a line {number} to translate")
    return line


def _wrong_number(opened: TextLines, number: int, expected: int) -> str:
    return f"{opened.name} has {number} lines, but {expected} were to be translated: they pair by line"


def read_phrases(path: Path | None) -> list[str]:
    """The phrases of a file, one a line; empty lines are skipped."""
    from translate.data.text import read_lines

    return [] if path is None else [line for line in read_lines(path) if line.strip()]
