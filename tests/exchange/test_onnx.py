"""An export to ONNX gives our logits and translations: by the documentation's code, and by `optimum` if installed."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import Toy, model_to_export, random_model

from translate.config.decoding import DecodingConfig
from translate.config.schema import Config
from translate.decoding import Translator
from translate.errors import RunError
from translate.exchange import export_run
from translate.exchange.onnx import check_onnx, write_onnx
from translate.exchange.onnx_graph import Graph, build_decoder, build_encoder

onnx = pytest.importorskip("onnx", reason="the extra `onnx` is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "exporting.md"


@pytest.fixture(scope="module")
def exported(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exports") / "toy-onnx"
    assert export_run(toy.path, to="onnx", output=folder) == 7
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


def test_onnxruntime_alone_translates_as_the_run_does(toy: Toy, exported: Path, expected: list[str]) -> None:
    assert len(set(expected)) > 30
    assert translate_as_documented(exported, toy.sources) == expected
    assert translate_as_documented(exported, toy.sources[:1]) == expected[:1]
    assert json.loads((exported / "config.json").read_text())["model_type"] == "marian"  # which optimum knows


def test_onnxruntime_quantizes_as_documented(
    toy: Toy, exported: Path, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(exported, tmp_path / "mine-onnx")
    monkeypatch.chdir(tmp_path)
    exec(re.findall(r"^```text\n(from onnxruntime.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.M | re.S)[0])
    found = translate_as_documented(tmp_path / "mine-onnx", toy.sources)
    assert sum(map(str.__eq__, found, expected)) >= 0.8 * len(expected)
    sizes = [(folder / "decoder_model_merged.onnx").stat().st_size for folder in (exported, tmp_path / "mine-onnx")]
    assert sizes[0] - sizes[1] > 2 * 32 * (300 + 7 * 32 + 2 * 64)  # at least two bytes of each weight of a matrix


@pytest.mark.parametrize("change", [3.0, torch.nan])
def test_a_changed_weight_fails_the_check(tmp_path: Path, change: float) -> None:
    model, tokenizers = model_to_export()
    write_onnx(model, tokenizers, Config.model_construct(model=model.config), tmp_path)
    with torch.no_grad():
        model.get_parameter("decoder.layers.2.cross_attention.input_projection.weight")[-20:] += change
    with pytest.raises(RunError, match="its logits differ by up to"):
        check_onnx(tmp_path, model)


@pytest.mark.parametrize(
    "shape",
    [
        {"norm": "pre", "positions": "rotary", "activation": "swiglu", "tie_embeddings": "decoder"},
        {"positions": "rotary", "scale_embeddings": False, "norm_epsilon": 0.03, "output_bias": True},
        {"norm": "pre", "positions": "learned", "max_positions": 7, "d_model": 21, "num_heads": 3},
        {"positions": "relative", "tie_embeddings": "none", "vocabulary": "separate", "relative_buckets": 11},
        {"norm": "pre", "norm_kind": "rms", "bias": False, "activation": "geglu", "head_dim": 6, "positions": "rotary"},
    ],
    ids=str,
)
def test_options_together(tmp_path: Path, shape: dict[str, object]) -> None:
    """Each choice alone is a row of test_counterparts.py."""
    model, tokenizers = model_to_export(**shape)
    write_onnx(model, tokenizers, Config.model_construct(model=model.config), tmp_path)  # checks it


@pytest.mark.parametrize("parts", [(5,), (3, 2), (1, 3, 1)], ids=str)
def test_several_positions_after_a_cache(tmp_path: Path, parts: tuple[int, ...]) -> None:
    """Not by the export's own check: the logits of the full forward pass, and the names that optimum knows."""
    model = random_model(37, noise=0.0, d_model=20, num_decoder_layers=2, norm="pre", positions="rotary").eval()
    build_encoder(Graph(onnx, model)).save(tmp_path / "encoder.onnx")
    build_decoder(Graph(onnx, model)).save(tmp_path / "decoder.onnx")
    encoder, decoder = (onnxruntime.InferenceSession(tmp_path / f"{name}.onnx") for name in ("encoder", "decoder"))
    source, target = torch.tensor([[5, 6, 7, 3], [8, 3, 0, 0]]), torch.tensor([[2, 9, 4, 11, 7], [2, 30, 31, 32, 33]])
    with torch.inference_mode():
        expected = model(source, target)
    mask = (source != 0).long().numpy()
    (hidden,) = encoder.run(["last_hidden_state"], {"input_ids": source.numpy(), "attention_mask": mask})
    names = [f"{layer}.{side}.{part}" for layer in "01" for side in ("decoder", "encoder") for part in ("key", "value")]
    outputs = ["logits", *(f"present.{name}" for name in names)]
    cache = {f"past_key_values.{name}": torch.zeros(2, 2, 0, 10).numpy() for name in names}
    found = []
    for ids in target.split(parts, dim=1):
        inputs = {"input_ids": ids.numpy(), "encoder_hidden_states": hidden, "encoder_attention_mask": mask}
        logits, *present = decoder.run(outputs, inputs | cache)
        found.append(torch.from_numpy(logits))
        cache = dict(zip(cache, present, strict=True))
    assert [values.shape[2] for values in cache.values()] == [5, 5, 4, 4] * 2
    assert torch.allclose(torch.cat(found, dim=1), expected, rtol=0, atol=1e-5)


def test_weights_that_are_too_large_for_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokenizers = model_to_export()
    monkeypatch.setattr("translate.exchange.onnx_graph.LARGEST_FILE", 1000)
    (tmp_path / "written").mkdir()
    write_onnx(model, tokenizers, Config.model_construct(model=model.config), tmp_path / "written")
    assert (tmp_path / "written" / "decoder_model_merged.onnx_data").stat().st_size > 20_000
    moved = (tmp_path / "written").rename(tmp_path / "moved")  # as an export is, when it is whole
    check_onnx(moved, model)
