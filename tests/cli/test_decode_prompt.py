"""What `translate decode` says beside its result, and how it asks a person; nothing half written is left."""

import json
import os
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

Translate = Callable[..., Result]

TEXT = "Hund läuft\n\ngrün und Haus\n  \nqQ qQ qQ\n"


def test_letters_are_written_as_they_are(translate: Translate, learnt: Path) -> None:
    result = translate("decode", learnt, "--format", "jsonl", stdin="läuft \u2028 x\n".encode())
    assert '"läuft \u2028 x"' in result.stdout and result.stdout_bytes.count(b"\n") == 1


def test_flags_and_their_counts(translate: Translate, learnt: Path) -> None:
    result = translate(
        "decode", learnt, "--format=jsonl", "--max-length-factor=0", "--max-length-constant=1", stdin=TEXT.encode()
    )
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert [("truncated" in record["flags"]) for record in records] == [True, False, True, False, True]
    assert result.stderr.startswith("5 lines, ") and ", 3 cut at the maximum length" in result.stderr


def test_nothing_half_written_is_left(translate: Translate, run: Path, tmp_path: Path) -> None:
    files = ["--alignments", tmp_path / "links", "--output", tmp_path / "out"]
    result = translate("decode", run, *files, stdin=b"Hund\n\xff\n")
    assert result.exit_code == 2 and "standard input, line 2: byte 1 of the line (0xff) is not UTF-8" in result.stderr
    assert list(tmp_path.iterdir()) == []


def start_interactive(run: Path, *, stdin: int, stderr: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "translate", "decode", str(run), "--interactive"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, bufsize=0, env=environment, close_fds=True
    )


def read_until(descriptor: int, end: bytes, *, seconds: float = 60.0) -> bytes:
    """What comes until it ends so; less if nothing comes for a long time."""
    seen = b""
    while not seen.endswith(end) and select.select([descriptor], [], [], seconds)[0]:
        seen += os.read(descriptor, 4096)
    return seen


def test_a_person_is_asked_for_each_line(learnt: Path) -> None:
    pty = pytest.importorskip("pty", reason="needs pseudo-terminals")
    ours, theirs = pty.openpty()
    with start_interactive(learnt, stdin=theirs, stderr=theirs) as process:
        os.close(theirs)
        assert process.stdout
        assert read_until(ours, b"> ").endswith(b"> ")
        os.write(ours, "Hund läuft\n".encode())
        assert read_until(process.stdout.fileno(), b"\n") == b"dog runs\n"
        assert read_until(ours, b"\n> ") == "Hund läuft\r\n> ".encode()  # what was typed, and the next question
        os.write(ours, b"\x04")  # the end of input
        assert b"1 lines, 0 empty" in read_until(ours, b" lines/s)\r\n")
    os.close(ours)
    assert process.returncode == 0
