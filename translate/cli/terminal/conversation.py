"""A conversation on a terminal: each line that is typed is answered with its translations and notes on problems.

The history of the arrow keys lasts as long as the command and is never written to disk: it may be confidential.
"""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from translate.cli.terminal.console import has_colour, is_terminal
from translate.errors import InputError
from translate.messages import escaped

if TYPE_CHECKING:
    from translate.decoding import Request, Translation, Translator


def is_typed(file: Path | None) -> bool:
    """Whether the input is typed on a terminal."""
    return (file is None or str(file) == "-") and is_terminal(sys.stdin)


def converse(
    translator: "Translator", requests: Iterator["Request"], *, output_format: Literal["text", "jsonl"]
) -> Iterator["Translation"]:
    """Print and yield the translations of each request; Ctrl-C cancels one search."""
    from translate.decoding.output.formats import format_translations

    for number, request in enumerate(requests):
        try:
            translations = list(translator.translate_stream([request], first_number=number))
            if output_format == "jsonl":
                answer = list(format_translations(translations, translator, output_format="jsonl", first_number=number))
            else:
                answer = list(_describe(translations[0], translator))
        except InputError as error:
            typer.echo(escaped(f"translate: {error}"), err=True)
        except KeyboardInterrupt:
            typer.echo("\r[cancelled]")
        else:
            typer.echo("\n".join(answer), color=has_colour(sys.stdout))
            yield from translations


def typed_lines() -> Iterator[str]:
    """Yield lines typed at a prompt, except empty ones. The arrow keys edit a line and recall earlier ones."""
    with contextlib.suppress(ImportError):
        import readline  # enables line editing in `input`

        readline.parse_and_bind("set enable-bracketed-paste off")  # pasted lines are separate lines
    while True:
        try:
            line = input("> ")
            line.encode()
        except EOFError:
            typer.echo()
            return
        except UnicodeError:
            typer.echo("translate: that line is not UTF-8; set the terminal to UTF-8", err=True)
        except KeyboardInterrupt:
            typer.echo()
        else:
            if line.strip():
                yield line


def _describe(translation: "Translation", translator: "Translator") -> Iterator[str]:
    """One line per n-best translation, with its number and score, and notes."""
    from translate.decoding.output.flags import FLAGS

    candidates, lacks = (translation, *translation.alternatives), translator.tokenizers.source.lacks
    for number, each in enumerate(candidates, start=1):
        rank = typer.style(f"{number:>2}  {each.score:8.3f}  ", dim=True) if translator.config.n_best > 1 else ""
        unnamed = each.flags - {"unspellable", "unmet"}  # notes name the characters and the phrases instead
        notes = [words.phrase for flag, words in FLAGS.items() if flag in unnamed]
        if number == 1 and (unknown := " ".join(filter(lacks, dict.fromkeys(translation.source)))):
            notes.insert(0, f"not in the vocabulary: {unknown}")
        notes += [f"without {phrase!r}" for phrase in each.unmet]
        shown = typer.style(escaped(f"[{'; '.join(notes)}]"), dim=True) if notes else ""
        yield f"{rank}{escaped(each.text)}{'  ' * bool(each.text and notes)}{shown}"
