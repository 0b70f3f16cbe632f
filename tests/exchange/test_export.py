"""An export is a complete folder, or nothing is written."""

import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from harness import Toy, make_two_ways, write_run

from translate.config.data import DataConfig
from translate.data.tokenizer import Tokenizer, Tokenizers
from translate.errors import InputError
from translate.exchange import export_run


def test_writes_a_folder_with_the_tokenizer(toy: Toy, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")
    output = tmp_path / "new" / "model"
    assert export_run(toy.path, to="ctranslate2", output=output) == 7
    names = {file.name for file in output.iterdir()}
    assert names == {"model.bin", "config.json", "shared_vocabulary.json", "joint.model", "README.md"}
    assert [file.name for file in output.parent.iterdir()] == ["model"]
    modes = {file.stat().st_mode & 0o777 for file in output.iterdir()}
    (tmp_path / "ordinary").touch()
    assert modes == {(tmp_path / "ordinary").stat().st_mode & 0o777}


@pytest.mark.parametrize(
    ("package", "to"),
    [("ctranslate2", "ctranslate2"), ("transformers", "huggingface"), ("onnx", "onnx"), ("onnxruntime", "onnx")],
)
def test_a_missing_package_is_named(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, to: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"pip install .*'{package}>="):
        export_run(toy.path, to=to, output=tmp_path / "out")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"to": "huggingface", "quantization": "int8"}, "not work with --to huggingface: .*argos"),
    ],
)
def test_what_is_refused(toy: Toy, tmp_path: Path, options: dict[str, Any], words: str) -> None:
    pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")
    with pytest.raises(InputError, match=words):
        export_run(toy.path, output=tmp_path / "out", **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "named"), [(None, "source_language"), ("source", "language_tags"), ("separate", "tokenizer.vocabulary")]
)
def test_what_argos_translate_cannot_have(toy: Toy, tmp_path: Path, kind: str | None, named: str) -> None:
    """A run without names of its languages, tags before sources, and tags with two vocabularies."""
    data = DataConfig(source_language="und", target_language="und")
    run = write_run(tmp_path / "toy", toy.config.model_copy(update={"data": data}), toy.tokenizers, toy.model)
    if kind:
        tags = "source" if kind == "source" else "target"
        made = make_two_ways(tmp_path / "made", [tags], num_steps=0, model={"tie_embeddings": "decoder"})[tags]
        source = Tokenizer(made.tokenizers.source.model_bytes)
        tokenizers = Tokenizers(source, made.tokenizers.target, "separate") if kind == "separate" else made.tokenizers
        run = write_run(tmp_path / "run", made.config, tokenizers, made.model)
    with pytest.raises(InputError, match=f"--to argos: .*{named}"):
        export_run(run, to="argos", output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_package_for_argos_translate(toy: Toy, tmp_path: Path) -> None:
    """Its files are in one folder, which is unpacked next to those of other packages."""
    pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")
    data = DataConfig(source_language="zho_Hant", target_language="deu")
    run = write_run(tmp_path / "run", toy.config.model_copy(update={"data": data}), toy.tokenizers, toy.model)
    export_run(run, to="argos", output=tmp_path / "out", quantization="int8")
    assert {file.name for file in (tmp_path / "out").iterdir()} == {"README.md", "translate-zt_de-1_0.argosmodel"}
    with zipfile.ZipFile(tmp_path / "out" / "translate-zt_de-1_0.argosmodel") as package:
        assert {name.partition("/")[0] for name in package.namelist()} == {"translate-zt_de-1_0"}
        names = {name.partition("/")[2] for name in package.namelist()}
        metadata = json.loads(package.read("translate-zt_de-1_0/metadata.json"))
    assert {"metadata.json", "README.md", "sentencepiece.model", "model/model.bin", "model/config.json"} <= names
    assert [metadata[key] for key in ("from_code", "from_name", "to_code", "to_name", "target_prefix")] == [
        "zt", "Chinese (Traditional)", "de", "German", "",
    ]  # fmt: skip
