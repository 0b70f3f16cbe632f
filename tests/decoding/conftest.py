"""A small model that has learnt a toy language, so that its translations are not trivial and end by themselves."""

import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
import torch
from jaxtyping import config as shape_checks

from translate.config.data import TokenizerConfig
from translate.config.schema import ModelConfig
from translate.data.tokenizer import PAD_ID, Tokenizers, prepare_tokenizers
from translate.model import Transformer

WORDS = {"Hund": "dog", "Haus": "house", "läuft": "runs", "schläft": "sleeps", "grün": "green"}
WORDS |= {"Straße": "street", "und": "and", "der": "the"}


class Toy(NamedTuple):
    """A trained model, and sentences that it has not seen."""

    model: Transformer
    tokenizers: Tokenizers
    sources: list[str]
    references: list[str]


@pytest.fixture
def no_shape_checks() -> Iterator[None]:
    """Most of a search's time is the checking of shapes, which tests need not do that repeat the search of others."""
    shape_checks.update("jaxtyping_disable", True)
    yield
    shape_checks.update("jaxtyping_disable", False)


@pytest.fixture(scope="session")
def toy(toy_sentences: Callable[..., tuple[list[str], list[str]]], teach: Callable[..., None]) -> Toy:
    sentences = toy_sentences(1200, longest=6, draw=random.Random(1), words=WORDS)
    tokenizers = prepare_tokenizers(TokenizerConfig(vocab_size=310), *sentences)
    torch.manual_seed(1)
    config = ModelConfig(
        d_model=32,
        num_heads=4,
        d_ff=64,
        num_encoder_layers=1,
        num_decoder_layers=1,
        norm="pre",
        positions="rotary",
    )
    model = Transformer(
        config,
        source_vocab_size=tokenizers.source.vocab_size,
        target_vocab_size=tokenizers.target.vocab_size,
        pad_id=PAD_ID,
    )

    # The rate falls in the end; else the last digits of a CPU decide whether the model learns where sentences end.
    def rate(step: int) -> float:
        return 1e-2 * min(1.0, step / 30, (301 - step) / 100)

    teach(model, tokenizers, sentences, num_steps=300, batch_size=32, rate=rate)
    return Toy(model, tokenizers, *toy_sentences(37, longest=7, draw=random.Random(3), words=WORDS))
