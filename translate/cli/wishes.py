"""What a user wants of single lines, from files: how translations begin, what they contain and what they do not."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from translate.errors import InputError

if TYPE_CHECKING:
    from translate.decoding import Request
    from translate.decoding.terminology import Terminology

PrefixFile = Annotated[
    Path | None,
    typer.Option("--prefix", metavar="FILE", help="Line N: how translation N begins.", show_default=False),
]
RequireFile = Annotated[
    Path | None,
    typer.Option(
        "--require",
        metavar="FILE",
        help="Line N: words and phrases, between tabs, that translation N contains.",
        show_default=False,
    ),
]
TerminologyFile = Annotated[
    Path | None,
    typer.Option(
        "--terminology",
        metavar="FILE",
        help="Lines of source, tab, target: required wherever the source occurs in a line.",
        show_default=False,
    ),
]
ForbidFile = Annotated[
    Path | None,
    typer.Option(
        "--forbid",
        metavar="FILE",
        help="Words and phrases, one a line, that no translation has, spelt as the tokenizer spells them.",
        show_default=False,
    ),
]


class WishFiles(NamedTuple):
    """The files that were named."""

    prefix: Path | None
    require: Path | None
    terminology: Path | None


def read_requests(lines: Iterable[str], files: WishFiles) -> Iterator["Request"]:
    """The lines with what is wanted of each; the files are read at once, the lines as they are asked for.

    Raises:
        InputError: A file cannot be used, or has not as many lines as there are: at once if `lines` is a list, else
            when it is known.
    """
    from translate.data.corpora import read_lines
    from translate.decoding.terminology import read_terminology

    by_line = {path: read_lines(path) for path in (files.prefix, files.require) if path is not None}
    if isinstance(lines, list):
        for path, wishes in by_line.items():
            _check_number(path, wishes, len(lines))
    terminology = None if files.terminology is None else read_terminology(files.terminology)
    return _requests(lines, files, by_line, terminology)


def _requests(
    lines: Iterable[str], files: WishFiles, by_line: dict[Path, list[str]], terminology: "Terminology | None"
) -> Iterator["Request"]:
    from translate.decoding import Request

    number = 0
    for number, line in enumerate(lines, start=1):
        for path, wishes in by_line.items():
            if number > len(wishes):
                raise InputError(f"{path} has only {len(wishes)} lines, and there is a line {number} to translate")
        phrases = [] if files.require is None else by_line[files.require][number - 1].split("\t")
        terms = [] if terminology is None else terminology.matches(line)
        yield Request(
            line,
            prefix="" if files.prefix is None else by_line[files.prefix][number - 1],
            required=tuple(phrase for phrase in (*phrases, *terms) if phrase.strip()),
        )
    for path, wishes in by_line.items():
        _check_number(path, wishes, number)


def _check_number(path: Path, wishes: list[str], number: int) -> None:
    if len(wishes) != number:
        raise InputError(f"{path} has {len(wishes)} lines, but {number} were to be translated: they pair by line")


def read_phrases(path: Path | None) -> list[str]:
    """The phrases of a file, one a line; empty lines are none."""
    from translate.data.corpora import read_lines

    return [] if path is None else [line for line in read_lines(path) if line.strip()]
