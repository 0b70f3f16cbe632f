"""`translate decode`: lines in, as many lines out, with records, alignments, several runs, and both engines."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import in_order
from harness import run_command as translate
from typer.testing import Result

Decode = Callable[..., Result]

LINES = [
    "Ein Hund läuft.",
    "",
    "Groß\u2028Haus",
    "Mädchen\rHaus",
    "  ",
    "Die Straße ist grün.",
    "🦄\x0b\x0c\x85Hund",
]
TEXT = "".join(f"{line}\n" for line in LINES).encode()


@pytest.fixture
def decode(learnt: Path) -> Decode:
    """Decodes 12 lines, which training has not seen."""

    def run(*arguments: object) -> Result:
        result = translate("decode", learnt, learnt.parent / "new.de", *arguments)
        assert result.exit_code == 0, result.stderr
        return result

    return run


def records(result: Result) -> list[dict[str, Any]]:
    """One JSON object per line."""
    assert result.exit_code == 0, result.stderr
    lines = result.stdout_bytes.decode().split("\n")
    assert lines.pop() == ""
    return [json.loads(line) for line in lines]


def test_as_many_lines_out_as_in(run: Path, tmp_path: Path) -> None:
    (tmp_path / "in.de").write_bytes(TEXT)
    from_file = translate("decode", run, tmp_path / "in.de")
    assert from_file.exit_code == 0
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
        assert list(record) == [
            *("line", "source", "source_tokens", "translation", "tokens", "log_prob", "score", "token_log_probs"),
            *("words", "alignment", "flags", "unmet", "pieces", "n_best"),
        ]
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


def test_json_lines_of_translations_that_end(decode: Decode) -> None:
    for record in records(decode("--format", "jsonl", "--n-best", "3")):
        length = len(record["tokens"])
        assert "truncated" not in record["flags"]
        for each in (record, *record["n_best"]):
            assert each["tokens"].index("</s>") == len(each["tokens"]) - 1 == len(each["token_log_probs"]) - 1
            assert "".join(each["tokens"][:-1]).replace("▁", " ").strip() == each["translation"]
        assert record["score"] == pytest.approx(record["log_prob"] / ((5 + length) / 6) ** 0.6, rel=1e-5)
        scores = [record["score"], *(other["score"] for other in record["n_best"])]
        assert len(scores) == 3 and scores == sorted(scores, reverse=True)


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
        if len(record["words"]) == len(record["source"].split()) == 1:
            assert record["alignment"] == "0-0"
    assert translate("decode", run, "--alignments", file, stdin=TEXT).exit_code == 0
    links = file.read_text().split("\n")
    assert len(links) == len(LINES) + 1 and links[1] == links[4] == ""


def test_sampling_depends_on_the_seed_and_the_line(decode: Decode, run: Path) -> None:
    options = ["decode", run, "--search", "sample"]
    text = "Die Straße ist grün.\n".encode() * 3
    first = translate(*options, stdin=text)
    lines = first.stdout.split("\n")[:-1]
    assert first.exit_code == 0 and len(set(lines)) == 3
    assert translate(*options, "--look-ahead-lines", "1", "--seed", "1", stdin=text).stdout == first.stdout
    assert translate(*options, "--seed", "2", stdin=text).stdout != first.stdout
    lines = decode("--search=sample", "--n-best=7", "--temperature=1.2").stdout.split("\n")[:-1]
    assert [line.split(" ||| ")[0] for line in lines] == [str(number) for number in range(12) for _ in range(7)]


def test_reranking_by_a_reverse_run(learnt: Path, tmp_path: Path) -> None:
    """What the reverse run adds to a score is what `score` says of its pairs, also in parts that are resumed."""
    reverse = tmp_path / "reverse"
    shutil.copytree(learnt, reverse)
    config = reverse / "config.yaml"
    config.write_text(config.read_text().replace("source_language: de", "source_language: en"))
    options = ["decode", learnt, learnt.parent / "new.de", "--precision", "fp32", "--length-penalty-kind", "none"]
    result = translate(*options, "--reverse", reverse)
    assert result.exit_code == 2 and in_order(result.stderr, str(reverse), "en to en", str(learnt))
    config.write_text(config.read_text().replace("target_language: en", "target_language: de"))
    options += ["--reverse", reverse, "--reverse-weight", "0.4"]
    found = records(translate(*options, "--format", "jsonl"))
    hypotheses = tmp_path / "hypotheses.en"
    hypotheses.write_text("".join(f"{each['translation']}\n" for each in found))
    given = records(translate("score", reverse, hypotheses, learnt.parent / "new.de"))
    for one, other in zip(found, given, strict=True):
        assert one["score"] == pytest.approx(one["log_prob"] + 0.4 * other["log_prob"], abs=1e-4)
    assert translate(*options, "--resume", "-o", tmp_path / "out").exit_code == 0
    assert (tmp_path / "out").read_bytes() == hypotheses.read_bytes()


def test_ctranslate2_gives_our_lines(decode: Decode) -> None:
    pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")
    ours = decode("--engine=translate", "--precision=fp32").stdout
    assert decode("--engine=ctranslate2", "--precision=fp32").stdout == ours
    n_best = decode("--engine=ctranslate2", "--n-best=2").stdout.splitlines()
    assert [line.split(" ||| ")[0] for line in n_best] == [str(number) for number in range(12) for _ in range(2)]
