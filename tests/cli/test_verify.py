"""`translate verify`: what it prints and with which code it ends."""

import json
import shutil
from pathlib import Path

from harness import run_command as translate
from harness import succeed

import translate as package


def test_a_run_fresh_from_training(copied: Path) -> None:
    for name in ("evaluation", "export"):  # of tests before this one
        shutil.rmtree(copied / name, ignore_errors=True)
    created = json.loads((copied / "run.json").read_text())["created"][:10]
    result = succeed("verify", copied)
    lines = result.stdout.splitlines()
    assert lines[0] == f"{copied}: written by translate {package.__version__} on {created}"
    assert lines[1] == lines[-2] == ""
    words = [line.split(maxsplit=2) for line in lines[2:-2]]
    checkpoints = [f"checkpoints/{name}.safetensors" for name in ("best", "last", "previous")]
    files = ["run.json", "config.yaml", "tokenizer/joint.model", *checkpoints, "metrics.jsonl"]
    assert [line[1] for line in words if line[0] == "ok"] == files
    assert words[4][2] == "step 3, resumable"
    assert lines[-1] == "sound: every file is as it was written"


def test_json(copied: Path) -> None:
    (copied / "checkpoints" / "last.safetensors").write_bytes(b"")
    result = translate("verify", copied, "--json")
    assert result.exit_code == 1
    values = json.loads(result.stdout)
    assert (values["run"], values["sound"], values["version"]) == (str(copied), False, package.__version__)
    assert [file["name"] for file in values["files"] if file["state"] == "DAMAGED"] == ["checkpoints/last.safetensors"]
