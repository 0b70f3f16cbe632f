"""Small models of each kind of positions with weights drawn at random, and tokenizers with words of several pieces."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from translate.config.data import TokenizerConfig
from translate.config.decoding import DecodingConfig
from translate.config.schema import ModelConfig
from translate.data.tokenizer import PAD_ID, Tokenizers, prepare_tokenizers
from translate.decoding import Translator
from translate.model import Transformer

GERMAN = ["Ein Hund läuft über die Straße.", "Der Hund schläft.", "Zwei Künstler danken den Eltern."]
ENGLISH = ["A dog runs across the street.", "The dog sleeps.", "Two artists thank the parents."]

MakeTranslator = Callable[..., Translator]


@pytest.fixture(scope="session")
def tokenizers() -> Tokenizers:
    return prepare_tokenizers(TokenizerConfig(vocab_size=320), GERMAN, ENGLISH)


@pytest.fixture(scope="session")
def make_translator(tokenizers: Tokenizers) -> MakeTranslator:
    """A translator whose model has no zeros and no ones that could hide a mistake: biases, norms and tables too."""

    def make(*, decoding: dict[str, Any] | None = None, **settings: Any) -> Translator:
        config = ModelConfig(
            **{
                "d_model": 24,
                "num_heads": 3,
                "d_ff": 40,
                "num_encoder_layers": 2,
                "num_decoder_layers": 2,
                "max_positions": 40,
                "relative_buckets": 8,
                "relative_max_distance": 12,
                **settings,
            }
        )
        torch.manual_seed(7)
        model = Transformer(
            config,
            source_vocab_size=tokenizers.source.vocab_size,
            target_vocab_size=tokenizers.target.vocab_size,
            pad_id=PAD_ID,
        )
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.2 * torch.randn_like(parameter))
        limits = {
            "device": "cpu",
            "precision": "fp32",
            "beam_size": 2,
            "max_length_factor": 0.0,
            "max_length_constant": 5,
        }
        return Translator(model.eval(), tokenizers, DecodingConfig(**{**limits, **(decoding or {})}))

    return make
