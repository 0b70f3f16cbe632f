"""The least memory of a training: the weights are counted right, and the bound is one."""

from pathlib import Path
from typing import Any

import pytest
import torch
from harness import write_digits

from translate.config.schema import ModelConfig
from translate.lint.check import check
from translate.lint.dry_run import peak_memory
from translate.model import Transformer
from translate.runs.loading import count_weights
from translate.training import footprint
from translate.training.preparation import make_tokenizers, read_corpora

CPU = torch.device("cpu")


@pytest.mark.parametrize("tying", ["all", "decoder", "none"])
@pytest.mark.parametrize("activation", ["relu", "swiglu"])
def test_the_weights_are_counted_without_a_model(tmp_path: Path, tying: str, activation: Any) -> None:
    vocabulary = "joint" if tying == "all" else "separate"
    config = write_digits(tmp_path)(f"tokenizer.vocabulary={vocabulary}", f"model.tie_embeddings={tying}")
    tokenizers = make_tokenizers(config, read_corpora(config))
    sizes = ModelConfig(
        d_model=256,
        num_heads=4,
        num_encoder_layers=2,
        num_decoder_layers=1,
        tie_embeddings=tying,
        activation=activation,
    )
    source, target = tokenizers.source.vocab_size, tokenizers.target.vocab_size
    model = Transformer(sizes, source_vocab_size=source, target_vocab_size=target, pad_id=0)
    assert 0.99 * model.num_parameters < count_weights(sizes, tokenizers) < model.num_parameters


def test_the_bound_is_below_what_a_training_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if peak_memory(CPU) is None:
        pytest.skip("the peak of memory is not known here")
    bounds: list[int] = []
    monkeypatch.setattr(footprint, "check_free_memory", lambda num_bytes, *_, **__: bounds.append(num_bytes))
    report = check(write_digits(tmp_path)("model.d_model=512", "model.num_heads=4", "model.d_ff=2048"))
    assert report.dry_run is not None and report.dry_run.peak_bytes is not None
    assert 0.3 * report.dry_run.peak_bytes < bounds[0] < report.dry_run.peak_bytes
