"""Every shape of model has its counterpart as ONNX graphs: logits within 1e-4 of ours, at once and with a cache."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from translate.config.schema import Config
from translate.data.tokenizer import Tokenizers
from translate.exchange import onnx_graph
from translate.exchange.onnx import check_onnx, write_onnx
from translate.exchange.onnx_graph import Graph, build_decoder, build_encoder
from translate.model import Transformer

onnx = pytest.importorskip("onnx", reason="the extra `onnx` is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")

Build = Callable[..., tuple[Transformer, Tokenizers]]


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize(
    "shape",
    [
        {"norm": "pre", "positions": "rotary", "activation": "swiglu", "tie_embeddings": "decoder"},
        {"positions": "rotary", "scale_embeddings": False, "norm_epsilon": 0.03, "output_bias": True},
        {"norm": "pre", "positions": "learned", "max_positions": 7, "d_model": 21, "num_heads": 3},
        {"positions": "relative", "tie_embeddings": "none", "vocabulary": "separate", "output_bias": True},
        {"norm": "pre", "positions": "relative", "relative_buckets": 11, "relative_max_distance": 37},
    ],
    ids=str,
)
def test_options_of_the_model(build: Build, tmp_path: Path, shape: dict[str, object], int8: bool) -> None:
    torch.manual_seed(1)
    model, tokenizers = build(**shape)
    write_onnx(model, tokenizers, Config.model_construct(model=model.config), tmp_path, int8=int8)  # checks it


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Transformer, Any, Any]:
    """A model, and its two graphs in ONNX Runtime."""
    folder = tmp_path_factory.mktemp("graphs")
    torch.manual_seed(1)
    config = Config().model.model_copy(
        update={"d_model": 20, "num_heads": 2, "d_ff": 28, "num_encoder_layers": 1, "num_decoder_layers": 2}
        | {"norm": "pre", "positions": "rotary"}
    )
    model = Transformer(config, source_vocab_size=37, target_vocab_size=37, pad_id=0).eval()
    build_encoder(Graph(onnx, model, int8=False)).save(folder / "encoder.onnx")
    build_decoder(Graph(onnx, model, int8=False)).save(folder / "decoder.onnx")
    encoder, decoder = (onnxruntime.InferenceSession(folder / f"{name}.onnx") for name in ("encoder", "decoder"))
    return model, encoder, decoder


def test_the_names_are_those_of_optimum(sessions: tuple[Transformer, Any, Any]) -> None:
    _, encoder, decoder = sessions
    assert [each.name for each in encoder.get_inputs()] == ["input_ids", "attention_mask"]
    assert [each.name for each in encoder.get_outputs()] == ["last_hidden_state"]
    cache = [f"{layer}.{side}.{part}" for layer in "01" for side in ("decoder", "encoder") for part in ("key", "value")]
    assert {each.name for each in decoder.get_inputs()} == {
        "input_ids",
        "encoder_hidden_states",
        "encoder_attention_mask",
        *(f"past_key_values.{name}" for name in cache),
    }
    assert [each.name for each in decoder.get_outputs()] == ["logits", *(f"present.{name}" for name in cache)]


@pytest.mark.parametrize("parts", [(5,), (3, 2), (1, 3, 1)], ids=str)
def test_several_positions_after_a_cache(sessions: tuple[Transformer, Any, Any], parts: tuple[int, ...]) -> None:
    """Not by the export's own check: the logits of the full forward pass, whatever positions are computed together."""
    model, encoder, decoder = sessions
    source, target = torch.tensor([[5, 6, 7, 3], [8, 3, 0, 0]]), torch.tensor([[2, 9, 4, 11, 7], [2, 30, 31, 32, 33]])
    with torch.inference_mode():
        expected = model(source, target)
    mask = (source != 0).long().numpy()
    (hidden,) = encoder.run(None, {"input_ids": source.numpy(), "attention_mask": mask})
    names = [each.name for each in decoder.get_inputs() if each.name.startswith("past")]
    cache = {name: torch.zeros(2, 2, 0, 10).numpy() for name in names}
    found = []
    for ids in target.split(parts, dim=1):
        inputs = {"input_ids": ids.numpy(), "encoder_hidden_states": hidden, "encoder_attention_mask": mask}
        logits, *present = decoder.run(None, inputs | cache)
        found.append(torch.from_numpy(logits))
        cache = dict(zip(names, present, strict=True))
    assert [cache[name].shape[2] for name in names[:4]] == [5, 5, 4, 4]
    assert torch.allclose(torch.cat(found, dim=1), expected, rtol=0, atol=1e-5)


def test_weights_that_are_too_large_for_the_file(build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokenizers = build()
    monkeypatch.setattr(onnx_graph, "LARGEST_FILE", 1000)
    (tmp_path / "written").mkdir()
    write_onnx(model, tokenizers, Config.model_construct(model=model.config), tmp_path / "written", int8=False)
    assert (tmp_path / "written" / "decoder_model_merged.onnx_data").stat().st_size > 20_000
    moved = (tmp_path / "written").rename(tmp_path / "moved")  # as an export is, when it is whole
    check_onnx(moved, model, int8=False)
