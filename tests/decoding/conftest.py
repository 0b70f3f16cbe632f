"""A small model that has learnt a toy language, so that its translations are not trivial and end by themselves."""

import random
from collections.abc import Callable

import pytest
import torch
from harness import TAGS, Toy, make_two_ways, teach, tiny_config, toy_sentences, write_run

from translate.config.decoding import DecodingConfig
from translate.data.tokenizer import prepare_tokenizers
from translate.decoding import Translator
from translate.runs.weights import build_model

WORDS = {"Hund": "dog", "Haus": "house", "läuft": "runs", "schläft": "sleeps", "grün": "green"}
WORDS |= {"Straße": "street", "und": "and", "der": "the"}


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """A trained model with its run, and sentences that it has not seen. Only to be read."""
    sentences = toy_sentences(1200, longest=6, draw=random.Random(1), words=WORDS)
    config = tiny_config(
        tokenizer={"vocab_size": 310},
        model={"d_model": 32, "num_heads": 4, "d_ff": 64, "norm": "pre", "positions": "rotary"},
        decoding={"beam_size": 5, "max_length_factor": 2.0, "max_length_constant": 20},
    )
    tokenizers = prepare_tokenizers(config.tokenizer, *sentences)
    torch.manual_seed(1)
    model = build_model(config, tokenizers)

    # The rate falls in the end; else the last digits of a CPU decide whether the model learns where sentences end.
    def rate(step: int) -> float:
        return 1e-2 * min(1.0, step / 30, (301 - step) / 100)

    teach(model, tokenizers, sentences, num_steps=300, batch_size=32, rate=rate)
    path = write_run(tmp_path_factory.mktemp("runs") / "toy", config, tokenizers, model)
    return Toy(path, config, model, tokenizers, *toy_sentences(37, longest=7, draw=random.Random(3), words=WORDS))


@pytest.fixture(scope="session")
def two_ways(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Toy]:
    """Runs of one model that has learnt the toy language and its reverse, by the kind of tags. Only to be read."""
    return make_two_ways(tmp_path_factory.mktemp("two-ways"), list(TAGS))


@pytest.fixture
def translator(toy: Toy) -> Callable[..., Translator]:
    """Makes a translator of the toy's model with other settings."""

    def make(**settings: object) -> Translator:
        return Translator(toy.model, toy.tokenizers, DecodingConfig.model_validate({"device": "cpu", **settings}))

    return make
