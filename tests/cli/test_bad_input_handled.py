"""Input that looks bad and is handled, as docs/bad-input.md says; and that each of its rows has a test."""

import gzip
import json
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import Result

Translate = Callable[..., Result]
Work = Callable[..., Result]

PLAIN = "Ein Hund läuft.\nDie Straße ist grün.\n"
LONG = "Ein Hund läuft durch den Schnee. " * 40


@pytest.fixture
def work(translate: Translate, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Work:
    """Does what a command does with files of these contents, which are written before; by default decode."""
    monkeypatch.chdir(tmp_path)

    def do(content: str | bytes, *options: Any, name: str = "in.de", command: str = "decode") -> Result:
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return translate(command, run, name, *options)

    return do


def as_plain(content: str | bytes, name: str = "in.de") -> Callable[[Work], Result]:
    """Gives what plain text gives."""

    def check(work: Work) -> Result:
        expected, found = work(PLAIN), work(content, name=name)
        assert found.stdout_bytes == expected.stdout_bytes and found.stdout_bytes.count(b"\n") == 2
        return found

    return check


def in_one_line(separators: str) -> Callable[[Work], Result]:
    """No line ends at these."""

    def check(work: Work) -> Result:
        records = work(f"Hund{separators}Haus\nHund Haus\n", "--format", "jsonl")
        first, second = map(json.loads, records.stdout_bytes.decode().rstrip("\n").split("\n"))
        assert first["source"] == f"Hund{separators}Haus" and len(first["translation"].splitlines()) <= 1
        assert second["source"] == "Hund Haus"
        return records

    return check


def check_lines(*lines: str) -> Callable[[Work], Result]:
    def check(work: Work) -> Result:
        found = work("".join(f"{line}\n" for line in lines))
        assert found.stdout_bytes.count(b"\n") == len(lines)
        return found

    return check


def check_spaces(work: Work) -> Result:
    found = work("   \n\t\u3000\n")
    assert found.stdout_bytes == b"\n\n"
    return found


def check_empty(work: Work) -> Result:
    found = work("")
    assert found.stdout_bytes == b""
    return found


def check_long(*options: str) -> Callable[[Work], Result]:
    def check(work: Work) -> Result:
        record = json.loads(work(f"{LONG}\n", "--format", "jsonl", *options).stdout)
        pieces = record["pieces"]
        assert record["source"] == LONG
        if options:
            assert "source_truncated" in record["flags"] and pieces == [] and len(record["source_tokens"]) == 256
        else:
            assert "split" in record["flags"] and "".join(piece["source"] for piece in pieces) == LONG
            assert all(piece["source"].endswith(". ") for piece in pieces) and len(pieces) > 2
            assert record["translation"].split() == [word for piece in pieces for word in piece["translation"].split()]
        return work(f"{LONG}\n", *options)

    return check


def check_huge_line(work: Work) -> Result:
    found = work("x" * 100_000 + "\nHund\n", "--beam-size", "1", "--max-length-factor", "0")
    assert found.stdout_bytes.count(b"\n") == 2
    return found


def check_score(work: Work) -> Result:
    Path("long.en").write_text("dog " * 400 + "\n")
    found = work("Hund " * 400 + "\n", "long.en", command="score")
    record = json.loads(found.stdout)
    assert record["flags"] == ["source_truncated", "target_truncated"] and len(record["tokens"]) == 257
    return found


def check_device(work: Work) -> Result:
    found = work(PLAIN, "-o", "/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode) and not Path("/dev/null.part").exists()
    return found


def check_link(work: Work) -> Result:
    Path("link").symlink_to("real")
    expected = work(PLAIN)
    found = work(PLAIN, "-o", "link")
    assert Path("link").is_symlink() and Path("real").read_bytes() == expected.stdout_bytes
    return found


HANDLED: dict[str, Callable[[Work], Result]] = {
    "lines-gzip": as_plain(gzip.compress(PLAIN.encode()), name="in.gz"),
    "lines-empty": check_empty,
    "lines-crlf": as_plain(PLAIN.replace("\n", "\r\n")),
    "lines-cr": in_one_line("\r"),
    "lines-separators": in_one_line("\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e"),
    "lines-bom": as_plain(f"\ufeff{PLAIN}"),
    "lines-no-newline": as_plain(PLAIN.removesuffix("\n")),
    "lines-spaces": check_spaces,
    "lines-characters": check_lines(
        "👩\u200d👩\u200d👧 🏳️\u200d🌈", "e\u0301o\u0308" * 9, "\u05e9\u05dc\u05d5\u202e", "\ue000\U0010fffd", "?!…"
    ),
    "lines-long": check_long(),
    "lines-long-truncate": check_long("--long", "truncate"),
    "lines-100000": check_huge_line,
    "score-long": check_score,
    "output-device": check_device,
    "output-link": check_link,
}


@pytest.mark.parametrize("row_id", HANDLED)
def test_what_is_handled(work: Work, bad_input_rows: dict[str, Any], row_id: str) -> None:
    row = bad_input_rows[row_id]
    result = HANDLED[row_id](work)
    assert result.exit_code == row.exit_code == 0, result.stderr
    assert all(words in result.stderr for words in row.words), result.stderr


@pytest.mark.parametrize("row_id", ["corpus-one-pair", "corpus-long-line"])
def test_corpora_that_are_handled(
    translate: Translate, corpus: Path, bad_input_rows: dict[str, Any], tmp_path: Path, row_id: str
) -> None:
    overrides = ["training.max_steps=1", "--run", tmp_path / "run"]
    if row_id == "corpus-one-pair":
        overrides += [f"data.train.0.source={corpus / 'one.de'}", f"data.train.0.target={corpus / 'one.en'}"]
        overrides += ["tokenizer.vocab_size=290"]
    else:
        for language in ("de", "en"):
            lines = (corpus / f"train.{language}").read_text(encoding="utf-8") + "x" * 100_000 + "\n"
            (tmp_path / f"long.{language}").write_text(lines, encoding="utf-8")
            side = {"de": "source", "en": "target"}[language]
            overrides.append(f"data.train.0.{side}={tmp_path / f'long.{language}'}")
    result = translate("train", corpus / "tiny.yaml", *overrides)
    row = bad_input_rows[row_id]
    assert result.exit_code == row.exit_code == 0, result.stderr
    assert all(words in result.stderr for words in row.words), result.stderr


def test_every_row_of_the_table_has_its_test_and_every_test_its_row(bad_input_rows: dict[str, Any]) -> None:
    tests = Path(__file__).parents[1]
    files = [*sorted(tests.glob("cli/test_bad_input*.py")), tests / "system" / "test_streams.py"]
    sources = "".join(file.read_text(encoding="utf-8") for file in files)
    quoted = set(re.findall(r'"([a-z]+(?:-[a-z0-9]+)+)"', sources))
    assert len(bad_input_rows) > 100
    assert bad_input_rows.keys() <= quoted, bad_input_rows.keys() - quoted


ANY_LINE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\0"), max_size=30)


@settings(derandomize=True, max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(ANY_LINE, max_size=8))
def test_any_lines_in_as_many_lines_out(work: Work, lines: list[str]) -> None:
    """In order, as the records say, by which a file of lines is counted in every way."""
    content = "".join(f"{line}\n" for line in lines)
    result = work(content, "--max-source-tokens", "9")
    assert result.exit_code == 0, result.stderr
    text = result.stdout_bytes.decode()
    assert text.count("\n") == len(lines) and len(text.splitlines()) == len(lines)
    records = work(content, "--max-source-tokens", "9", "--format", "jsonl").stdout_bytes.decode().split("\n")[:-1]
    assert [json.loads(record)["translation"] for record in records] == text.split("\n")[:-1]
    # What the reader takes off a line: a return at its end, and a mark at the file's beginning.
    expected = [line.removesuffix("\r") for line in lines]
    if expected:
        expected[0] = expected[0].removeprefix("\ufeff")
    assert [json.loads(record)["source"] for record in records] == expected
