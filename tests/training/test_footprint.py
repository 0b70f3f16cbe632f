"""The least memory of a training run, known before a model is built."""

from pathlib import Path
from typing import Any

import pytest
import torch
from harness import write_digits

from translate.config.schema import Config, ModelConfig
from translate.distributed.process_group import SINGLE_PROCESS
from translate.model import Transformer
from translate.runs.weights import count_weights
from translate.training import footprint
from translate.training.preparation import make_tokenizers, read_corpora


@pytest.mark.parametrize("tying", ["all", "decoder", "inputs", "none"])
@pytest.mark.parametrize(("activation", "head_dim"), [("relu", None), ("swiglu", 97)])
def test_the_weights_are_counted_without_a_model(
    tmp_path: Path, tying: str, activation: Any, head_dim: int | None
) -> None:
    vocabulary = "joint" if tying in ("all", "inputs") else "separate"
    config = write_digits(tmp_path)(f"tokenizer.vocabulary={vocabulary}", f"model.tie_embeddings={tying}")
    tokenizers = make_tokenizers(config, read_corpora(config))
    sizes = ModelConfig(
        d_model=256,
        num_heads=4,
        num_encoder_layers=2,
        num_decoder_layers=1,
        tie_embeddings=tying,
        activation=activation,
        head_dim=head_dim,
    )
    source, target = tokenizers.source.vocab_size, tokenizers.target.vocab_size
    model = Transformer(sizes, source_vocab_size=source, target_vocab_size=target, pad_id=0)
    assert 0.99 * model.num_parameters < count_weights(sizes, tokenizers) < model.num_parameters


@pytest.mark.parametrize(
    ("batch_tokens", "num_values"),
    [
        ((1000, 10), 2 * 1000 * (8 * 256 + 2 * 512) + 3 * (10 * (12 * 256 + 2 * 512) + 1000 * 2 * 256)),
        ((10, 1000), 2 * 10 * (8 * 256 + 2 * 512) + 3 * (1000 * (12 * 256 + 2 * 512) + 10 * 2 * 256)),
    ],
)
def test_each_stack_keeps_its_own_side(
    monkeypatch: pytest.MonkeyPatch, batch_tokens: tuple[int, int], num_values: int
) -> None:
    """Only the keys and values of cross-attention belong to the decoder and to the source."""
    needed: list[int] = []
    monkeypatch.setattr(footprint, "check_free_memory", lambda num_bytes, *_, **__: needed.append(num_bytes))
    sizes = {"d_model": 256, "num_heads": 4, "d_ff": 512, "num_encoder_layers": 2, "num_decoder_layers": 3}
    config = Config.model_validate({"model": sizes, "training": {"precision": "fp32"}})
    footprint.check_training_fits(
        config, 0, device=torch.device("cpu"), batch_tokens=batch_tokens, world=SINGLE_PROCESS
    )
    assert needed == [4 * num_values]
