"""The weights of a model are counted right without building it."""

from pathlib import Path
from typing import Any

import pytest
from harness import write_digits

from translate.config.schema import ModelConfig
from translate.model import Transformer
from translate.runs.loading import count_weights
from translate.training.preparation import make_tokenizers, read_corpora


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
