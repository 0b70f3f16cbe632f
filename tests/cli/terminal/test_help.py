"""Help: panels as wide as the terminal, nothing cut, examples unbroken, no escape codes in a pipe."""

import re
from collections.abc import Callable

import pytest
import typer
from typer.testing import Result

from translate.cli import app
from translate.cli.terminal.help import Command, CommandGroup

Translate = Callable[..., Result]
Found = list[tuple[list[str], Command | CommandGroup]]


def walk(command: object, path: list[str]) -> Found:
    assert isinstance(command, Command | CommandGroup), path
    children = getattr(command, "commands", {})
    return [(path, command), *(each for name in children for each in walk(children[name], [*path, name]))]


COMMANDS = walk(typer.main.get_command(app), [])


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    "path, command", COMMANDS, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_help_fills_the_width_and_cuts_nothing(
    translate: Translate, monkeypatch: pytest.MonkeyPatch, path: list[str], command: Command, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    text = translate(*path, "--help").stdout
    assert "…" not in text and "\x1b" not in text and "\b" not in text
    framed = [line for line in text.splitlines() if line[:1] in "╭│╰" and line]
    assert framed and {len(line) for line in framed} == {width}
    assert max(map(len, text.splitlines())) <= width  # the examples too
    assert not any("bool" in line for line in framed)  # a flag takes no value
    shown = " ".join(re.sub(r"[│╭╰─╮╯]", " ", text).split())
    for parameter in command.params:
        for name in parameter.opts if parameter.param_type_name == "option" else [parameter.metavar]:
            assert name is None or name.strip() in shown


def test_main_help_has_the_whole_first_paragraph_of_each_command(
    translate: Translate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = translate("--help").stdout
    for path, command in COMMANDS:
        if len(path) == 1:
            assert command.help is not None
            assert re.search(rf"│ {path[0]} +{re.escape(command.help.split(chr(10))[0])} +│", text), path
    titles = re.findall(r"╭─ (.*?) ─", text)
    assert titles == ["Options", "Train", "Translate and evaluate", "Make from a run", "Look inside"]


def test_examples_stand_below_all_panels_as_they_are_written(translate: Translate) -> None:
    text = translate("decode", "--help").stdout
    assert text.rindex("╯") < text.index(" Examples:\n   echo ")
    (example,) = [line for line in text.splitlines() if "--epsilon 0.02" in line]
    assert example == "   translate decode runs/demo input.de --search sample --epsilon 0.02 --mbr chrf"
    # A second --help in the same process shows them too.
    assert translate("decode", "--help").stdout == text


def test_paragraphs_after_the_first_are_filled(translate: Translate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = [line.rstrip() for line in translate("score", "--help").stdout.splitlines()]
    first = next(number for number, line in enumerate(lines) if line.startswith(" log_prob is in nats"))
    paragraph = lines[first : lines.index("", first)]
    assert len(paragraph) > 2 and all(len(line) > 60 for line in paragraph[:-1])
