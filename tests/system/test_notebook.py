"""docs/first-model.ipynb cannot rot: its cells run, and what is saved in it is what they give, but for the numbers."""

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs" / "first-model.ipynb"

STEPS = '"training.max_steps": 300, "training.warmup_steps": 60, "training.validate_every": 100'
FEWER_STEPS = (
    '"training.max_steps": 4, "training.warmup_steps": 2, "training.validate_every": 2, "model.d_model": 16,'
    ' "model.d_ff": 16, "decoding.max_length_factor": 0.2, "decoding.max_length_constant": 3'
)


def code_cells() -> list[dict[str, Any]]:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """Run a cell; returns the value of its last line, if that is an expression, as a notebook does."""
    body = ast.parse(source).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def test_the_cells_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    cells = code_cells()
    sources = ["".join(cell["source"]) for cell in cells]
    assert sum(STEPS in source for source in sources) == 1
    for cell, source in zip(cells, sources, strict=True):
        source = source.replace(STEPS, FEWER_STEPS)
        value = run_cell(source, names)
        saved = [output["data"] for output in cell["outputs"] if output["output_type"] == "execute_result"]
        assert (value is None) == (not saved)
        assert hasattr(value, "_repr_html_") == any("text/html" in data for data in saved)
        printed = any(output["output_type"] == "stream" for output in cell["outputs"])
        assert printed == (capsys.readouterr().out != "" or "translate.train(" in source)  # pytest takes the log
    assert (tmp_path / "attention.html").is_file() and names["run"].step == 4


def test_what_is_saved_is_of_one_run_and_names_no_machine() -> None:
    cells = code_cells()
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert not any(output["output_type"] == "error" for cell in cells for output in cell["outputs"])
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert "Training ended after 300 steps" in text and "BLEU" in text
    assert re.findall(r"(?<=[\s\"'(=])/[a-zA-Z]\w*/", text) == [], "an absolute path"
    assert len(text) < 1_000_000
