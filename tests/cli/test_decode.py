"""`translate decode`: lines in, as many lines out, with records, alignments, several runs, and both engines."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import in_order, succeed
from harness import run_command as translate
from typer.testing import Result

Decode = Callable[..., Result]

LINES = ["Ein Hund läuft.", "", "Groß\u2028Haus", "Mädchen\rHaus", "  ", "Die Straße ist grün.", "🦄\x0b\x0c\x85Hund"]
TEXT = "".join(f"{line}\n" for line in LINES).encode()


@pytest.fixture
def decode(learnt: Path) -> Decode:
    """Decodes 12 lines, which training has not seen."""

    def run(*arguments: object) -> Result:
        return succeed("decode", learnt, learnt.parent / "new.de", *arguments)

    return run


def records(result: Result) -> list[dict[str, Any]]:
    """One JSON object per line."""
    assert result.exit_code == 0, result.stderr
    lines = result.stdout_bytes.decode().split("\n")
    assert lines.pop() == ""
    return [json.loads(line) for line in lines]


def test_as_many_lines_out_as_in(run: Path, tmp_path: Path) -> None:
    (tmp_path / "in.de").write_bytes(TEXT)
    from_file = succeed("decode", run, tmp_path / "in.de")
    lines = from_file.stdout_bytes.split(b"\n")
    assert len(lines) == len(LINES) + 1 and lines[-1] == b""
    assert [line == b"" for line in lines[:5]] == [False, True, False, False, True]
    assert in_order(from_file.stderr, f"{len(LINES)} lines", "2 empty", "5 cut")
    for arguments in ([], ["-"]):
        assert translate("decode", run, *arguments, stdin=TEXT).stdout_bytes == from_file.stdout_bytes
    to_file = translate("decode", run, tmp_path / "in.de", "--output", tmp_path / "out.en")
    assert (to_file.exit_code, to_file.stdout) == (0, "")
    assert (tmp_path / "out.en").read_bytes() == from_file.stdout_bytes


def test_json_lines_and_n_best_lists(run: Path) -> None:
    """The records have what plain output and Moses's form of an n-best list have."""
    text = translate("decode", run, stdin=TEXT)
    found = records(translate("decode", run, "--format", "jsonl", "--n-best", "2", stdin=TEXT))
    assert [record["line"] for record in found] == list(range(1, len(LINES) + 1))
    assert [record["source"] for record in found] == LINES
    assert [record["translation"] for record in found] == text.stdout_bytes.decode().split("\n")[:-1]
    for record in found:
        assert sum(record["token_log_probs"]) == pytest.approx(record["log_prob"], abs=1e-5)
        # The small model never ends by itself: there is no end symbol, and a flag says so.
        assert "</s>" not in record["tokens"] and len(record["token_log_probs"]) == len(record["tokens"])
        assert ("truncated" in record["flags"]) == (record["source"].strip() != "")
        assert [word["text"] for word in record["words"]] == record["translation"].split()
    assert not any(found[1][key] for key in ("translation", "tokens", "words", "alignment", "log_prob", "n_best"))
    moses = translate("decode", run, "--n-best", "2", stdin=TEXT).stdout_bytes.decode().split("\n")[:-1]
    assert [line.split(" ||| ") for line in moses] == [
        [str(record["line"] - 1), each["translation"], f"log_prob= {each['log_prob']:.6f}", f"{each['score']:.6f}"]
        for record in found
        for each in (record, *record["n_best"])
    ]
    assert [line[0] for line in moses] == list("001223345566")  # an empty line has one translation


def test_alignments(decode: Decode, run: Path, tmp_path: Path) -> None:
    """Of words, as Pharaoh writes them; the same in both places, and the text is the one without them."""
    file = tmp_path / "links"
    assert decode("--alignments", file).stdout == decode().stdout
    found = records(decode("--format", "jsonl"))
    assert file.read_text().split("\n") == [*(record["alignment"] for record in found), ""]
    for record in found:
        links = [tuple(map(int, link.split("-"))) for link in record["alignment"].split()]
        assert re.fullmatch(r"\d+-\d+( \d+-\d+)*", record["alignment"]) and links == sorted(links)
        assert all(link[0] < len(record["source"].split()) for link in links)
        assert {link[1] for link in links} <= set(range(len(record["translation"].split())))
    succeed("decode", run, "--alignments", file, stdin=TEXT)
    links = file.read_text().split("\n")
    assert len(links) == len(LINES) + 1 and links[1] == links[4] == ""
