"""Pipes and standard streams that are closed, full or gone: what docs/bad-input.md says, in processes of their own."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")

SHELL: dict[str, str] = {  # $T is the command, $RUN a run, $TEXT a file of five lines
    "lines-stdin-closed": '$T tokenizer encode "$RUN" <&-',
    "lines-pipe": 'mkfifo pipe; cat "$TEXT" > pipe & $T decode "$RUN" pipe > out; test $(wc -l < out) = 5',
    "output-pipe-closed": '{ $T tokenizer encode "$RUN" "$TEXT"; echo $? >&3; } | true; exit $(cat code)',
    "output-full": '$T tokenizer encode "$RUN" "$TEXT" > /dev/full',
    "output-closed": '$T decode "$RUN" "$TEXT" >&-',
}


@pytest.mark.parametrize("row_id", SHELL)
def test_streams(run: Path, bad_input_rows: dict[str, Any], tmp_path: Path, row_id: str) -> None:
    if row_id == "output-full" and not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    row = bad_input_rows[row_id]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "error",
        "T": f"{sys.executable} -m translate",
        "RUN": str(run),
        "TEXT": str(run.parent / "train.de"),
    }
    result = subprocess.run(
        ["sh", "-c", f"exec 3> code; {SHELL[row_id]}"], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert result.returncode == row.exit_code, result.stderr
    assert all(words in result.stderr for words in row.words) and "Traceback" not in result.stderr
    assert row_id != "output-pipe-closed" or result.stderr == ""
