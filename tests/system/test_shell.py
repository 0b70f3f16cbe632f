"""Completion in a real bash, by the script that `translate --show-completion` prints there."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from translate.config.schema import TrainingConfig

SCHEDULES = get_args(TrainingConfig.model_fields["schedule"].annotation)

pytestmark = [pytest.mark.system, pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")]

SCRIPT = """
translate() { "$PYTHON" -m translate "$@"; }
eval "$(translate --show-completion)"
complete -p translate
COMP_WORDS=(translate train demo training.schedule = co); COMP_CWORD=5
_translate_completion "$STARTER"; echo "${COMPREPLY[@]}"
COMP_WORDS=(translate train demo training.schedule =); COMP_CWORD=4
_translate_completion "$STARTER"; echo "${COMPREPLY[@]}"
COMP_WORDS=(translate train demo training.learning); COMP_CWORD=3
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
        " ".join(name for name in SCHEDULES if name.startswith("co")),
        " ".join(SCHEDULES),
        "training.learning_rate=1.0 training.learning_rate=",
    ], result.stderr
