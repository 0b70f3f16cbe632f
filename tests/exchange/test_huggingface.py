"""Exports to MarianMT: settings of the search, tokens, and what MarianMT lacks; searches are in test_marian_mt.py."""

from pathlib import Path
from typing import Any

import pytest
from harness import model_to_export, toy_tokenizers

from translate.config.decoding import DecodingConfig
from translate.config.schema import Config
from translate.data.tokenizer import Tokenizers
from translate.errors import RunError
from translate.exchange import huggingface
from translate.exchange.card import find_lost_settings
from translate.exchange.huggingface import generation_settings, write_huggingface

transformers = pytest.importorskip("transformers", reason="the extra `huggingface` is not installed")

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses:UserWarning")


@pytest.mark.parametrize(
    ("key", "value", "written", "lost_in"),
    [
        ("length_penalty_kind", "average", {"length_penalty": 0.7}, []),
        ("length_penalty_kind", "none", {"length_penalty": 0.0}, []),
        ("length_penalty_kind", "gnmt", {"length_penalty": 0.49}, ["huggingface"]),
        ("max_length_factor", 1.5, {"max_length": 512}, []),  # the code in the card has it
        ("max_length_constant", 17, {"max_length": 18}, []),
        ("patience", 2, {"early_stopping": False}, ["huggingface"]),
        ("patience", 1, {"early_stopping": True}, []),
        ("patience", 0, {"early_stopping": False}, ["ctranslate2"]),
        ("min_length_constant", 5, {"min_length": 6}, ["ctranslate2"]),  # with the start symbol
        ("no_repeat_ngram", 3, {"no_repeat_ngram_size": 3}, ["ctranslate2"]),
        ("repetition_penalty", 1.5, {"repetition_penalty": 1.5}, ["ctranslate2"]),
        ("forbidden_ids", ((7,), (8, 9)), {"bad_words_ids": [[7], [8, 9]]}, ["ctranslate2"]),
        ("batch_tokens", 77, {}, []),
    ],
)
def test_settings_of_the_search(key: str, value: object, written: dict[str, object], lost_in: list[str]) -> None:
    """They are written, or named as lost."""
    base = {"length_penalty_kind": "average", "length_penalty": 0.7, "max_length_factor": 0.0, "patience": 1}
    config = DecodingConfig.model_validate(base | {key: value})
    settings = generation_settings(Config(decoding=config), toy_tokenizers(), limit=None, rows=range(300))
    assert settings | written == settings
    lost = [to for to in ("huggingface", "ctranslate2") if f"{key} = {value}" in find_lost_settings(config, to)]
    assert lost == lost_in


def test_other_numbers_and_another_tokenizer_fail_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"tie_embeddings": "none", "vocabulary": "separate", "scale_embeddings": False, "output_bias": True}
    model, tokenizers = model_to_export(**options)
    config, write_right = Config.model_construct(model=model.config), huggingface.write_marian_tokenizer
    weights = huggingface.foreign_weights(model, "marian_mt")
    weights["model.decoder.layers.1.self_attn.q_proj.weight"][5, 7] += 1.0
    with (
        monkeypatch.context() as patch,
        pytest.raises(RunError, match=r"its logits differ by .* 0\.0001 .*is allowed"),
    ):
        patch.setattr(huggingface, "foreign_weights", lambda *given: weights)
        write_huggingface(model, tokenizers, config, tmp_path)

    def write_wrong(tokenizers: Tokenizers, config: Config, directory: Path, **options: Any) -> None:
        write_right(tokenizers, config, directory, **options)
        (directory / "source.spm").write_bytes(tokenizers.target.model_bytes)

    monkeypatch.setattr(huggingface, "write_marian_tokenizer", write_wrong)
    with pytest.raises(RunError, match="does not split"):
        write_huggingface(model, tokenizers, config, tmp_path)
