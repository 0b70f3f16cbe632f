"""An export is whole or not there: what stands in its way is refused, and a failure leaves nothing behind."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from translate.config.data import DataConfig, TextCorpus
from translate.decoding import Translator
from translate.errors import InputError, RunError
from translate.evaluation.evaluate import evaluate
from translate.exchange import export_run
from translate.runs.loading import build_model

Toy = Any  # conftest.py's: test modules cannot import each other
SaveRun = Callable[..., None]


def test_writes_a_folder_with_the_tokenizer(toy: Toy, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")
    output = tmp_path / "new" / "model"
    assert export_run(toy.path, to="ctranslate2", output=output) == 150
    names = {file.name for file in output.iterdir()}
    assert names == {"model.bin", "config.json", "shared_vocabulary.json", "joint.model", "README.md"}
    assert [file.name for file in output.parent.iterdir()] == ["model"]
    modes = {file.stat().st_mode & 0o777 for file in output.iterdir()}
    (tmp_path / "ordinary").touch()
    assert modes == {(tmp_path / "ordinary").stat().st_mode & 0o777}


def test_a_failed_check_leaves_nothing_behind(toy: Toy, tmp_path: Path, save_run: SaveRun) -> None:
    pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")
    model = build_model(toy.config, toy.tokenizers)
    model.output.weight.data[5] = float("nan")
    save_run(tmp_path / "run", toy.config, toy.tokenizers, model)
    with pytest.raises(RunError, match="differ by up to nan"):
        export_run(tmp_path / "run", to="ctranslate2", output=tmp_path / "out")
    assert [file.name for file in tmp_path.iterdir()] == ["run"]


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


def test_a_quantization_that_the_format_lacks(toy: Toy, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--quantization int8 is not for --to huggingface: take --to .*onnx"):
        export_run(toy.path, to="huggingface", output=tmp_path / "out", quantization="int8")
    assert list(tmp_path.iterdir()) == []


def test_evaluates_the_run_and_the_export(
    toy: Toy, tmp_path: Path, save_run: SaveRun, caplog: pytest.LogCaptureFixture
) -> None:
    """The run's BLEU is that of `evaluate` with our own search; the export's is found again in its card."""
    pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")
    for name, lines in (("source", toy.sources), ("target", toy.references)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    validation = TextCorpus(source=tmp_path / "source", target=tmp_path / "target")
    config = toy.config.model_copy(update={"data": DataConfig(validation=validation)})
    save_run(tmp_path / "run", config, toy.tokenizers, toy.model)
    caplog.set_level("INFO", logger="translate.exchange.exporting")
    export_run(tmp_path / "run", to="ctranslate2", output=tmp_path / "out", quantization="int8", evaluate=True)
    ours, exported = [message for message in caplog.messages if message.startswith("Validation, beam 5, ")]
    expected = evaluate(
        Translator(toy.model, toy.tokenizers, toy.config.decoding), toy.sources, toy.references, config.evaluation
    ).score("BLEU")
    assert ours == f"Validation, beam 5, the run: BLEU {expected:.2f}"
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    bleu = exported.removeprefix("Validation, beam 5, this export: BLEU ")
    assert f"| validation | beam 5, this export | BLEU | {bleu} |" in card
    assert "weights before rounding" in card


def test_what_cannot_be_evaluated(toy: Toy, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")
    with pytest.raises(InputError, match="--evaluate is not for --to onnx: it compares"):
        export_run(toy.path, to="onnx", output=tmp_path / "out", evaluate=True)
    with pytest.raises(InputError, match=r"--evaluate: .* has no data\.validation"):
        export_run(toy.path, to="ctranslate2", output=tmp_path / "out", evaluate=True)
    assert list(tmp_path.iterdir()) == []


def test_an_occupied_place_is_refused(toy: Toy, tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"weights")
    with pytest.raises(InputError, match="is not empty"):
        export_run(toy.path, to="ctranslate2", output=tmp_path)
    with pytest.raises(InputError, match="is a file"):
        export_run(toy.path, to="ctranslate2", output=tmp_path / "model.bin")
