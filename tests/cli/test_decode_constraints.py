"""`translate decode` with files of constraints: seen in the output, and an error for a wrong file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

Translate = Callable[..., Result]
Write = Callable[[str], Path]

SOURCES = ["schläft Hund", "", "grün Haus läuft", "Hund"]
TEXT = "".join(f"{line}\n" for line in SOURCES).encode()
OPTIONS = ["--prefix", "--require", "--terminology", "--forbid"]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def file(text: str) -> Path:
        path = tmp_path / "constraints.txt"
        path.write_text(text, encoding="utf-8")
        return path

    return file


def translations(result: Result) -> list[str]:
    assert result.exit_code == 0, result.stderr
    lines = result.stdout_bytes.decode().split("\n")
    assert lines.pop() == "" and len(lines) == len(SOURCES)
    return lines


def plain(translate: Translate, run: Path) -> list[str]:
    return translations(translate("decode", run, stdin=TEXT))


def test_prefixes(translate: Translate, learnt: Path, write: Write) -> None:
    """Line by line; an empty one asks for nothing, and an empty source has an empty translation all the same."""
    file = write("house\ndog\n\nruns and\n")
    found = translations(translate("decode", learnt, "--prefix", file, stdin=TEXT))
    without = plain(translate, learnt)
    assert found[0].startswith("house") and not without[0].startswith("house")
    assert (found[1], found[2]) == ("", without[2])
    assert found[3].startswith("runs and") and not without[3].startswith("runs and")


def test_a_prefix_is_kept_by_samples_and_all_of_an_n_best_list(
    translate: Translate, learnt: Path, write: Write
) -> None:
    file = write("house\n" * len(SOURCES))
    for options in (["--search", "sample"], ["--diversity-groups", "2"]):
        result = translate("decode", learnt, *options, "--n-best=3", "--format=jsonl", "--prefix", file, stdin=TEXT)
        for record in map(json.loads, result.stdout.splitlines()):
            texts = [each["translation"] for each in (record, *record["n_best"])]
            assert texts == [""] if not record["source"] else all(text.startswith("house") for text in texts)


def test_required_phrases(translate: Translate, learnt: Path, write: Write) -> None:
    """Tabs are between them."""
    file = write("green\tand runs\n\n\nand\t\tdog\n")
    found = translations(translate("decode", learnt, "--require", file, stdin=TEXT))
    without = plain(translate, learnt)
    assert "green" in found[0].split() and "and runs" in found[0] and "green" not in without[0]
    assert (found[1], found[2]) == ("", without[2])
    assert {"and", "dog"} <= set(found[3].split()) and "and" not in without[3].split()


def test_what_has_no_room_is_unmet_and_said(translate: Translate, learnt: Path, write: Write) -> None:
    file = write("dog\n\nrunsrunsrunsrunsruns\n\n")
    length = ["--max-length-factor", "0", "--max-length-constant", "8"]
    result = translate("decode", learnt, *length, "--require", file, "--format", "jsonl", stdin=TEXT)
    unmet = [json.loads(line)["unmet"] for line in result.stdout.splitlines()]
    assert unmet == [[], [], ["runsrunsrunsrunsruns"], []]
    assert "unmet" in json.loads(result.stdout.splitlines()[2])["flags"]
    assert ", 1 without a required phrase in " in result.stderr


def test_terminology(translate: Translate, learnt: Path, write: Write) -> None:
    file = write("# animals and buildings\nHund\tand and\n\nHaus\tsleeps\n")
    found = translations(translate("decode", learnt, "--terminology", file, stdin=TEXT))
    assert ["and and" in text for text in found] == [True, False, False, True]
    assert "sleeps" in found[2].split() and "sleeps" not in plain(translate, learnt)[2]


def test_terms_are_required_beside_phrases(translate: Translate, learnt: Path, write: Write, tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_text("Hund\tgreen\n")
    constraints = ["--require", write("runs\n\n\nhouse\n"), "--terminology", tmp_path / "terms.tsv"]
    found = translations(translate("decode", learnt, *constraints, stdin=TEXT))
    assert {"runs", "green"} <= set(found[0].split()) and {"house", "green"} <= set(found[3].split())


@pytest.mark.parametrize("search", ["beam", "sample"])
def test_forbidden_words(translate: Translate, learnt: Path, write: Write, search: str) -> None:
    """Empty lines of the file forbid nothing."""
    assert sum("dog" in text.split() for text in plain(translate, learnt)) > 0
    options = ["--search", search, "--forbid", write("dog\n\nhouse\n")]
    found = translations(translate("decode", learnt, *options, stdin=TEXT))
    assert not any({"dog", "house"} & set(text.split()) for text in found)
    assert found[0] != "" != found[3]


@pytest.mark.parametrize("option", OPTIONS)
def test_an_empty_or_missing_file(translate: Translate, learnt: Path, tmp_path: Path, option: str) -> None:
    missing = tmp_path / "missing"
    result = translate("decode", learnt, option, missing, "-o", tmp_path / "out", stdin=TEXT)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"translate: {missing}: no such file\n")
    assert list(tmp_path.iterdir()) == []
    result = translate("decode", learnt, option, tmp_path, stdin=TEXT)
    assert result.exit_code == 2
    assert result.stderr == f"translate: {tmp_path}: is a folder, and a file is needed\n"
    missing.write_bytes(b"")
    if option in ("--terminology", "--forbid"):
        assert translations(translate("decode", learnt, option, missing, stdin=TEXT)) == plain(translate, learnt)


@pytest.mark.parametrize("option", ["--prefix", "--require"])
@pytest.mark.parametrize("as_file", [True, False])
def test_wrong_numbers_of_lines(
    translate: Translate, learnt: Path, write: Write, tmp_path: Path, option: str, as_file: bool
) -> None:
    """Said before anything is written where the input is a file, whose lines can be counted."""
    source, output = tmp_path / "in.de", tmp_path / "out.en"
    source.write_bytes(TEXT)
    given: dict[str, Any] = {} if as_file else {"stdin": TEXT}
    command = ["decode", learnt, *([source] if as_file else []), "-o", output]
    for number in (0, 3, 5):
        file = write("dog\n" * number)
        result = translate(*command, option, file, **given)
        assert result.exit_code == 2 and not output.exists()
        message = f"standard input and {file} have different numbers of lines: they must pair line by line"
        if as_file:
            message = f"{file} has {number} lines, but {len(SOURCES)} were to be translated: they pair by line"
        assert result.stderr == f"translate: {message}\n"


@pytest.mark.parametrize(
    "option, text, message",
    [
        ("--terminology", "Hund\n", "line 1: 'Hund': source, tab, target are needed"),
        (
            "--terminology",
            "Hund\tdog\nHund\thound\n",
            "line 2: 'Hund' is translated as 'hound', but in line 1 as 'dog'",
        ),
        ("--forbid", "dog\nr\xfcns\n", None),
    ],
)
def test_wrong_lines_are_named(
    translate: Translate, learnt: Path, write: Write, option: str, text: str, message: str | None
) -> None:
    file = write(text)
    if message is None:
        file.write_bytes(text.encode("latin-1"))
        message = "line 2: byte 2 of the line (0xfc) is not UTF-8"
    result = translate("decode", learnt, option, file, stdin=TEXT)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"translate: {file}, {message}")


@pytest.mark.parametrize("options", [["--search", "sample"], ["--diversity-groups", "2"]])
def test_required_words_are_for_the_plain_beam(
    translate: Translate, learnt: Path, write: Write, options: list[str]
) -> None:
    result = translate("decode", learnt, *options, "--require", write("dog\n" * len(SOURCES)), stdin=TEXT)
    assert (result.exit_code, result.stdout) == (2, "")
    message = "required words need decoding.search = beam and decoding.diversity_groups = 1"
    assert result.stderr == f"translate: {message}\n"
