"""An export is whole or not there: what stands in its way is refused, and a failure leaves nothing behind."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from translate.config import Config, ModelConfig
from translate.errors import InputError, RunError
from translate.export import export_run
from translate.export.folder import write_folder
from translate.runs import build_model

Toy = Any  # conftest.py's: test modules cannot import each other
SaveRun = Callable[..., None]


def write_one(folder: Path) -> None:
    (folder / "model.bin").write_bytes(b"weights")


def test_writes_a_folder_with_the_tokenizer(toy: Toy, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")
    output = tmp_path / "new" / "model"
    assert export_run(toy.path, to="ctranslate2", output=output) == (output, 150)
    names = {file.name for file in output.iterdir()}
    assert names == {"model.bin", "config.json", "shared_vocabulary.json", "joint.model"}
    assert [file.name for file in output.parent.iterdir()] == ["model"]
    modes = {file.stat().st_mode & 0o777 for file in output.iterdir()}
    (tmp_path / "ordinary").touch()
    assert modes == {(tmp_path / "ordinary").stat().st_mode & 0o777}


def test_what_marian_lacks_leaves_nothing_behind(toy: Toy, tmp_path: Path, save_run: SaveRun) -> None:
    pytest.importorskip("transformers", reason="the extra `huggingface` is not installed")
    config = Config(model=ModelConfig(d_model=8, num_heads=2, d_ff=8, num_encoder_layers=1, num_decoder_layers=1))
    config = config.model_copy(update={"model": config.model.model_copy(update={"norm": "pre"})})
    save_run(tmp_path / "run", config, toy.tokenizers, build_model(config, toy.tokenizers))
    with pytest.raises(InputError, match="model.norm = 'pre'"):
        export_run(tmp_path / "run", to="huggingface", output=tmp_path / "marian")
    assert [file.name for file in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize(("package", "to"), [("ctranslate2", "ctranslate2"), ("transformers", "huggingface")])
def test_a_missing_package_is_named(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, to: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"pip install 'translate-nmt\[{to}\]'"):
        export_run(toy.path, to=to, output=tmp_path / "out")  # type: ignore[arg-type]


def test_an_occupied_place_is_refused(toy: Toy, tmp_path: Path) -> None:
    write_one(tmp_path)
    with pytest.raises(InputError, match="is not empty"):
        export_run(toy.path, to="ctranslate2", output=tmp_path)
    with pytest.raises(InputError, match="is a file"):
        export_run(toy.path, to="ctranslate2", output=tmp_path / "model.bin")


def test_an_empty_folder_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert write_folder(tmp_path / "out", write_one)
    assert (tmp_path / "out" / "model.bin").read_bytes() == b"weights"


def test_the_second_of_two_writers_leaves_the_first_ones_folder(tmp_path: Path) -> None:
    def write_slowly(folder: Path) -> None:
        write_folder(tmp_path / "out", write_one)
        (folder / "other").touch()

    assert not write_folder(tmp_path / "out", write_slowly)
    assert [file.name for file in tmp_path.rglob("*")] == ["out", "model.bin"]


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        write_one(folder)
        raise OSError(28, "No space left on device")

    with pytest.raises(RunError, match="out: cannot be written: No space left on device"):
        write_folder(tmp_path / "out", fail)
    assert list(tmp_path.iterdir()) == []
