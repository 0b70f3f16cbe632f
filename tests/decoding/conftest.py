"""A small model that has learnt a toy language, so that its translations are not trivial and end by themselves."""

import random
from collections.abc import Iterator
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from jaxtyping import config as shape_checks

from translate.config.data import TokenizerConfig
from translate.config.schema import ModelConfig
from translate.data.batching import EncodedPair, collate
from translate.data.tokenizer import PAD_ID, Tokenizers, prepare_tokenizers
from translate.model import Transformer

WORDS = {
    "Hund": "dog",
    "Haus": "house",
    "läuft": "runs",
    "schläft": "sleeps",
    "grün": "green",
    "Straße": "street",
    "und": "and",
    "der": "the",
}


class Toy(NamedTuple):
    """A trained model, and sentences that it has not seen."""

    model: Transformer
    tokenizers: Tokenizers
    sources: list[str]
    references: list[str]


def toy_sentences(number: int, *, seed: int, longest: int) -> tuple[list[str], list[str]]:
    """Random words, and each word's translation, twice where it is "und" (so lengths differ from the source's)."""
    generator = random.Random(seed)
    sources = [generator.choices(list(WORDS), k=generator.randint(1, longest)) for _ in range(number)]
    targets = [[WORDS[word] + (" and" if word == "und" else "") for word in words] for words in sources]
    return [" ".join(words) for words in sources], [" ".join(words) for words in targets]


@pytest.fixture
def no_shape_checks() -> Iterator[None]:
    """Most of a search's time is the checking of shapes, which tests need not do that repeat the search of others."""
    shape_checks.update("jaxtyping_disable", True)
    yield
    shape_checks.update("jaxtyping_disable", False)


@pytest.fixture(scope="session")
def toy() -> Toy:
    sources, targets = toy_sentences(1200, seed=1, longest=6)
    tokenizers = prepare_tokenizers(TokenizerConfig(vocab_size=310), sources, targets)
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
    pairs = [
        EncodedPair(tokenizers.source.encode(source), tokenizers.target.encode(target))
        for source, target in zip(sources, targets, strict=True)
    ]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, betas=(0.9, 0.98))
    generator = random.Random(2)
    was_disabled = bool(shape_checks.jaxtyping_disable)
    shape_checks.update("jaxtyping_disable", True)
    for step in range(300):
        for group in optimizer.param_groups:
            group["lr"] = 1e-2 * min(1.0, (step + 1) / 30)
        batch = collate(generator.sample(pairs, 32), range(32))
        logits = model(batch.source_ids, batch.target_input_ids)
        loss = F.cross_entropy(logits.flatten(0, 1), batch.target_output_ids.flatten(), ignore_index=PAD_ID)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    shape_checks.update("jaxtyping_disable", was_disabled)
    new_sources, references = toy_sentences(37, seed=3, longest=7)
    return Toy(model.eval(), tokenizers, new_sources, references)
