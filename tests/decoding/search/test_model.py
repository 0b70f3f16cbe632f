"""The models as the search sees them, against full forward passes of each model and hypothesis by itself."""

import copy
import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from harness import Toy
from torch import Tensor

from translate.config.decoding import DecodingConfig
from translate.data.tokenizer import BOS_ID, EOS_ID, PAD_ID
from translate.decoding import Translator
from translate.decoding.engines.own import OwnEngine
from translate.decoding.search.loop import NextTokenModel
from translate.decoding.search.model import CachedDecoder
from translate.model import Transformer


def build(toy: Toy, *, beam_size: int, **options: Any) -> CachedDecoder:
    sources = [toy.tokenizers.source.encode(source) for source in toy.sources]
    return CachedDecoder([toy.model], sources, beam_size=beam_size, max_length=7, **options)


@torch.no_grad()
def all_log_probs(model: Transformer, source: Sequence[int], target: Sequence[int]) -> Tensor:
    """(target + 1, vocab), by one full forward pass; of padding and the start symbol none."""
    log_probs = model(torch.tensor([[*source, EOS_ID]]), torch.tensor([[BOS_ID, *target]]))[0].log_softmax(dim=1)
    return log_probs.index_fill(1, torch.tensor([PAD_ID, BOS_ID]), -math.inf)


@torch.no_grad()
def test_log_probs_are_those_of_the_forward_pass(toy: Toy) -> None:
    """Of two hypotheses per sentence that are reordered, while other sentences join and leave."""
    decoder = build(toy, beam_size=2)
    assert isinstance(decoder, NextTokenModel)
    cache = decoder.start([3, 5], [0, 1], None)
    _, cache = decoder.step(torch.full((2, 2), BOS_ID), cache)
    log_probs, cache = decoder.step(torch.tensor([[4, 5], [6, 7]]), cache)
    for row, targets in ((0, ([4], [5])), (1, ([6], [7]))):
        for slot, target in enumerate(targets):
            full = all_log_probs(toy.model, decoder.source_ids[[3, 5][row]], target)[-1]
            torch.testing.assert_close(log_probs[row, slot], full, rtol=0, atol=1e-4)

    cache = decoder.reorder(cache, torch.tensor([[1, 1], [0, 1]]))
    cache = decoder.start([7, 2], [1, 2], cache)  # in the row of one that has left, and after the last
    log_probs, cache = decoder.step(torch.tensor([[8, 9], [BOS_ID] * 2, [BOS_ID] * 2]), cache)
    for row, slot, sentence, target in ((0, 0, 3, [5, 8]), (0, 1, 3, [5, 9]), (1, 0, 7, []), (2, 1, 2, [])):
        full = all_log_probs(toy.model, decoder.source_ids[sentence], target)[-1]
        torch.testing.assert_close(log_probs[row, slot], full, rtol=0, atol=1e-4)

    cache = decoder.select_rows(cache, [2])
    log_probs, _ = decoder.step(torch.tensor([[8, 9]]), cache)
    torch.testing.assert_close(
        log_probs[0, 1], all_log_probs(toy.model, decoder.source_ids[2], [9])[-1], rtol=0, atol=1e-4
    )


@pytest.fixture(scope="module")
def other(toy: Toy) -> Transformer:
    """The trained model with noise on its weights: another opinion, and worth having."""
    model: Transformer = copy.deepcopy(toy.model)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.15 * parameter.std() * torch.randn(parameter.shape, generator=generator))
    return model


def translator(toy: Toy, *ensemble: Transformer, **settings: object) -> Translator:
    config = DecodingConfig.model_validate({"device": "cpu", **settings})
    return Translator(OwnEngine(toy.model, toy.tokenizers.target, ensemble=ensemble), toy.tokenizers, config)


def test_an_ensemble_is_the_mean_of_probabilities(toy: Toy, other: Transformer) -> None:
    """By whole forward passes of both models; most translations differ from the first model's own."""
    plain = translator(toy, beam_size=1).translate(toy.sources[:5])
    num_different = 0
    found = translator(toy, other, beam_size=1, batch_tokens=29).translate(toy.sources[:5])
    for translation, own in zip(found, plain, strict=True):
        assert not translation.truncated
        given = [all_log_probs(model, list(translation.source_ids), translation.ids) for model in (toy.model, other)]
        tokens = [*translation.ids, EOS_ID]
        for token, log_prob, first, second in zip(tokens, translation.token_log_probs, *given, strict=True):
            combined = ((first.exp() + second.exp()) / 2).log()
            assert int(combined.argmax()) == token
            assert log_prob == pytest.approx(float(combined[token]), abs=1e-4)
        num_different += translation.token_log_probs != pytest.approx(own.token_log_probs, abs=1e-3)
    assert num_different > 2
