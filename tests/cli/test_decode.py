"""`translate decode`: lines in, as many lines out, its messages, and a paragraph for what goes wrong."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

Translate = Callable[..., Result]

LINES = [
    "Ein Hund läuft.",
    "",
    "Größe\u2028Straße",
    "Mädchen\rHaus",
    "  ",
    "Die Straße ist grün.",
    "🦄\x0b\x0c\x85Hund",
]
TEXT = "".join(f"{line}\n" for line in LINES).encode()


def test_as_many_lines_out_as_in(translate: Translate, run: Path, tmp_path: Path) -> None:
    (tmp_path / "in.de").write_bytes(TEXT)
    from_file = translate("decode", run, tmp_path / "in.de")
    assert from_file.exit_code == 0
    lines = from_file.stdout_bytes.split(b"\n")
    assert len(lines) == len(LINES) + 1 and lines[-1] == b""
    assert [line == b"" for line in lines[:-1]][:5] == [False, True, False, False, True]
    assert b"\r" not in from_file.stdout_bytes
    assert f"{len(LINES)} lines, " in from_file.stderr and "cut at the maximum length" in from_file.stderr

    from_stdin = translate("decode", run, stdin=TEXT)
    assert from_stdin.stdout_bytes == from_file.stdout_bytes
    assert translate("decode", run, "-", stdin=TEXT).stdout_bytes == from_file.stdout_bytes
    to_file = translate("decode", run, tmp_path / "in.de", "--output", tmp_path / "out.en")
    assert (to_file.exit_code, to_file.stdout) == (0, "")
    assert (tmp_path / "out.en").read_bytes() == from_file.stdout_bytes
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.de", "out.en"]


def test_the_last_line_needs_no_newline(translate: Translate, run: Path) -> None:
    assert translate("decode", run, stdin=TEXT[:-1]).stdout_bytes == translate("decode", run, stdin=TEXT).stdout_bytes


def test_an_empty_file(translate: Translate, run: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    result = translate("decode", run, tmp_path / "empty")
    assert (result.exit_code, result.stdout_bytes) == (0, b"")
    assert "0 lines" in result.stderr
    result = translate("decode", run, tmp_path / "empty", "-o", tmp_path / "out")
    assert result.exit_code == 0 and (tmp_path / "out").read_bytes() == b""


def test_options_reach_the_search(translate: Translate, run: Path) -> None:
    outputs = {
        translate("decode", run, *options, stdin=TEXT).stdout_bytes
        for options in ([], ["--checkpoint", "last"], ["--repetition-penalty", "9", "--beam-size=6"])
    }
    assert len(outputs) >= 2  # an untrained model; some differ


@pytest.mark.parametrize(
    "options, message",
    [
        (["--beam-size", "0"], "decoding.beam_size = 0"),
        (["--length-penalty", "-1"], "decoding.length_penalty = -1.0"),
        (["--device", "abacus"], "device = abacus: this machine has no such device"),
        (["--device", "cuda:99"], "device = cuda:99: this machine has no such device"),
    ],
)
def test_wrong_options(translate: Translate, run: Path, options: list[str], message: str) -> None:
    result = translate("decode", run, *options, stdin=TEXT)
    assert result.exit_code == 2 and result.stdout == ""
    assert result.stderr.startswith("translate: ") and message in result.stderr


def test_missing_things(translate: Translate, run: Path, tmp_path: Path) -> None:
    missing = tmp_path / "nowhere"
    for arguments, message in [
        ([run, missing], f"{missing}: no such file"),
        ([run, tmp_path], f"{tmp_path}: is a folder, and a file is needed"),
        ([missing], f"{missing}: no such run directory"),
        (
            [tmp_path],
            f"{tmp_path} is not a run directory: it has no run.json; "
            "if the copy is incomplete, copy the whole run again",
        ),
    ]:
        result = translate("decode", *arguments, stdin=TEXT)
        assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"translate: {message}\n")


def test_input_that_is_not_utf_8(translate: Translate, run: Path, tmp_path: Path) -> None:
    bad = tmp_path / "latin1.de"
    bad.write_bytes(b"Hund\n\nGr\xfc\xdfe\n")
    message = "line 3: byte 3 of the line (0xfc) is not UTF-8; convert the file, for example with iconv"
    result = translate("decode", run, bad, "-o", tmp_path / "out")
    assert result.exit_code == 2 and f"translate: {bad}, {message}" in result.stderr
    result = translate("decode", run, "-o", tmp_path / "out", stdin=bad.read_bytes())
    assert result.exit_code == 2 and f"translate: standard input, {message}" in result.stderr
    assert list(tmp_path.iterdir()) == [bad]  # nothing half written is left


def test_an_output_that_cannot_be_written(translate: Translate, run: Path, tmp_path: Path) -> None:
    target = tmp_path / "gone" / "out"
    result = translate("decode", run, "-o", target, stdin=TEXT)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"translate: {target}: cannot be written: No such file or directory")
    result = translate("decode", run, "-o", tmp_path, stdin=TEXT)
    assert result.exit_code == 1 and f"{tmp_path}: cannot be written: Is a directory" in result.stderr
    assert list(tmp_path.parent.glob("*.tmp")) == list(tmp_path.iterdir()) == []


def test_a_damaged_checkpoint_is_exit_code_1(translate: Translate, run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    path = copy / "checkpoints" / "best.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    result = translate("decode", copy, stdin=TEXT)
    assert result.exit_code == 1 and result.stderr.startswith(f"translate: {path}: damaged: ")


# Records, n-best lists and alignments


def records(result: Result) -> list[dict[str, Any]]:
    """A JSON object a line."""
    assert result.exit_code == 0, result.stderr
    lines = result.stdout_bytes.decode().split("\n")
    assert lines.pop() == ""
    return [json.loads(line) for line in lines]


def test_json_lines(translate: Translate, run: Path) -> None:
    text = translate("decode", run, stdin=TEXT)
    found = records(translate("decode", run, "--format", "jsonl", stdin=TEXT))
    assert [record["line"] for record in found] == list(range(1, len(LINES) + 1))
    assert [record["source"] for record in found] == LINES
    assert [record["translation"] for record in found] == text.stdout_bytes.decode().split("\n")[:-1]
    for record in found:
        assert list(record) == [
            *("line", "source", "source_tokens", "translation", "tokens", "log_prob", "score", "token_log_probs"),
            *("words", "alignment", "flags", "unmet", "pieces", "n_best"),
        ]
        assert sum(record["token_log_probs"]) == pytest.approx(record["log_prob"], abs=1e-5)
        # The small model never ends by itself: there is no end symbol, and this is said.
        assert "</s>" not in record["tokens"]
        assert len(record["token_log_probs"]) == len(record["tokens"])
        assert ("truncated" in record["flags"]) == (record["source"].strip() != "")
        assert [word["text"] for word in record["words"]] == record["translation"].split()
    empty = found[1]
    assert (empty["translation"], empty["tokens"], empty["words"], empty["alignment"]) == ("", [], [], "")
    assert (empty["log_prob"], empty["score"], empty["flags"], empty["n_best"]) == (0.0, 0.0, [], [])


def test_json_lines_of_translations_that_end(translate: Translate, learnt: Path) -> None:
    options = ["--format", "jsonl", "--n-best", "3"]
    found = records(translate("decode", learnt, learnt.parent / "new.de", *options))
    assert not any("truncated" in record["flags"] for record in found)
    for record in found:
        length = len(record["tokens"])
        for each in (record, *record["n_best"]):
            assert each["tokens"].index("</s>") == len(each["tokens"]) - 1 == len(each["token_log_probs"]) - 1
            assert "".join(each["tokens"][:-1]).replace("▁", " ").strip() == each["translation"]
        assert record["score"] == pytest.approx(record["log_prob"] / ((5 + length) / 6) ** 0.6, rel=1e-5)
        scores = [record["score"], *(other["score"] for other in record["n_best"])]
        assert len(scores) == 3 and scores == sorted(scores, reverse=True)
        first = record["words"][0]
        num_pieces = next((i for i, piece in enumerate(record["tokens"][1:-1], 1) if piece.startswith("▁")), length - 1)
        assert first["mean_probability"] ** num_pieces == pytest.approx(first["probability"], rel=1e-5)


def test_alignments(translate: Translate, learnt: Path, tmp_path: Path) -> None:
    """As Pharaoh writes them, of words; the same in both places, and the text is as without them."""
    source, file = learnt.parent / "new.de", tmp_path / "links"
    result = translate("decode", learnt, source, "--alignments", file)
    assert result.stdout == translate("decode", learnt, source).stdout
    found = records(translate("decode", learnt, source, "--format", "jsonl"))
    assert file.read_text().split("\n") == [*(record["alignment"] for record in found), ""]
    for record in found:
        links = [tuple(map(int, link.split("-"))) for link in record["alignment"].split()]
        assert re.fullmatch(r"\d+-\d+( \d+-\d+)*", record["alignment"]) and links == sorted(links)
        assert all(link[0] < len(record["source"].split()) for link in links)
        assert {link[1] for link in links} <= set(range(len(record["translation"].split())))
        if len(record["words"]) == len(record["source"].split()) == 1:
            assert record["alignment"] == "0-0"


def test_alignments_of_empty_lines_and_no_two_outputs_in_one_file(
    translate: Translate, run: Path, tmp_path: Path
) -> None:
    result = translate("decode", run, "--alignments", tmp_path / "links", stdin=TEXT)
    assert result.exit_code == 0, result.stderr
    links = (tmp_path / "links").read_text().split("\n")
    assert len(links) == len(LINES) + 1 and links[1] == links[4] == ""
    same = tmp_path / "same"
    result = translate("decode", run, "-o", same, "--alignments", tmp_path / "." / "same", stdin=TEXT)
    assert result.exit_code == 2 and not same.exists()
    assert result.stderr == f"translate: --alignments {same}: --output is that file too; name another\n"
    result = translate("decode", run, "--alignments", tmp_path / "gone" / "links", stdin=TEXT)
    assert result.exit_code == 1 and result.stdout == ""
    assert result.stderr.startswith(f"translate: {tmp_path / 'gone' / 'links'}: cannot be written: ")


def test_n_best_lists_as_moses_writes_them(translate: Translate, run: Path) -> None:
    found = records(translate("decode", run, "--format", "jsonl", "--n-best", "2", stdin=TEXT))
    result = translate("decode", run, "--n-best", "2", stdin=TEXT)
    rows = [line.split(" ||| ") for line in result.stdout_bytes.decode().split("\n")[:-1]]
    expected = [
        [str(record["line"] - 1), each["translation"], f"log_prob= {each['log_prob']:.6f}", f"{each['score']:.6f}"]
        for record in found
        for each in (record, *record["n_best"])
    ]
    assert rows == expected
    assert [row[0] for row in rows] == list("001223345566")  # an empty line has one translation


# Interactive


@pytest.mark.parametrize("options", [["FILE"], ["-o", "FILE"], ["--prefix", "FILE"], ["--require", "FILE"]])
def test_interactive_is_for_standard_input(translate: Translate, run: Path, corpus: Path, options: list[str]) -> None:
    paths = [str(corpus / "one.de") if option == "FILE" else option for option in options]
    result = translate("decode", run, "--interactive", *paths, stdin=TEXT)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(
        "translate: --interactive reads standard input and writes standard output, without FILE"
    )


# Other searches


def test_sampling_is_settled_by_the_seed(translate: Translate, run: Path) -> None:
    """And by the line's number, so that equal lines differ."""
    options = ["decode", run, "--search", "sample"]
    text = "Die Straße ist grün.\n".encode() * 3
    first = translate(*options, stdin=text)
    lines = first.stdout.split("\n")[:-1]
    assert first.exit_code == 0 and len(set(lines)) == 3
    assert translate(*options, "--look-ahead-lines", "1", stdin=text).stdout == first.stdout
    assert translate(*options, "--seed", "1", stdin=text).stdout == first.stdout
    assert translate(*options, "--seed", "2", stdin=text).stdout != first.stdout
    greedy = translate("decode", run, "--beam-size", "1", stdin=text).stdout
    assert translate(*options, "--top-k", "1", "--seed", "2", stdin=text).stdout == greedy


def test_minimum_bayes_risk(translate: Translate, run: Path) -> None:
    """The chosen one is among the candidates: the same seed draws the same."""
    text = b"Ein Haus.\nHund\n"
    options = ["--search", "sample", "--seed", "3"]
    drawn = records(translate("decode", run, *options, "--n-best", "7", "--format", "jsonl", stdin=text))
    for metric in ("chrf", "bleu"):
        result = translate("decode", run, *options, "--mbr", metric, "--mbr-candidates", "7", stdin=text)
        chosen = result.stdout.split("\n")[:-1]
        assert result.exit_code == 0 and len(chosen) == 2
        for record, line in zip(drawn, chosen, strict=True):
            assert line in {each["translation"] for each in (record, *record["n_best"])}


@pytest.mark.parametrize(
    "options, message",
    [
        (["--n-best", "3"], "decoding.n_best = 3 is more than decoding.beam_size = 2 hypotheses"),
        (["--diversity-groups", "3"], "decoding.diversity_groups = 3 must divide decoding.beam_size = 2"),
        (["--mbr", "bleu", "--n-best", "2"], "decoding.n_best = 2 must be 1 with decoding.mbr = 'bleu'"),
    ],
)
def test_settings_that_cannot_go_together(translate: Translate, run: Path, options: list[str], message: str) -> None:
    result = translate("decode", run, *options, stdin=TEXT)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("translate: ") and message in result.stderr


# Several runs, and other arithmetic


def test_an_ensemble_with_itself_is_the_run(translate: Translate, learnt: Path) -> None:
    options = ["decode", learnt, learnt.parent / "new.de", "--format", "jsonl", "--precision", "fp32"]
    alone, together = records(translate(*options)), records(translate(*options, "--ensemble", learnt))
    for one, other in zip(alone, together, strict=True):
        assert one["translation"] == other["translation"]
        assert one["log_prob"] == pytest.approx(other["log_prob"], abs=1e-4)


def test_reranking_by_a_reverse_run(translate: Translate, learnt: Path, tmp_path: Path) -> None:
    """What the reverse run adds to a score is what `score` says of its pairs, also in parts that are resumed."""
    reverse = tmp_path / "reverse"
    shutil.copytree(learnt, reverse)
    config = reverse / "config.yaml"
    config.write_text(config.read_text().replace("source_language: de", "source_language: en"))
    options = ["decode", learnt, learnt.parent / "new.de", "--precision", "fp32", "--length-penalty-kind", "none"]
    result = translate(*options, "--reverse", reverse)
    assert result.exit_code == 2 and f"{reverse} translates en to en: the reverse of {learnt} " in result.stderr
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


def test_runs_that_do_not_fit(translate: Translate, run: Path, learnt: Path, tmp_path: Path) -> None:
    result = translate("decode", run, "--ensemble", learnt, stdin=TEXT)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"translate: {learnt} has another source tokenizer than {run}: ")
    result = translate("decode", run, "--ensemble", tmp_path / "none", stdin=TEXT)
    assert (result.exit_code, result.stderr) == (2, f"translate: {tmp_path / 'none'}: no such run directory\n")


def test_bf16_gives_nearly_the_same(translate: Translate, learnt: Path) -> None:
    options = ["decode", learnt, learnt.parent / "new.de", "--format", "jsonl"]
    ours, theirs = records(translate(*options)), records(translate(*options, "--precision", "bf16"))
    same = [(one, other) for one, other in zip(ours, theirs, strict=True) if one["tokens"] == other["tokens"]]
    assert len(same) >= 9  # of 12
    for one, other in same:
        assert other["log_prob"] != one["log_prob"]
        assert other["log_prob"] == pytest.approx(one["log_prob"], abs=0.5)


# Messages


def test_letters_are_written_as_they_are(translate: Translate, learnt: Path) -> None:
    result = translate("decode", learnt, "--format", "jsonl", stdin="läuft \u2028 x\n".encode())
    assert '"läuft \u2028 x"' in result.stdout and result.stdout_bytes.count(b"\n") == 1


def test_flags_and_their_counts(translate: Translate, learnt: Path) -> None:
    text = "Hund läuft\n\ngrün und Haus\n  \nqQ qQ qQ\n"
    result = translate(
        "decode",
        learnt,
        "--format=jsonl",
        "--max-length-factor=0",
        "--max-length-constant=1",
        stdin=text.encode(),
    )
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert [("truncated" in record["flags"]) for record in records] == [True, False, True, False, True]
    assert "5 lines, 3 empty, 3 cut at the maximum length" in result.stderr


def test_nothing_half_written_is_left(translate: Translate, run: Path, tmp_path: Path) -> None:
    files = ["--alignments", tmp_path / "links", "--output", tmp_path / "out"]
    result = translate("decode", run, *files, stdin=b"Hund\n\xff\n")
    assert result.exit_code == 2 and "standard input, line 2: byte 1 of the line (0xff) is not UTF-8" in result.stderr
    assert list(tmp_path.iterdir()) == []
