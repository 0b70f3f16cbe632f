"""A conversation on a terminal, with a keyboard that is played; `tests/system/test_streams.py` has a real terminal."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import run_command as translate

from translate.cli.terminal import conversation
from translate.cli.terminal.conversation import converse, is_typed, typed_lines
from translate.decoding import Request, Translator
from translate.decoding.engines.engine import SearchJob
from translate.decoding.engines.own import OwnEngine
from translate.decoding.loading import load_own_translator

pytestmark = pytest.mark.usefixtures("no_shape_checks")

SOURCES = ["Hund und Haus", "Haus", "Hund"]


@pytest.fixture(scope="module")
def translator(learnt: Path) -> Translator:
    return load_own_translator(learnt).translator


def requests(*sources: str) -> Iterator[Request]:
    return iter([Request(source) for source in sources])


def play(monkeypatch: pytest.MonkeyPatch, *events: str | BaseException) -> None:
    """Let `input` give these lines, or raise what keys such as Ctrl-C make it raise."""
    left = iter(events)

    def next_event(prompt: str) -> str:
        assert prompt == "> "
        event = next(left)
        if isinstance(event, BaseException):
            raise event
        return event

    monkeypatch.setattr("builtins.input", next_event)


def test_lines_are_typed_until_the_end(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Empty lines and Ctrl-C are passed over, and so is what cannot be UTF-8."""
    play(monkeypatch, "eins", "", "  ", KeyboardInterrupt(), "zw\udcffei", " drei", EOFError(), "never")
    assert list(typed_lines()) == ["eins", " drei"]
    out, err = capsys.readouterr()
    assert (out, err) == ("\n\n", "translate: that line is not UTF-8; set the terminal to UTF-8\n")


def test_input_from_a_pipe_is_not_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_typed(None) and not is_typed(Path("x.de"))
    monkeypatch.setattr(conversation, "is_terminal", lambda stream: True)
    assert is_typed(None) and is_typed(Path("-")) and not is_typed(Path("x.de"))


def test_each_line_is_answered(translator: Translator, capsys: pytest.CaptureFixture[str]) -> None:
    expected = [each.text for each in translator.translate(SOURCES)]
    found = list(converse(translator, requests(*SOURCES), output_format="text"))
    assert [each.text for each in found] == expected == capsys.readouterr().out.splitlines()


def test_n_best_translations_are_numbered_with_their_scores(
    translator: Translator, capsys: pytest.CaptureFixture[str]
) -> None:
    three = translator.with_options(n_best=3)
    (best,) = three.translate(SOURCES[:1])
    list(converse(three, requests(SOURCES[0]), output_format="text"))
    rows = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
    expected = [best, *best.alternatives]
    assert [row[:2] for row in rows] == [[str(n), f"{each.score:.3f}"] for n, each in enumerate(expected, start=1)]
    assert all(row[2].startswith(each.text) for row, each in zip(rows, expected, strict=True)) and len(rows) == 3


def test_notes_stand_beside_the_answer(translator: Translator, capsys: pytest.CaptureFixture[str]) -> None:
    """The snowman has no entry in the vocabulary; a translation of two tokens is cut."""
    short = translator.with_options(max_length_factor=0.0, max_length_constant=2)
    (answer,) = converse(short, requests("Hund ☃ und ☃ Haus"), output_format="text")
    assert answer.truncated
    start, _, notes = capsys.readouterr().out.partition("  [")
    assert start == answer.text
    assert notes.startswith("not in the vocabulary: ☃; ") and "cut at the maximum length" in notes


def test_json_records_are_those_of_decode(
    translator: Translator, learnt: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    list(converse(translator, requests(*SOURCES), output_format="jsonl"))
    told = capsys.readouterr().out
    options = ["--format", "jsonl", "--interactive", "--engine", "translate", "--precision", "fp32"]
    decoded = translate("decode", learnt, *options, stdin="\n".join(SOURCES).encode())
    assert told == decoded.stdout and [json.loads(line)["line"] for line in told.splitlines()] == [1, 2, 3]


def test_an_interrupt_or_a_wrong_line_ends_that_line_alone(
    translator: Translator, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    strict = translator.with_options(long="error", max_source_tokens=3)
    search = OwnEngine.search

    def interrupted(self: OwnEngine, job: SearchJob) -> None:
        if job.inputs[0].source == "Haus":
            raise KeyboardInterrupt
        search(self, job)

    monkeypatch.setattr(OwnEngine, "search", interrupted)
    found = list(converse(strict, requests("Haus", "Hund " * 30, "Hund"), output_format="text"))
    out, err = capsys.readouterr()
    assert [each.source for each in found] == ["Hund"]
    assert out == f"\r[cancelled]\n{found[0].text}\n"
    assert err.startswith("translate: line 2: ") and "decoding.max_source_tokens" in err
