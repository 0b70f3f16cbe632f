"""What a user wants of single lines, from files: how translations begin, what they contain and what they do not."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from translate.cli.lines import TextLines, open_lines
from translate.errors import InputError

if TYPE_CHECKING:
    from translate.decoding import Request
    from translate.decoding.constraints.terminology import Terminology

PrefixFile = Annotated[
    Path | None,
    typer.Option("--prefix", metavar="FILE", help="Line N: how translation N begins.", rich_help_panel="Constraints"),
]
RequireFile = Annotated[
    Path | None,
    typer.Option(
        "--require",
        metavar="FILE",
        help="Line N: words and phrases, between tabs, that translation N contains.",
        rich_help_panel="Constraints",
    ),
]
TerminologyFile = Annotated[
    Path | None,
    typer.Option(
        "--terminology",
        metavar="FILE",
        help="Lines of source, tab, target: required wherever the source occurs in a line.",
        rich_help_panel="Constraints",
    ),
]
ForbidFile = Annotated[
    Path | None,
    typer.Option(
        "--forbid",
        metavar="FILE",
        help="Words and phrases, one a line, that no translation has, spelt as the tokenizer spells them.",
        rich_help_panel="Constraints",
    ),
]


class WishFiles(NamedTuple):
    """The files that were named."""

    prefix: Path | None
    require: Path | None
    terminology: Path | None


def read_requests(lines: TextLines, files: WishFiles) -> Iterator["Request"]:
    """The lines with what is wanted of each, read side by side as they are asked for; terminology is read at once.

    Raises:
        InputError: A file cannot be used, or has not as many lines as there are: at once where the numbers are known.
    """
    from translate.decoding.constraints.terminology import read_terminology

    by_line = {path: open_lines(path) for path in (files.prefix, files.require) if path is not None}
    for wishes in by_line.values():
        if lines.total is not None and wishes.total is not None and lines.total != wishes.total:
            raise InputError(_wrong_number(wishes.name, wishes.total, lines.total))
    terminology = None if files.terminology is None else read_terminology(files.terminology)
    return _requests(lines, files, by_line, terminology)


def _requests(
    lines: TextLines, files: WishFiles, by_line: dict[Path, TextLines], terminology: "Terminology | None"
) -> Iterator["Request"]:
    from translate.decoding import Request

    number = 0
    for number, line in enumerate(lines, start=1):
        wishes = {path: next(opened.lines, None) for path, opened in by_line.items()}
        for path, wish in wishes.items():
            if wish is None:
                raise InputError(f"{path} has only {number - 1} lines, and there is a line {number} to translate")
        phrases = ((wishes[files.require] if files.require else None) or "").split("\t")
        yield Request(
            line,
            prefix=(wishes[files.prefix] if files.prefix else None) or "",
            required=tuple(phrase for phrase in phrases if phrase.strip()),
            terminology=terminology,
        )
    for opened in by_line.values():
        surplus = sum(1 for _ in opened)
        if surplus:
            raise InputError(_wrong_number(opened.name, number + surplus, number))


def _wrong_number(name: str, number: int, wanted: int) -> str:
    return f"{name} has {number} lines, but {wanted} were to be translated: they pair by line"


def read_phrases(path: Path | None) -> list[str]:
    """The phrases of a file, one a line; empty lines are none."""
    from translate.data.text import read_lines

    return [] if path is None else [line for line in read_lines(path) if line.strip()]
