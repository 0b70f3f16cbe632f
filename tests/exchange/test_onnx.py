"""An export to ONNX translates as the run does: by the documentation's code, and by `optimum` where it is there."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from translate.config.decoding import DecodingConfig
from translate.config.schema import Config
from translate.data.tokenizer import Tokenizers
from translate.decoding import Translator
from translate.errors import RunError
from translate.exchange import export_run
from translate.exchange.onnx import check_onnx, write_onnx
from translate.model import Transformer

pytest.importorskip("onnx", reason="the extra `onnx` is not installed")
pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")

Toy = Any  # conftest.py's: test modules cannot import each other
Build = Callable[..., tuple[Transformer, Tokenizers]]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "exporting.md"


@pytest.fixture(scope="module")
def exported(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exports") / "toy-onnx"
    assert export_run(toy.path, to="onnx", output=folder) == 150
    return folder


@pytest.fixture(scope="module")
def expected(toy: Toy) -> list[str]:
    """The run's own translations, by greedy search."""
    translator = Translator(toy.model, toy.tokenizers, DecodingConfig(beam_size=1, device="cpu"))
    return [translation.text for translation in translator.translate(toy.sources)]


def translate_as_documented(folder: Path, lines: list[str]) -> list[str]:
    """Translate by the code that the documentation shows, which imports nothing of this package."""
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    namespace: dict[str, Any] = {}
    assert code.count('"mine-onnx"') == 1 and "import translate" not in code
    exec(code.replace('"mine-onnx"', repr(str(folder))), namespace)
    translations: list[str] = namespace["translate"](lines)
    return translations


def test_the_files(exported: Path) -> None:
    assert {file.name for file in exported.iterdir()} >= {
        *("encoder_model.onnx", "decoder_model_merged.onnx", "config.json", "generation_config.json"),
        *("source.spm", "target.spm", "vocab.json", "tokenizer_config.json"),
    }
    config = json.loads((exported / "config.json").read_text())
    assert (config["model_type"], config["d_model"], config["decoder_layers"]) == ("marian", 32, 1)
    assert json.loads((exported / "generation_config.json").read_text())["max_length"] == 512


def test_onnxruntime_alone_translates_as_the_run_does(toy: Toy, exported: Path, expected: list[str]) -> None:
    assert len(set(expected)) > 30
    assert translate_as_documented(exported, toy.sources) == expected
    assert translate_as_documented(exported, toy.sources[:1]) == expected[:1]


def test_int8(toy: Toy, exported: Path, expected: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    export_run(toy.path, to="onnx", output=tmp_path / "int8", quantization="int8")
    assert re.search(
        r"int8: after \d+% of \d+ tokens of random words, the same token is the most probable", caplog.text
    )
    found = translate_as_documented(tmp_path / "int8", toy.sources)
    assert sum(map(str.__eq__, found, expected)) >= 0.8 * len(expected)
    sizes = [(folder / "decoder_model_merged.onnx").stat().st_size for folder in (exported, tmp_path / "int8")]
    assert sizes[0] - sizes[1] > 2 * 32 * (300 + 7 * 32 + 2 * 64)  # at least two bytes of each weight of a matrix


def test_optimum_generates_what_the_run_translates(toy: Toy, exported: Path, expected: list[str]) -> None:
    optimum = pytest.importorskip("optimum.onnxruntime", reason="optimum-onnx is not installed")
    from transformers import MarianTokenizer

    tokenizer = MarianTokenizer.from_pretrained(exported)
    model = optimum.ORTModelForSeq2SeqLM.from_pretrained(exported)
    batch = tokenizer(toy.sources, return_tensors="pt", padding=True)
    for use_cache in (True, False):
        ids = model.generate(**batch, num_beams=1, max_length=40, use_cache=use_cache)
        assert tokenizer.batch_decode(ids, skip_special_tokens=True) == expected
    ids = model.generate(**batch, num_beams=3, max_length=40)
    assert len(ids) == len(expected)


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize(("change", "shown"), [(3.0, r"[\d.]+"), (torch.nan, "nan")])
def test_a_changed_weight_fails_the_check(build: Build, tmp_path: Path, int8: bool, change: float, shown: str) -> None:
    torch.manual_seed(1)
    model, tokenizers = build()
    write_onnx(model, tokenizers, Config.model_construct(model=model.config), tmp_path, int8=int8)
    with torch.no_grad():
        model.get_parameter("decoder.layers.2.cross_attention.input_projection.weight")[-20:] += change
    message = rf"logits in int8 differ by {shown}% of their" if int8 else rf"its logits differ by up to {shown}, and"
    with pytest.raises(RunError, match=message):
        check_onnx(tmp_path, model, int8=int8)
