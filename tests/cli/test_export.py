"""`translate export`: a folder for another toolkit, or a paragraph and nothing."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

Translate = Callable[..., Result]


def test_export(translate: Translate, run: Path, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")
    output = tmp_path / "new" / "ct2"
    result = translate("export", run, output, "--to", "ctranslate2", "--checkpoint", "last")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"{output}: weights of step 3 exported; they give the same numbers\n"
    assert {"model.bin", "config.json"} <= {file.name for file in output.iterdir()}

    again = translate("export", run, output, "--to", "ctranslate2")
    assert again.exit_code == 2
    assert again.stderr == f"translate: {output} is not empty: choose another folder, or empty it\n"


@pytest.mark.parametrize(("to", "package"), [("ctranslate2", "ctranslate2"), ("huggingface", "transformers")])
def test_an_export_without_its_package(
    translate: Translate, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    result = translate("export", run, tmp_path / "out", "--to", to)
    assert result.exit_code == 2 and "pip install '" in result.stderr and f"'{package}>=" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_is_rounded_is_said(translate: Translate, run: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")
    result = translate("export", run, tmp_path / "out", "--to", "onnx", "--quantization", "int8")
    assert (result.exit_code, result.stdout) == (0, "")
    assert re.search(r"^int8: after \d+% of 229 tokens of random words", result.stderr, flags=re.MULTILINE)
    assert result.stderr.endswith("exported; rounded to int8\n")


def test_what_cannot_be_exported(translate: Translate, run: Path, corpus: Path, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")
    for arguments, message in [
        ([corpus, tmp_path / "x", "--to", "ctranslate2"], f"{re.escape(str(corpus))} is not a run directory"),
        ([run, corpus / "one.de", "--to", "ctranslate2"], "one.de is a file, not a folder to export to"),
        ([run, tmp_path / "x", "--to", "marian"], "'marian' is not one of 'ctranslate2', 'huggingface', 'onnx'"),
        ([run, tmp_path / "x"], "missing option '--to'"),
    ]:
        result = translate("export", *arguments)
        assert result.exit_code == 2 and result.stdout == ""
        assert re.search(message, result.stderr), result.stderr
    assert list(tmp_path.iterdir()) == []
