"""Small models of each kind of positions with weights drawn at random, and tokenizers with words of several pieces."""

from typing import Any

import pytest
import torch
from harness import MakeTranslator, random_model

from translate.config.decoding import DecodingConfig
from translate.config.schema import TokenizerConfig
from translate.data.tokenizer import Tokenizers, prepare_tokenizers
from translate.decoding import Translator

GERMAN = ["Ein Hund läuft über die Straße.", "Der Hund schläft.", "Zwei Künstler danken den Eltern."]
ENGLISH = ["A dog runs across the street.", "The dog sleeps.", "Two artists thank the parents."]

SHAPE = {"d_model": 24, "num_heads": 3, "d_ff": 40, "num_encoder_layers": 2, "num_decoder_layers": 2}
SHAPE |= {"max_positions": 40, "relative_buckets": 8, "relative_max_distance": 12}
LIMITS = {"device": "cpu", "precision": "fp32", "beam_size": 2, "max_length_factor": 0.0, "max_length_constant": 5}


@pytest.fixture(scope="session")
def tokenizers() -> Tokenizers:
    return prepare_tokenizers(TokenizerConfig(vocab_size=320), GERMAN, ENGLISH)


@pytest.fixture(scope="session")
def make_translator(tokenizers: Tokenizers) -> MakeTranslator:
    """A translator whose model has no zeros and no ones that could hide a mistake: biases, norms and tables too."""

    def make(*, decoding: dict[str, Any] | None = None, **settings: Any) -> Translator:
        torch.manual_seed(7)
        model = random_model(tokenizers, **SHAPE | settings).eval()
        return Translator(model, tokenizers, DecodingConfig(**LIMITS | (decoding or {})))

    return make
