"""`translate train` and `translate decode`: lines in, as many lines out, and a paragraph for what goes wrong."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

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


def test_train(trained: Result, corpus: Path) -> None:
    assert trained.exit_code == 0 and trained.stdout == ""
    assert f"Next: translate eval {corpus / 'run'}" in trained.stderr and "done after 3 steps" in trained.stderr
    assert json.loads((corpus / "run" / "run.json").read_text())["command"][0] == "translate"


def test_train_refuses_an_existing_run(translate: Translate, corpus: Path, run: Path) -> None:
    result = translate("train", corpus / "tiny.yaml", "--run", run)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"translate: {run} already holds a run: continue it with --resume")


def test_train_and_resume(translate: Translate, corpus: Path, run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    result = translate("train", corpus / "tiny.yaml", "training.max_steps=4", "--run", copy, "--resume")
    assert result.exit_code == 0, result.stderr
    assert "going on from step 3" in result.stderr and "done after 4 steps" in result.stderr


def test_train_without_its_data(translate: Translate, corpus: Path, tmp_path: Path) -> None:
    result = translate("train", corpus / "tiny.yaml", "data.train.0.source=nowhere.de", "--run", tmp_path / "run")
    assert result.exit_code == 2 and not (tmp_path / "run").exists()
    assert "data.train.0.source = nowhere.de: no such file" in result.stderr


# decode


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
        for options in ([], ["--beam-size", "1"], ["--checkpoint", "last"], ["--length-penalty", "9", "--beam-size=6"])
    }
    assert len(outputs) >= 2  # an untrained model; some differ


@pytest.mark.parametrize(
    "options, message",
    [
        (["--beam-size", "0"], "decoding.beam_size = 0"),
        (["--length-penalty", "-1"], "decoding.length_penalty = -1.0"),
        (["--device", "abacus"], 'decoding.device = "abacus"'),
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
        ([tmp_path], f"{tmp_path} is no run directory, or an incomplete one: it has no run.json"),
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
    assert result.stderr == f"translate: {target}: cannot be written: No such file or directory\n"
    result = translate("decode", run, "-o", tmp_path, stdin=TEXT)
    assert result.exit_code == 1 and f"{tmp_path}: cannot be written: Is a directory" in result.stderr
    assert list(tmp_path.parent.glob("*.part")) == list(tmp_path.iterdir()) == []


def test_a_damaged_checkpoint_is_exit_code_1(translate: Translate, run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    path = copy / "checkpoints" / "best.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    result = translate("decode", copy, stdin=TEXT)
    assert result.exit_code == 1 and result.stderr.startswith(f"translate: {path}: damaged or unreadable: ")


def test_a_reader_that_goes_away(run: Path) -> None:
    """As in `translate decode RUN FILE | head -1`, which closes the pipe while more is to come."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error"}
    command = [sys.executable, "-m", "translate", "decode", str(run), str(run.parent / "train.de")]
    result = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, env=environment)
    os.close(write_end)
    assert result.returncode == 141  # what a shell says of a program that SIGPIPE ended
    assert result.stderr == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["tokenizer", "encode", "RUN", "TEXT"], ["config", "presets"]])
def test_a_full_disk_behind_standard_output(run: Path, arguments: list[str]) -> None:
    real = {"RUN": run, "TEXT": run.parent / "train.de"}
    command = [sys.executable, "-m", "translate", *(real.get(argument, argument) for argument in arguments)]
    with open("/dev/full", "wb") as full:
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE)
    assert result.returncode == 1
    assert result.stderr == b"translate: [Errno 28] No space left on device\n"


def test_standard_streams_that_are_closed(run: Path) -> None:
    for closed, code, message in [("<&-", 2, "standard input is closed"), (">&-", 1, "standard output is closed")]:
        command = f'echo Hund | "$0" -m translate tokenizer encode "$1" {closed}'
        result = subprocess.run(["sh", "-c", command, sys.executable, str(run)], capture_output=True, text=True)
        assert result.returncode == code and result.stderr.startswith(f"translate: {message}")


def test_a_pipe_of_two_commands(run: Path) -> None:
    """The output is UTF-8 even where the locale says otherwise."""
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "translate", "tokenizer"]
    encoded = subprocess.run([*command, "encode", run], input=TEXT, capture_output=True, env=environment, check=True)
    decoded = subprocess.run(
        [*command, "decode", run], input=encoded.stdout, capture_output=True, env=environment, check=True
    )
    assert "▁".encode() in encoded.stdout and encoded.stderr == decoded.stderr == b""
    assert decoded.stdout.splitlines()[0].decode() == "Ein Hund läuft."
    assert decoded.stdout.count(b"\n") == len(LINES)
