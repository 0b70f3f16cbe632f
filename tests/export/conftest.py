"""A run with a small model that has learnt a toy language, and untrained models of every shape."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from translate.config.data import TokenizerConfig
from translate.config.decoding import DecodingConfig
from translate.config.schema import Config, ModelConfig
from translate.data.tokenizer import PAD_ID, Tokenizers, prepare_tokenizers
from translate.model import Transformer
from translate.runs.checkpoint import add_prefix, write_tensors
from translate.runs.directory import create_run
from translate.runs.loading import build_model, get_parameters

Sentences = Callable[..., tuple[list[str], list[str]]]


class Toy(NamedTuple):
    """A run on the disk, its model, and sentences that the model has not seen."""

    path: Path
    config: Config
    model: Transformer
    tokenizers: Tokenizers
    sources: list[str]
    references: list[str]


def write_run(path: Path, config: Config, tokenizers: Tokenizers, model: Transformer) -> None:
    run = create_run(path, config=config, tokenizers=tokenizers, command=["translate", "train"])
    write_tensors(run.checkpoint("best"), add_prefix(get_parameters(model), "model."), {"step": "150"})


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory, toy_sentences: Sentences, teach: Callable[..., None]) -> Toy:
    sentences = toy_sentences(3000, longest=6, draw=random.Random(1))
    config = Config(
        tokenizer=TokenizerConfig(vocab_size=300),
        model=ModelConfig(
            d_model=32,
            num_heads=4,
            d_ff=64,
            num_encoder_layers=1,
            num_decoder_layers=1,
            dropout=0.0,
            initialization="xavier",
        ),
        decoding=DecodingConfig(device="cpu"),
    )
    tokenizers = prepare_tokenizers(config.tokenizer, *sentences)
    torch.manual_seed(1)
    model = build_model(config, tokenizers)

    def rate(step: int) -> float:
        return 5e-3 * min(step / 30, 1.0, (241 - step) / 120)

    teach(model, tokenizers, sentences, num_steps=240, batch_size=24, rate=rate)
    path = tmp_path_factory.mktemp("runs") / "toy"
    write_run(path, config, tokenizers, model)
    return Toy(path, config, model, tokenizers, *toy_sentences(37, longest=6, draw=random.Random(3)))


@pytest.fixture
def save_run() -> Callable[[Path, Config, Tokenizers, Transformer], None]:
    """Makes a run directory of a model."""
    return write_run


@pytest.fixture(scope="session")
def separate_tokenizers(toy_sentences: Sentences) -> Tokenizers:
    """A vocabulary for each side, of different sizes; without byte fallback they are small."""
    sources, targets = toy_sentences(100, longest=6, draw=random.Random(5))
    config = TokenizerConfig(vocabulary="separate", vocab_size=23, byte_fallback=False)
    return prepare_tokenizers(config, sources, targets)._replace(
        target=prepare_tokenizers(config.model_copy(update={"vocab_size": 27}), sources, targets).target
    )


@pytest.fixture
def build(toy: Toy, separate_tokenizers: Tokenizers) -> Callable[..., tuple[Transformer, Tokenizers]]:
    """Makes an untrained model with all its weights far from zero, biases and norms too, and its tokenizers."""

    def build_random(
        *, vocabulary: str = "joint", noise: float = 0.3, **shape: object
    ) -> tuple[Transformer, Tokenizers]:
        tokenizers = toy.tokenizers if vocabulary == "joint" else separate_tokenizers
        sizes = {"d_model": 20, "num_heads": 2, "d_ff": 28, "num_encoder_layers": 2, "num_decoder_layers": 3}
        model = Transformer(
            ModelConfig.model_validate(sizes | shape),
            source_vocab_size=tokenizers.source.vocab_size,
            target_vocab_size=tokenizers.target.vocab_size,
            pad_id=PAD_ID,
        )
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += noise * torch.randn_like(parameter)
        return model.eval(), tokenizers

    return build_random
