"""Completion in a real bash, by the script that `translate --show-completion` prints there."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from translate.config.load import preset_names

pytestmark = [pytest.mark.system, pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")]

SCRIPT = """
translate() { "$PYTHON" -m translate "$@"; }
eval "$(translate --show-completion)"
complete -p translate
COMP_WORDS=(translate train multi); COMP_CWORD=2
_translate_completion "$STARTER"; echo "${COMPREPLY[@]}"
"""


def test_completion_in_bash(tmp_path: Path) -> None:
    starter = tmp_path / "translate"
    starter.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m translate "$@"\n')
    starter.chmod(0o755)
    environment = {**os.environ, "PYTHON": sys.executable, "STARTER": str(starter)}
    command = ["bash", "--norc", "-c", SCRIPT]
    result = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert result.stdout.splitlines() == [
        "complete -o default -F _translate_completion translate",
        " ".join(name for name in preset_names() if name.startswith("multi")),
    ], result.stderr
