"""`translate export`: a folder for another toolkit, or a paragraph and nothing."""

import re
from pathlib import Path

import pytest
from harness import run_command as translate


def test_export(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")
    output = tmp_path / "new" / "ct2"
    result = translate("export", run, output, "--to", "ctranslate2", "--checkpoint", "last")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"{output}: weights of step 3 exported; they give the same numbers\n"
    assert {"model.bin", "config.json"} <= {file.name for file in output.iterdir()}

    again = translate("export", run, output, "--to", "ctranslate2")
    assert again.exit_code == 2
    assert again.stderr == f"translate: {output} is not empty: choose another folder, or empty it\n"


def test_what_is_rounded_is_said(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")
    result = translate("export", run, tmp_path / "out", "--to", "onnx", "--quantization", "int8")
    assert (result.exit_code, result.stdout) == (0, "")
    assert re.search(r"^int8: after \d+% of 229 tokens of random words", result.stderr, flags=re.MULTILINE)
    assert result.stderr.endswith("exported; rounded to int8\n")
