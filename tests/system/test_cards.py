"""Snippets of cards and of docs/exporting.md run with what the `pip` line installs, and translate as the run does."""

import json
import os
import re
import subprocess
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest
from harness import Toy, make_toy, tiny_config, write_run
from packaging.requirements import Requirement

from translate.decoding import Translator
from translate.exchange import export_run

PAGE = Path(__file__).resolve().parents[2] / "docs" / "exporting.md"
SIZES = {"d_model": 32, "num_heads": 4, "d_ff": 64, "dropout": 0.0, "initialization": "xavier"}
OPTIMUM = ("optimum-onnx", "optimum", "transformers<4.58", "tokenizers<0.23", "huggingface_hub<1.0")


def find_distributions(names: list[str]) -> dict[str, Distribution]:
    """The installed packages that `pip install` of these names would install, by name."""
    found: dict[str, Distribution] = {}
    while names:
        requirement = Requirement(names.pop())
        if requirement.name.lower() not in found and (
            not requirement.marker or requirement.marker.evaluate({"extra": ""})
        ):
            try:
                found[requirement.name.lower()] = distribution(requirement.name)
            except PackageNotFoundError:  # not needed here, such as CUDA's
                continue
            names += found[requirement.name.lower()].requires or []
    return found


def make_environment(folder: Path, packages: list[str]) -> dict[str, str]:
    """Link these packages and what they need into a folder; returns the variables of a process that sees no others."""
    folder.mkdir()
    for each in find_distributions(packages).values():
        for name in {file.parts[0] for file in each.files or [] if file.parts[0] != ".."}:
            if not (folder / name).exists():
                (folder / name).symlink_to(Path(str(each.locate_file(name))))
    return {
        "PYTHONPATH": str(folder),
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(folder / "cache"),
        "PATH": os.environ["PATH"],
    }


def run_alone(code: str, folder: Path, environment: dict[str, str]) -> str:
    """Run a snippet where only these packages can be imported; returns what it prints."""
    result = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, env=environment, cwd=folder, timeout=300
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    return make_toy(tmp_path_factory.mktemp("runs") / "toy", tiny_config(model=SIZES), num_steps=150)


pytestmark = pytest.mark.timeout(400)  # starts other programs

SEARCHES: list[tuple[str, dict[str, Any]]] = [
    ("ctranslate2", {"length_penalty": 0.8, "max_length_factor": 0.8, "max_length_constant": 2}),
    ("ctranslate2", {"length_penalty_kind": "none", "patience": 1, "beam_size": 3}),
    ("ctranslate2", {"beam_size": 1}),
    ("huggingface", {"length_penalty_kind": "average", "length_penalty": 1.5, "patience": 0, "max_length_factor": 0.5}),
    (
        "huggingface",
        {
            "length_penalty_kind": "none",
            "patience": 1,
            "min_length_constant": 12,
            "max_length_constant": 13,
            "no_repeat_ngram": 2,
        },
    ),
    ("onnx", {"length_penalty_kind": "average", "patience": 0, "max_length_factor": 0.5}),
]


@pytest.mark.parametrize(("to", "search"), SEARCHES, ids=str)
def test_the_code_of_a_card_is_the_search_of_the_run(
    trained: Toy, tmp_path: Path, to: Any, search: dict[str, Any]
) -> None:
    """With the settings that the program has. ONNX needs optimum, which needs another version of transformers."""
    pytest.importorskip({"huggingface": "transformers"}.get(to, to))
    config = tiny_config(model=SIZES, decoding=search)
    run = write_run(tmp_path / "run", config, trained.tokenizers, trained.model)
    lines = [f"{first} {second}" for first in trained.sources for second in trained.sources[:10]][::9][:40]
    translations = Translator(trained.model, trained.tokenizers, config.decoding).translate(lines)
    expected = [each.text.strip() for each in translations]
    assert len(expected) == 40
    export_run(run, to=to, output=tmp_path / "mine")
    card = (tmp_path / "mine" / "README.md").read_text(encoding="utf-8")
    [code] = re.findall(r"```python\n(.*?)```", card, flags=re.DOTALL)
    [packages] = re.findall(r"pip install (.*)", card)
    environment = make_environment(tmp_path / "site", packages.replace("'", "").split())
    if to == "onnx":
        options = ["-q", "--no-deps", "--no-compile", "--target", tmp_path / "optimum"]
        if subprocess.run([sys.executable, "-m", "pip", "install", *options, *OPTIMUM], capture_output=True).returncode:
            pytest.skip("optimum-onnx cannot be installed here")
        others = make_environment(
            tmp_path / "others", ["onnxruntime", "torch", "sentencepiece", "transformers", "requests", "onnx"]
        )
        environment["PYTHONPATH"] = f"{tmp_path / 'optimum'}:{others['PYTHONPATH']}"
    code += f"\nimport json\nlines = json.loads({json.dumps(lines)!r})\n"
    code += "print(json.dumps([translate(line).strip() for line in lines]))\n"
    if to == "onnx":  # and the code of the page for optimum
        (tmp_path / "mine-onnx").symlink_to("mine")
        code += re.findall(r"```text\n(from optimum.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)[0]
    output = run_alone(code, tmp_path, environment).splitlines()
    assert [json.loads(line) for line in output if line.startswith('["')] == [expected]
    assert sum(line.startswith("['") for line in output) == (to == "onnx")


def test_the_page_on_exporting_runs(tmp_path: Path) -> None:
    """Its code for transformers; tests/exchange/test_onnx.py runs its code for ONNX Runtime."""
    pytest.importorskip("transformers")
    toy = make_toy(tmp_path / "run", tiny_config(model=SIZES | {"norm": "pre"}), num_steps=150)
    export_run(toy.path, to="huggingface", output=tmp_path / "mine-hf")
    [code] = re.findall(r"```text\n(from transformers import AutoM.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)
    environment = make_environment(tmp_path / "site", ["transformers", "torch", "sentencepiece"])
    assert run_alone(code, tmp_path, environment).startswith("['")
