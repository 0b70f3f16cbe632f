"""Argos Translate installs our packages, and gives our translations with its own search."""

import importlib.util
import json
import os
import random
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from harness import make_toy, make_two_ways, tiny_config, toy_sentences

from translate.decoding.loading import load_own_translator
from translate.exchange import export_run
from translate.exchange.card import ARGOS_SEARCH

pytestmark = pytest.mark.timeout(400)

SIZES = {"d_model": 32, "num_heads": 4, "d_ff": 64, "dropout": 0.0, "initialization": "xavier"}
PROGRAM = """
import json, sys
from pathlib import Path
from argostranslate import package, translate

for path in sys.argv[2:]:
    package.install_from_path(Path(path))
lines, (first, second) = json.load(sys.stdin), sys.argv[1].split("_")
print(json.dumps([translate.translate(line, first, second) for line in lines]))
"""


def add_sentence_model(package: Path) -> None:
    """Add a model for MiniSBD that ends no sentence within a line; Argos Translate would download one."""
    onnx = pytest.importorskip("onnx", reason="the extra `onnx` is not installed")
    helper, kinds = onnx.helper, onnx.TensorProto
    shape = ["batch", "length"]
    inputs = [
        helper.make_tensor_value_info("units", kinds.INT64, shape),
        helper.make_tensor_value_info("features", kinds.FLOAT, [*shape, 1]),
    ]
    output = helper.make_tensor_value_info("scores", kinds.FLOAT, [*shape, 1])  # the only class: no end
    node = helper.make_node("Identity", ["features"], ["scores"])
    graph = helper.make_graph([node], "none", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    vocabulary = {"<PAD>": 0, "<UNK>": 1, "<EMPTY>": 2, "<ROOT>": 3}
    state = {"lang": "de", "lower": False, "_unit2id": vocabulary, "_id2unit": [*vocabulary]}
    for key, value in {"config": {"feat_funcs": ["capitalized"]}, "vocab": state}.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, json.dumps(value)
    with zipfile.ZipFile(package, "a") as archive:
        archive.writestr(f"{package.stem}/minisbd/none.onnx", model.SerializeToString())


def export_for_argos(run: Path, output: Path) -> None:
    export_run(run, to="argos", output=output)
    for package in output.glob("*.argosmodel"):
        add_sentence_model(package)


def translate_with_argos(folder: Path, lines: list[str], direction: str) -> list[str]:
    """The translations of Argos Translate with all packages of an export, in a home folder of its own."""
    packages = [str(path) for path in folder.glob("*.argosmodel")]
    home = {"HOME": str(folder / "home"), "ARGOS_COMPUTE_TYPE": "float32"}
    without = {key: value for key, value in os.environ.items() if not key.startswith("XDG_")}
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, direction, *packages]
    result = subprocess.run(
        command, input=json.dumps(lines), capture_output=True, text=True, env=without | home, timeout=300
    )
    assert result.returncode == 0, result.stderr
    found: list[str] = json.loads(result.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("vocabulary", ["joint", "separate"])
def test_argos_translate_gives_our_translations(tmp_path: Path, vocabulary: str) -> None:
    if importlib.util.find_spec("argostranslate") is None:
        pytest.skip("argostranslate is not installed")
    config = tiny_config(
        model=SIZES | {"tie_embeddings": "all" if vocabulary == "joint" else "decoder"},
        tokenizer={"vocabulary": vocabulary},
        data={"source_language": "de", "target_language": "en"},
        decoding={"max_length_factor": 2.0, "max_length_constant": 20},
    )
    toy = make_toy(tmp_path / "toy", config, num_steps=150)
    export_for_argos(toy.path, tmp_path / "out")
    lines, _ = toy_sentences(50, longest=6, draw=random.Random(7))
    translator = load_own_translator(toy.path, options={**ARGOS_SEARCH, "device": "cpu"}).translator
    expected = [each.text for each in translator.translate(lines)]
    assert translate_with_argos(tmp_path / "out", lines, "de_en") == expected and len({*expected}) > 30


def test_a_model_with_tags_has_a_package_for_each_direction(tmp_path: Path) -> None:
    if importlib.util.find_spec("argostranslate") is None:
        pytest.skip("argostranslate is not installed")
    toy = make_two_ways(tmp_path / "made", ["target"], num_steps=150)["target"]
    export_for_argos(toy.path, tmp_path / "out")
    names = {path.stem for path in (tmp_path / "out").glob("*.argosmodel")}
    assert names == {"translate-de_en-1_0", "translate-en_de-1_0"}
    translator = load_own_translator(toy.path, options={**ARGOS_SEARCH, "device": "cpu"}).translator
    for lines, source, target in (toy.sources, "de", "en"), (toy.references, "en", "de"):
        expected = [each.text for each in translator.toward(to=target, from_=source).translate(lines)]
        found = translate_with_argos(tmp_path / "out", list(lines), f"{source}_{target}")
        assert sum(map(str.__eq__, found, expected)) >= len(lines) - 1  # the tag counts in lengths there
