"""What MarianMT can express is the same there, logits within 1e-4 and all texts; the rest is named."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from translate.config.decoding import DecodingConfig
from translate.config.load import load_config
from translate.config.schema import Config, ModelConfig
from translate.data.tokenizer import Tokenizers
from translate.decoding import Translator
from translate.errors import RunError
from translate.exchange import export_run
from translate.exchange.huggingface import check_huggingface, write_huggingface
from translate.exchange.marian_mt import generation_settings, marian_lacks
from translate.model import Transformer

Toy = Any  # conftest.py's: test modules cannot import each other

transformers = pytest.importorskip("transformers", reason="the extra `huggingface` is not installed")

Build = Callable[..., tuple[Transformer, Tokenizers]]

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses:UserWarning")


@pytest.mark.parametrize(
    "shape",
    [
        {"scale_embeddings": False, "output_bias": True},
        {"tie_embeddings": "decoder", "vocabulary": "separate"},
        {"tie_embeddings": "none", "vocabulary": "separate"},
    ],
    ids=str,
)
def test_models(build: Build, tmp_path: Path, shape: dict[str, object]) -> None:
    model, tokenizers = build(**shape)
    config = Config.model_construct(model=model.config)
    write_huggingface(model, tokenizers, config, tmp_path)  # checks what it wrote


def test_the_preset_for_marian_builds_and_exports(build: Build, tmp_path: Path) -> None:
    config = load_config("multi30k-marian").config
    model, tokenizers = build(**config.model.model_dump(), noise=0.02)
    assert len(model.encoder.layers) == 3
    write_huggingface(model, tokenizers, config, tmp_path)  # checks what it wrote
    lacking = marian_lacks(load_config("multi30k").config.model)
    assert lacking == ["model.norm = 'pre' (it has 'post')", "model.positions = 'rotary' (it has 'sinusoidal')"]


def test_translates_offline_as_the_run_does(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    export_run(toy.path, to="huggingface", output=tmp_path / "marian")
    tokenizer = transformers.MarianTokenizer.from_pretrained(tmp_path / "marian")
    model = transformers.MarianMTModel.from_pretrained(tmp_path / "marian")
    batch = tokenizer(toy.sources, return_tensors="pt", padding=True)
    ids = model.generate(**batch, num_beams=1, max_length=40)
    greedy = Translator(toy.model, toy.tokenizers, DecodingConfig(beam_size=1, device="cpu"))
    expected = [translation.text for translation in greedy.translate(toy.sources)]
    assert tokenizer.batch_decode(ids, skip_special_tokens=True) == expected
    ids = model.config
    assert (ids.pad_token_id, ids.bos_token_id, ids.eos_token_id, ids.decoder_start_token_id) == (0, 2, 3, 2)
    assert model.generation_config.num_beams == 5


@pytest.mark.parametrize(
    ("kind", "expected", "warning"),
    [("average", 0.7, ""), ("none", 0.0, ""), ("gnmt", 0.7, "length_penalty_kind = 'gnmt'")],
)
def test_the_length_penalty_is_of_its_kind(
    caplog: pytest.LogCaptureFixture, kind: str, expected: float, warning: str
) -> None:
    config = DecodingConfig.model_validate({"length_penalty_kind": kind, "length_penalty": 0.7})
    assert generation_settings(config)["length_penalty"] == expected
    assert (warning in caplog.text) and bool(caplog.records) == bool(warning)


@pytest.mark.parametrize(
    ("key", "value"), [("coverage_penalty", 0.2), ("min_length_constant", 3), ("diversity_groups", 5), ("mbr", "chrf")]
)
def test_settings_that_are_lost_are_named(caplog: pytest.LogCaptureFixture, key: str, value: object) -> None:
    generation_settings(DecodingConfig.model_validate({key: value, "length_penalty": 0.0}))
    (record,) = caplog.records
    assert record.levelname == "WARNING" and f"decoding.{key} = {value!r}" in record.message


def test_tokens_are_ours(separate_tokenizers: Tokenizers, build: Build, tmp_path: Path) -> None:
    """Each side by its own vocabulary; a character that it cannot spell is the unknown token."""
    model, tokenizers = build(tie_embeddings="decoder", vocabulary="separate")
    write_huggingface(model, tokenizers, Config.model_construct(model=model.config), tmp_path)
    tokenizer = transformers.MarianTokenizer.from_pretrained(tmp_path)
    text = "  der Hund läuft, Ж 5"
    assert tokenizer(text)["input_ids"] == [*tokenizers.source.encode(text), 3]
    assert 1 in tokenizer(text)["input_ids"]
    assert tokenizer(text_target="dog runs")["input_ids"] == [*tokenizers.target.encode("dog runs"), 3]


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ({"activation": "swiglu"}, "model.activation = 'swiglu' (it has 'relu' or 'gelu' or 'swish')"),
        ({"norm_epsilon": 1e-6}, "model.norm_epsilon = 1e-06 (it has 1e-05)"),
        ({"norm": "pre", "positions": "rotary"}, "model.norm = 'pre' (it has 'post'), model.positions = 'rotary'"),
    ],
)
def test_what_marian_lacks_is_named_by_its_key(shape: dict[str, object], words: str) -> None:
    assert ", ".join(marian_lacks(ModelConfig.model_validate(shape))).startswith(words)


def test_a_changed_weight_fails_the_check(build: Build, tmp_path: Path) -> None:
    model, tokenizers = build()
    write_huggingface(model, tokenizers, Config.model_construct(model=model.config), tmp_path)
    with torch.no_grad():
        model.decoder.layers[1].get_parameter("self_attention.input_projection.weight")[5, 7] += 1.0
    with pytest.raises(RunError, match=r"its logits differ by up to .*, and 0\.0001 is allowed"):
        check_huggingface(tmp_path, model, tokenizers)


def test_another_tokenizer_fails_the_check(build: Build, tmp_path: Path, separate_tokenizers: Tokenizers) -> None:
    model, tokenizers = build(tie_embeddings="decoder", vocabulary="separate")
    write_huggingface(model, tokenizers, Config.model_construct(model=model.config), tmp_path)
    (tmp_path / "source.spm").write_bytes(tokenizers.target.model_bytes)
    with pytest.raises(RunError, match="the exported tokenizer gives"):
        check_huggingface(tmp_path, model, tokenizers)
