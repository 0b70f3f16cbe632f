"""`--json` prints one document, which is as its schema in docs/json.md says."""

import json
import re
import shutil
from pathlib import Path

import jsonschema
import pytest
from harness import commands, corpus_lines, run_command, write_lines

from translate.runs.checkpoint import read_tensors, write_checkpoint
from translate.runs.directory import RunDirectory

PAGE = (Path(__file__).parents[2] / "docs" / "json.md").read_text(encoding="utf-8")
SCHEMAS = {
    name: json.loads(text)
    for name, text in re.findall(r"^## `([\w -]+)`\n.*?^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
}
CALLS = {
    "init": "init more.de more.en",
    "eval": "eval RUN --samples 1",
    "compare": "compare valid.en other.en --source valid.de --reference valid.en",
    "tune-decode": "tune-decode RUN --dry-run",
    "average": "average RUN best step-2 --dry-run",
    "check": "check tiny.yaml",
    "clean": "clean tiny.yaml cleaned --rule markup",
    "verify": "verify RUN",
    "runs": "runs .",
    "info": "info RUN",
    "config presets": "config presets",
}


def test_every_command_with_json_has_a_schema() -> None:
    with_json = {name for name, command in commands().items() if any("--json" in each.opts for each in command.params)}
    assert with_json == SCHEMAS.keys() == CALLS.keys()


@pytest.fixture
def place(tmp_path: Path, corpus: Path, run: Path, monkeypatch: pytest.MonkeyPatch, quick: None) -> Path:
    shutil.copytree(corpus, tmp_path / "place")
    monkeypatch.chdir(tmp_path / "place")
    for name in ("de", "en"):
        write_lines(Path(f"more.{name}"), corpus_lines(f"train.{name}")[:1000])
    copy = RunDirectory(Path("run").absolute())
    write_checkpoint(copy, "step-2", read_tensors(copy.checkpoint("best")).tensors, {"step": "2"})
    Path("other.en").write_text("A dog.\nTwo men.\nThe street.\n", encoding="utf-8")
    return tmp_path / "place"


@pytest.mark.parametrize("name", CALLS)
def test_the_document_is_as_its_schema_says(name: str, place: Path) -> None:
    result = run_command(*CALLS[name].replace("RUN", "run").split(), "--json")
    assert result.exit_code == 0 or name == "check", result.stderr
    document = json.loads(result.stdout)
    jsonschema.validate(document, SCHEMAS[name])
    assert [*document][0] == "format" and document["format"] == 2
